// Package postgres is a bell in the database that has the book: rings go by
// NOTIFY, after the enqueueing transaction and never inside it, since a commit
// with NOTIFY waits for every other one in the database.
//
// NOTIFY reaches all listeners. They know each other by pings on the same
// channel, and agree without further talk on the one that takes a ring; see
// circle. Nothing is kept: a ring that nobody hears is gone, and the poll finds
// the work.
//
// Listening takes a connection of its own, for as long as somebody listens. It
// must go to the server itself or through a pooler in session mode: behind
// PgBouncer in transaction mode nothing is ever heard, which the bell notices
// and logs.
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/nocancel"
	"github.com/daybookdev/daybook/internal/ring"
)

// Options of the bell. The zero value works.
type Options struct {
	// Schema is the book's; books in other schemas have bells of their own.
	// "" is SchemaDefault.
	Schema string
	// Log hears when the bell is lost and found, and when NOTIFY's queue fills;
	// nil is nobody.
	Log *slog.Logger
	// Echo is how often the bell makes sure that it hears. A connection that
	// passes nothing is replaced within about two of them. 0 is EchoDefault, the
	// least is EchoMin.
	Echo time.Duration
}

// The defaults.
const (
	SchemaDefault        = "daybook"
	EchoDefault, EchoMin = 10 * time.Second, 20 * time.Millisecond
)

const (
	// patience bounds a batch of rings, a connection's making, any answer.
	patience = 3 * time.Second
	// nameMax is the longest name of a channel that PostgreSQL knows, in bytes.
	nameMax = 63
)

// Bell rings and hears through one database. Its methods may be called by
// several goroutines.
type Bell struct {
	config  *pgconn.Config
	where   string // host, port and database, without secrets
	channel string
	log     *slog.Logger
	echo    time.Duration
	id      string // of this end, among the others

	out  *ring.Out
	ears *ring.Ears
	ring sender
	much float64 // of NOTIFY's queue in use is worth a warning

	mu       sync.Mutex
	control  []message // to be sent with the next batch
	refused  bool      // a ping of ours was refused by the server, and says nothing of the listening
	pinged   int64     // pings that the server took
	queueLog time.Time // when the fill of NOTIFY's queue was last logged

	changed    chan struct{}
	connected  atomic.Bool
	passed     atomic.Int64
	reconnects atomic.Int64
	echoTook   atomic.Int64
	echoAt     atomic.Pointer[time.Time]
	failing    atomic.Bool // the last batch failed

	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

var _ daybook.Outside = (*Bell)(nil)

// Open makes a bell at a postgres:// URL, the book's or one that goes around its
// pooler. It asks nothing of the server, which may be away: the bell connects
// when there is something to ring or somebody listens, and again whenever it
// must. It fails only for a URL or an option that can't work. ctx isn't kept.
// The caller closes the bell.
func Open(_ context.Context, url string, o Options) (*Bell, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if o.Schema == "" {
		o.Schema = SchemaDefault
	}
	if o.Echo == 0 {
		o.Echo = EchoDefault
	}
	switch {
	case len(o.Schema) > nameMax || strings.ContainsRune(o.Schema, 0):
		return nil, daybook.Invalid("schema", "wants 1–%d bytes, got %d", nameMax, len(o.Schema))
	case o.Echo < EchoMin:
		return nil, daybook.Invalid("bell echo", "wants at least %s, got %s", EchoMin, o.Echo)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return newBell(config, o), nil
}

func newBell(config *pgconn.Config, o Options) *Bell {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bell{config: config, where: fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database),
		channel: channelOf(o.Schema), log: o.Log, echo: o.Echo, id: newID(), much: 0.5,
		changed: make(chan struct{}, 1), ctx: ctx, cancel: cancel}
	b.ring.Bell = b
	b.ears = ring.NewEars(b.change, func(r daybook.Ring) { b.out.Ring(r) })
	b.out = ring.NewOut(b.ring.send, b.failed)
	b.done.Go(b.listen)
	return b
}

// parse reads a URL, and leaves out what is for pools.
func parse(url string) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil || url == "" {
		// What the driver says of a wrong URL may hold the whole of it, and so a password.
		return nil, daybook.Invalid("bell", "is not a PostgreSQL URL like postgres://user@host/database")
	}
	for name := range config.RuntimeParams {
		if strings.HasPrefix(name, "pool_") || strings.HasSuffix(name, "_cache_capacity") ||
			name == "default_query_exec_mode" {
			delete(config.RuntimeParams, name)
		}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "daybook-bell"
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > patience {
		config.ConnectTimeout = patience
	}
	config.DialFunc = nocancel.Dial(config.DialFunc) // what it asks for is short, and may go through a pooler
	if config.ValidateConnect == nil {               // a standby takes no NOTIFY
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// channelOf is the name of a schema's channel. One that is too long has a hash
// in it.
func channelOf(schema string) string {
	const prefix = "daybook:"
	if name := prefix + schema; len(name) <= nameMax {
		return name
	}
	return prefix + strconv.FormatUint(hash(schema), 36)
}

// change notes that listeners came or went.
func (b *Bell) change() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Ring says that the queue has work. It returns at once; see daybook.Bell. A listener
// of this end that waits for rings hears it straight away, and nobody else then.
func (b *Bell) Ring(_ context.Context, queue string) {
	b.ears.Ring(daybook.Ring{Queue: queue}, b.out.Ring)
}

// Publish returns when the database has notified of the rings.
func (b *Bell) Publish(ctx context.Context, rings []daybook.Ring) error {
	return b.out.Publish(ctx, rings)
}

// Listen is daybook.Bell's. All listeners of this bell share one connection.
func (b *Bell) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	return b.ears.Listen(ctx, queues)
}

// Depth is nil: nothing is kept.
func (b *Bell) Depth(context.Context) (map[string]int64, error) { return nil, nil }

// Peek is nil: nothing is kept. It asks whether the database is there.
func (b *Bell) Peek(ctx context.Context, _ int) ([]daybook.Ring, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, &daybook.Error{Code: daybook.CodeUnavailable, Err: err,
			Text: "the database at " + b.where + " can't be reached for the bell: " + causeOf(err)}
	}
	letGo(conn)
	return nil, nil
}

// Stats says what this process's end of the bell has seen.
func (b *Bell) Stats() daybook.BellStats {
	s := daybook.BellStats{Published: b.out.Published(), Failed: b.out.Failed(), Heard: b.ears.Heard(),
		Passed: b.passed.Load(), Reconnects: b.reconnects.Load(), Listening: b.connected.Load() || !b.ears.Any(),
		Echo: time.Duration(b.echoTook.Load())}
	if at := b.echoAt.Load(); at != nil {
		s.EchoAt = *at
	}
	return s
}

// Close ends all listening, gives rings on their way a second, and says goodbye
// to the other ends. Twice is harmless.
func (b *Bell) Close() error {
	b.once.Do(func() {
		b.ears.Close()
		b.cancel()
		b.done.Wait()
		b.out.Close()
		b.ring.close()
	})
	return nil
}
