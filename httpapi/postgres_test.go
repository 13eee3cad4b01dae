package httpapi

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/store/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Around(m)) }

// What only a database with many writers at once can show, where PostgreSQL is
// asked for.
func TestOnPostgres(t *testing.T) {
	if os.Getenv("DAYBOOK_TEST_POSTGRES") == "" {
		return
	}
	for name, test := range map[string]func(*world){"Calls": testCalls, "L35SameKeyAtOnce": testL35,
		"ManyClientsWait": testManyClientsWait, "ClaimIsRepeatable": testClaimIsRepeatable,
		"DocumentsAreKept": testDocumentsAreKept, "Abuse": testAbuse} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Database(t)
			if _, err := postgres.Up(t.Context(), url, postgres.Options{}, nil); err != nil {
				t.Fatal(err)
			}
			book, err := postgres.Open(t.Context(), url, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				daybooktest.Check(t, book)
				book.Close()
			})
			test(worldOn(t, book))
		})
	}
}
