package postgres

import (
	"os"
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestStoreModes is the conformance suite once more in every way in which a
// database may be reached: make test-matrix runs it, since it takes long.
func TestStoreModes(t *testing.T) {
	if os.Getenv("DAYBOOK_TEST_MODES") == "" {
		t.Log("not asked for: make test-matrix")
		return
	}
	shared := pgtest.SharedURL(t)
	t.Run("serializable", func(t *testing.T) { conform(t, serializable(t)) })
	t.Run("simple protocol", func(t *testing.T) { conform(t, dsn(shared, "default_query_exec_mode=simple_protocol")) })
	t.Run("PgBouncer", func(t *testing.T) { conform(t, pgtest.NewBouncer(t, pgtest.Shared(t), nil).URL("postgres")) })
}
