// Package redis is a bell in Redis 7 or a server that speaks like it. Rings lie
// in one short list for each queue, and listeners compete for them; a ring that
// nobody hears expires within the hour. Losing all of it costs latency and never
// work.
//
// Keys are {NAME}:ring:QUEUE, a list with at most two rings of that queue (the
// job that each names, or ""), and {NAME}:rung, a sorted set of the queues that
// may have rings, for listeners to every queue. The braces keep them on one node
// of a cluster.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

// Options of the bell. The zero value works.
type Options struct {
	// Name is the keys' prefix, for several books on one Redis; "" is
	// NameDefault. All processes of one book want the same.
	Name string
	// Log hears when the bell is lost and found; nil is nobody.
	Log *slog.Logger
	// Echo is how often the listening connection is asked whether it lives; a
	// dead one is replaced within about two of them. 0 is EchoDefault, the
	// least is EchoMin.
	Echo time.Duration
}

// The defaults.
const (
	NameDefault          = "daybook"
	EchoDefault, EchoMin = 10 * time.Second, 20 * time.Millisecond
)

const (
	// patience bounds a batch of rings, and any other question.
	patience = 3 * time.Second
	// lastWords is how long Close waits for a server that doesn't answer.
	lastWords = time.Second
	// blockMost bounds how long one pop waits at the server.
	blockMost = 5 * time.Second
	// ringsMost is how many rings of one queue lie in the bell: one wakes a
	// listener, and one more who is woken meanwhile.
	ringsMost = 2
	// keep is how long a ring lies there that nobody hears.
	keep = time.Hour
	// listMost bounds what Depth and Peek read.
	listMost = 10_000
)

// Bell rings and hears through one Redis. Its methods may be called by several
// goroutines.
type Bell struct {
	name  string
	where string // host, port and number of the database, without secrets
	log   *slog.Logger
	echo  time.Duration

	opt    redis.Options
	client *redis.Client // for all but listening
	out    *ring.Out
	ears   *ring.Ears

	version    atomic.Int64 // rises when listeners come or go
	heeded     atomic.Int64 // the version that the listening goes by
	blocked    atomic.Int64 // the server's number of the listening connection; 0 is none
	changed    chan struct{}
	nudge      chan struct{}
	connected  atomic.Bool
	passed     atomic.Int64
	reconnects atomic.Int64
	echoTook   atomic.Int64
	echoAt     atomic.Pointer[time.Time]
	failing    atomic.Bool // the last batch of rings failed

	once    sync.Once
	closing chan struct{}
	ended   chan struct{} // closed when the listening is over
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

var _ daybook.Outside = (*Bell)(nil)

// Open makes a bell at a URL such as redis://host:6379/0; rediss:// is TLS. It
// asks nothing of the server, which may be away: the bell connects when there is
// something to ring or somebody listens, and again whenever it must. It fails
// only for a URL or an option that can't work. The caller closes the bell.
func Open(url string, o Options) (*Bell, error) {
	opt, err := parse(url)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = NameDefault
	}
	if o.Echo == 0 {
		o.Echo = EchoDefault
	}
	if err := check(o); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bell{name: o.Name, where: opt.Addr, log: o.Log, echo: o.Echo, opt: *opt, ctx: ctx, cancel: cancel,
		changed: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		closing: make(chan struct{}), ended: make(chan struct{})}
	b.client = b.connect(2)
	b.ears = ring.NewEars(b.change, func(r daybook.Ring) { b.out.Ring(r) })
	b.out = ring.NewOut(b.send, b.failed)
	b.done.Go(b.listen)
	b.done.Go(b.nudging)
	return b, nil
}

func parse(raw string) (*redis.Options, error) {
	// What the driver says of a wrong URL may hold the whole of it, and so a password.
	wrong := daybook.Invalid("bell", "is not a Redis URL like redis://host:6379/0, or rediss:// for TLS")
	if u, err := url.Parse(raw); err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
		return nil, wrong
	}
	opt, err := redis.ParseURL(raw)
	if err != nil {
		return nil, wrong
	}
	return opt, nil
}

func check(o Options) error {
	const nameMax = 100
	switch {
	case len(o.Name) > nameMax:
		return daybook.Invalid("bell name", "wants at most %d bytes, got %d", nameMax, len(o.Name))
	case o.Echo < EchoMin:
		return daybook.Invalid("bell echo", "wants at least %s, got %s", EchoMin, o.Echo)
	}
	return nil
}

