package postgres

import (
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
