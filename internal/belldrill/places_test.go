package belldrill

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/nats"
	bellpostgres "github.com/daybookdev/daybook/bell/postgres"
	"github.com/daybookdev/daybook/bell/rabbitmq"
	"github.com/daybookdev/daybook/bell/redis"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/proxy"
)

// TestMain says nothing and passes where the servers aren't wanted: the drill
// needs PostgreSQL and every broker.
func TestMain(m *testing.M) {
	if !brokertest.Wanted() || !pgtest.Wanted() {
		fmt.Println("set DAYBOOK_TEST_POSTGRES=1 and DAYBOOK_TEST_BELLS=1 for the drill of bells")
		os.Exit(0)
	}
	os.Exit(pgtest.Around(brokertest.With(m, &redisServer, &natsServer, &rabbitServer)).Run())
}

var (
	redisServer  brokertest.Shared[*brokertest.Redis]
	natsServer   brokertest.Shared[*brokertest.NATS]
	rabbitServer brokertest.Shared[*brokertest.RabbitMQ]
)

// place is one bell with its server, used by one drill.
type place struct {
	open func() (daybook.Outside, error) // one more end, as another process has
	// What can be done to it. A nil one doesn't apply: PostgreSQL is the book's
	// own server, and a bell in it is hurt through its connections.
	restart, wipe, pause, resume func() error
}

// quiet drops the warnings that a drill provokes.
func quiet() *slog.Logger {
	if os.Getenv("DAYBOOK_TEST_LOG") != "" {
		return slog.Default()
	}
	return slog.New(slog.DiscardHandler)
}

// placesOf makes a place at each bell; name keeps the drills apart.
var placesOf = map[string]func(t *testing.T, name, dbURL string) place{
	"postgres": postgresPlace,
	"redis":    redisPlace,
	"nats":     func(t *testing.T, name, _ string) place { return natsPlace(t, nats.Options{Name: name, Log: quiet()}) },
	"jetstream": func(t *testing.T, name, _ string) place {
		return natsPlace(t, nats.Options{Name: name, Log: quiet(), JetStream: true})
	},
	"rabbitmq": rabbitPlace,
}

// postgresPlace reaches the bell's connections through a proxy; the book's own
// go straight to the server.
func postgresPlace(t *testing.T, name, dbURL string) place {
	config, err := pgx.ParseConfig(dbURL)
	must(t, err)
	line, err := proxy.Start(fmt.Sprintf("%s:%d", config.Host, config.Port))
	must(t, err)
	t.Cleanup(func() { line.Close() })
	url := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", config.User, line.Addr(), config.Database)
	cut := func() error { line.Cut(); return nil }
	return place{
		open: func() (daybook.Outside, error) {
			return bellpostgres.Open(t.Context(), url, bellpostgres.Options{Schema: name, Log: quiet(), Echo: time.Second})
		},
		restart: cut, wipe: cut,
		pause:  func() error { line.Stall(true); return nil },
		resume: func() error { line.Stall(false); return nil },
	}
}

func redisPlace(t *testing.T, name, _ string) place {
	s := redisServer.Get(t, func() (*brokertest.Redis, error) {
		s, err := brokertest.Open(brokertest.RedisProgram())
		return &brokertest.Redis{Server: s}, err
	})
	return place{
		open: func() (daybook.Outside, error) {
			return redis.Open(s.URL(), redis.Options{Name: name, Log: quiet(), Echo: time.Second})
		},
		restart: s.Restart, wipe: s.Wipe, pause: s.Pause, resume: s.Resume,
	}
}

func natsPlace(t *testing.T, o nats.Options) place {
	s := natsServer.Get(t, func() (*brokertest.NATS, error) { return brokertest.OpenNATS() })
	o.Echo = time.Second
	return place{
		open:    func() (daybook.Outside, error) { return nats.Open(s.URL(), o) },
		restart: s.Restart, wipe: s.Wipe, pause: s.Pause, resume: s.Resume,
	}
}

func rabbitPlace(t *testing.T, name, _ string) place {
	s := rabbitServer.Get(t, brokertest.OpenRabbitMQ)
	return place{
		open: func() (daybook.Outside, error) {
			return rabbitmq.Open(s.URL(), rabbitmq.Options{Name: name, Log: quiet(), Echo: time.Second})
		},
		restart: s.Restart, wipe: s.Wipe, pause: s.Pause, resume: s.Resume,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