// connect makes a client that tries once and keeps to its caller's time: what is
// tried again, and when, is ours to say.
func (b *Bell) connect(conns int) *redis.Client {
	opt := b.opt
	opt.PoolSize, opt.MaxActiveConns, opt.MinIdleConns = conns, conns, 0
	opt.ClientName = "daybook-bell"
	opt.ContextTimeoutEnabled = true
	opt.ReadTimeout, opt.WriteTimeout = -1, -1 // the caller's context has the time
	opt.DialTimeout, opt.PoolTimeout = patience, patience
	opt.ConnMaxIdleTime = 2 * time.Minute // routers forget idle ones, which takes long to find out
	opt.DialerRetries, opt.MaxRetries = 1, -1
	opt.DisableIdentity = true // a round trip
	opt.Protocol = 2
	opt.Dialer = quietly(b.dialer(opt.TLSConfig))
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&opt)
}

// dialer makes connections that last as long as the bell does: Close doesn't wait
// for a host that swallows what it is sent.
func (b *Bell) dialer(secret *tls.Config) dialer {
	plain := &net.Dialer{Timeout: patience}
	dial := plain.DialContext
	if secret != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: secret}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.ctx, cancel)()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		loose := context.AfterFunc(b.ctx, func() { conn.Close() })
		if tcp, ok := conn.(*net.TCPConn); ok {
			return tiedTCP{tcp, loose}, nil
		}
		return tied{conn, loose}, nil
	}
}

// tied is a connection that ends with the bell.
type tied struct {
	net.Conn
	loose func() bool
}

func (c tied) Close() error {
	c.loose()
	return c.Conn.Close()
}

// tiedTCP is one of which the driver can find out whether the server closed it.
type tiedTCP struct {
	*net.TCPConn
	loose func() bool
}

func (c tiedTCP) Close() error {
	c.loose()
	return c.TCPConn.Close()
}

// quietly has a dial that failed succeed with a connection that fails: of the
// other kind the driver writes to the program's standard error, and goes on to
// dial by itself.
func quietly(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			ours, other := net.Pipe()
			other.Close()
			return failed{ours, err}, nil
		}
		return conn, nil
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// failed is a connection that was never made.
type failed struct {
	net.Conn
	err error
}

func (c failed) Read([]byte) (int, error)         { return 0, c.err }
func (c failed) Write([]byte) (int, error)        { return 0, c.err }
func (c failed) SetDeadline(time.Time) error      { return c.err }
func (c failed) SetReadDeadline(time.Time) error  { return c.err }
func (c failed) SetWriteDeadline(time.Time) error { return c.err }

// change notes that listeners came or went.
func (b *Bell) change() {
	b.version.Add(1)
	for _, c := range []chan struct{}{b.changed, b.nudge} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Ring says that the queue has work. It returns at once; see daybook.Bell. A listener
// of this end that waits for rings hears it straight away, and nobody else then.
func (b *Bell) Ring(_ context.Context, queue string) {
	b.ears.Ring(daybook.Ring{Queue: queue}, b.out.Ring)
}

// Publish returns when Redis has the rings.
func (b *Bell) Publish(ctx context.Context, rings []daybook.Ring) error {
	return b.out.Publish(ctx, rings)
}

// Listen is daybook.Bell's. All listeners of this bell share one connection.
func (b *Bell) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	return b.ears.Listen(ctx, queues)
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

// Close gives rings on their way a second and ends all listening. Twice is
// harmless.
func (b *Bell) Close() error {
	b.once.Do(func() {
		// A command that waits for its answer ends with its deadline or with its
		// connection, whatever becomes of its context.
		late := time.AfterFunc(lastWords, b.cancel)
		defer late.Stop()
		b.out.Close()
		b.ears.Close() // a pop that waits is nudged and gives back what it got
		close(b.closing)
		select {
		case <-b.ended:
		case <-b.ctx.Done(): // the server doesn't answer
		}
		b.cancel()
		b.done.Wait()
		b.client.Close()
	})
	return nil
}

func unavailable(doing string, err error) error {
	return &daybook.Error{Code: daybook.CodeUnavailable, Err: err, Text: why(doing, err)}
}

// why is what a caller is told of an error: a refusal of the server says what to do,
// and doesn't say what the server said, which may quote a command.
func why(doing string, err error) string {
	said, ok := errors.AsType[redis.Error](err)
	if !ok {
		return "Redis did not answer while " + doing + "; is it running there?"
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	switch word {
	case "NOAUTH", "WRONGPASS":
		return "Redis doesn't let this user in; look at the user and the password in the bell's URL"
	case "NOPERM":
		return "Redis gives this user too few rights; see the guide of the bells for those that it needs"
	case "READONLY":
		return "this Redis is a replica, which takes no rings; give the bell the primary"
	case "OOM":
		return "Redis is out of memory (maxmemory) and takes no rings"
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN":
		return "Redis is busy with itself (" + word + ") and answers later"
	case "MISCONF":
		return "Redis can't save to its disk and takes no rings"
	case "MOVED", "ASK", "CLUSTERDOWN", "CROSSSLOT":
		return "this node of a Redis cluster doesn't hold the bell's keys; give the bell the node that does"
	}
	return "Redis refused; is it version 6 or newer?"
}
