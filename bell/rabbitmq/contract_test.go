package rabbitmq

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

// shared is the one node of this process's tests: it takes seconds to start.
var shared brokertest.Shared[*brokertest.RabbitMQ]

var places atomic.Int64

func node(t *testing.T) *brokertest.RabbitMQ {
	t.Helper()
	return shared.Get(t, brokertest.OpenRabbitMQ)
}

// place is a namespace on the shared node, behind a line of its own.
func place(t *testing.T) belltest.Harness {
	t.Helper()
	server := node(t)
	line, err := proxy.Start(server.Addr())
	must(t, err)
	t.Cleanup(func() {
		line.Close()
		if strings.HasSuffix(t.Name(), "many_queues_in_one_listening") {
			must(t, server.Wipe()) // a node with all of these takes long to start
		}
	})
	o := Options{Name: fmt.Sprintf("t.%d", places.Add(1)), Echo: belltest.Echo, Log: quiet()}
	return belltest.Harness{
		Open: func(t *testing.T) daybook.Bell {
			b, err := Open("amqp://guest:guest@"+line.Addr(), o)
			must(t, err)
			return b
		},
		Keeps: true, Acknowledges: true, DepthMost: ringsMost,
		Line:            line,
		Restart:         func(t *testing.T) { must(t, server.Restart()) },
		Wipe:            func(t *testing.T) { must(t, server.Wipe()) },
		Connections:     func(t *testing.T) int { n, err := server.Connections(); must(t, err); return n },
		ConnectionsMost: 1,
	}
}

func TestContract(t *testing.T) { belltest.Run(t, place) }

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
