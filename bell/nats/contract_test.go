package nats

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/proxy"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if !brokertest.Wanted() {
		brokertest.Main(m)
	}
	goleak.VerifyTestMain(brokertest.With(m, &shared))
}

// shared is the one server of this process's tests.
var shared brokertest.Shared[*brokertest.NATS]

var places atomic.Int64

// place is a namespace on the shared server, behind a line of its own.
func place(t *testing.T, o Options) belltest.Harness {
	t.Helper()
	server := shared.Get(t, func() (*brokertest.NATS, error) { return brokertest.OpenNATS() })
	line, err := proxy.Start(server.Addr())
	must(t, err)
	t.Cleanup(func() { line.Close() })
	o.Name = fmt.Sprintf("t.%d", places.Add(1))
	o.Echo = belltest.Echo
	o.Log = quiet()
	return belltest.Harness{
		Open: func(t *testing.T) daybook.Bell {
			b, err := Open("nats://"+line.Addr(), o)
			must(t, err)
			return b
		},
		Line:            line,
		Restart:         func(t *testing.T) { must(t, server.Restart()) },
		Wipe:            func(t *testing.T) { must(t, server.Wipe()) },
		Connections:     func(t *testing.T) int { n, err := server.Connections(); must(t, err); return n },
		ConnectionsMost: 1,
	}
}

func TestContractCore(t *testing.T) {
	belltest.Run(t, func(t *testing.T) belltest.Harness { return place(t, Options{}) })
}

func TestContractJetStream(t *testing.T) {
	belltest.Run(t, func(t *testing.T) belltest.Harness {
		h := place(t, Options{JetStream: true, Acknowledge: time.Second})
		h.Keeps, h.Acknowledges, h.KeepsOver, h.DepthMost = true, true, true, 1
		return h
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var quiet = sync.OnceValue(func() *slog.Logger {
	if os.Getenv("DAYBOOK_TEST_LOG") != "" {
		return slog.Default()
	}
	return slog.New(slog.DiscardHandler)
})
