package redis

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook/internal/brokertest"
)

func TestMain(m *testing.M) { brokertest.Main(leakless{m}) }

// leakless fails the run when a goroutine is left.
type leakless struct{ tests *testing.M }

func (l leakless) Run() int {
	code := l.tests.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		code = 1
	}
	return code
}
