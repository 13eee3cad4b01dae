package postgres

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestMain(m *testing.M) {
	if !pgtest.Wanted() {
		pgtest.Main(m)
	}
	goleak.VerifyTestMain(pgtest.Around(m))
}
