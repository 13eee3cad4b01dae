package postgres

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Around(m)) }

// wanted reports whether this run has a server.
func wanted(t *testing.T) bool {
	if !pgtest.Wanted() {
		t.Log("PostgreSQL is not asked for; DAYBOOK_TEST_POSTGRES=1 runs this test")
	}
	return pgtest.Wanted()
}
