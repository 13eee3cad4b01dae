package redis

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/proxy"
)

// places counts the names used on one server.
var places atomic.Int64

func TestContract(t *testing.T) {
	server := brokertest.StartRedis(t)
	belltest.Run(t, func(t *testing.T) belltest.Harness {
		line, err := proxy.Start(server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { line.Close() })
		name := fmt.Sprintf("place-%d", places.Add(1))
		return belltest.Harness{
			Open: func(t *testing.T) daybook.Bell {
				b, err := Open("redis://"+line.Addr(), Options{Name: name, Echo: belltest.Echo,
					Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
				if err != nil {
					t.Fatal(err)
				}
				return b
			},
			Keeps:     true,
			DepthMost: ringsMost,
			Line:      line,
			Restart: func(t *testing.T) {
				if err := server.Restart(); err != nil {
					t.Fatal(err)
				}
			},
			Wipe: func(t *testing.T) {
				if err := server.Wipe(); err != nil {
					t.Fatal(err)
				}
			},
			Connections:     func(t *testing.T) int { return connections(t, server) },
			ConnectionsMost: 3,
		}
	})
}

// connections counts ours.
func connections(t *testing.T, server *brokertest.Redis) int {
	t.Helper()
	list, err := server.Do("CLIENT", "LIST", "TYPE", "normal")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "name=daybook-bell")
}
