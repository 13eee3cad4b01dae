package redis

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/daybookdev/daybook/internal/brokertest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&said)
	brokertest.Main(leakless{m})
}

// said is what the driver wanted to write to the program's standard error,
// beside its log and without being asked. Its logger is the whole program's, so
// the bell leaves that alone and gives it no reason to speak.
var said driverLog

type driverLog struct {
	mu    sync.Mutex
	lines []string
}

// Printf is the driver's.
func (l *driverLog) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

func (l *driverLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// leakless fails the run when a goroutine is left, or when the driver spoke.
type leakless struct{ tests *testing.M }

func (l leakless) Run() int {
	code := l.tests.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	for _, line := range said.all() {
		fmt.Fprintln(os.Stderr, "the driver wrote to standard error:", line)
		code = max(code, 1)
	}
	return code
}
