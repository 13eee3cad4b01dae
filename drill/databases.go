package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/proxy"
)

// databaseScenes befall connections and servers. All but the last two reach the
// drill's own connections alone.
var databaseScenes = []scene{
	{name: "commit-lost-before", what: "a COMMIT doesn't reach the server", needs: wantsStore, run: lostCommit(true)},
	{name: "commit-lost-after", what: "a COMMIT takes hold, and its answer is lost", needs: wantsStore,
		run: lostCommit(false)},
	{name: "bell-half-open", what: "the listeners' connections pass nothing any more", needs: wantsBellServer,
		heard: true, run: halfOpen},
	{name: "connections-cut", what: "the load's connections to the database are cut", needs: wantsStore, run: cut},
	{name: "database-stalled", what: "the load's connections stand still past the lease", needs: wantsStore, run: stall},
	{name: "connections-killed", what: "the server ends the load's connections", needs: wantsServer, run: terminate},
	{name: "idle-connections", what: "300 idle connections, or as many as fit", needs: wantsServer, alone: true,
		run: sit},
	{name: "server-restarted", what: "the database server is restarted", needs: wantsPower, alone: true, run: restart},
	{name: "server-read-only", what: "the database server lets nobody write", needs: wantsReadOnly, alone: true,
		run: readOnly},
}

func wantsStore(s *stand) string {
	if s.site.StoreAddr == "" {
		return "the store has no server that a proxy can stand before"
	}
	return ""
}

func wantsBellServer(s *stand) string {
	if s.site.BellAddr == "" || s.hurts == nil {
		return "the bell has no server that a proxy can stand before"
	}
	return ""
}

func wantsServer(s *stand) string {
	if s.site.Server == nil {
		return "the store has no server"
	}
	return ""
}

func wantsPower(s *stand) string {
	if s.site.Power == nil {
		return "wants --own-server or --restart-cmd"
	}
	return ""
}

func wantsReadOnly(s *stand) string {
	if s.site.Power == nil || !s.site.Power.CanReadOnly() {
		return "wants --own-server"
	}
	return ""
}

// lostCommit loses a COMMIT or its answer, and looks from elsewhere whether it
// had taken hold: the enqueue, repeated under its id, is one job all the same.
func lostCommit(before bool) func(context.Context, *lane, *evidence) error {
	return func(ctx context.Context, l *lane, e *evidence) error {
		line, err := proxy.Start(l.site.StoreAddr)
		if err != nil {
			return daybook.Fail(daybook.CodeInternal, "the drill's proxy can't listen on 127.0.0.1")
		}
		defer line.Close()
		where, err := l.site.Where(Route{Application: applicationLanes, Store: line.Addr()})
		if err != nil {
			return err
		}
		book, err := l.Open(ctx, where, daybook.Options{Log: l.log, Bell: daybook.NoBell{}})
		if err != nil {
			return err
		}
		defer book.Close()
		if err := l.ready(ctx); err != nil {
			return err
		}
		e.job.ID = daybook.NewID()
		e.order = "order-" + e.job.ID.String()
		trips, err := l.warm(ctx, book, line)
		if err != nil {
			return err
		}
		took := make(chan bool, 1)
		line.Spoil(trips, before, func() { // the last one has the COMMIT
			e.since = time.Now()
			pause(ctx, 10*time.Millisecond) // for the server to carry out what it got
			_, err := l.book.Job(ctx, e.job.ID)
			took <- err == nil
		})
		r := daybook.Request{ID: e.job.ID, Queue: l.queue, Kind: "charge", Args: e.args()}
		receipt, err := book.Enqueue(ctx, r)
		select {
		case held := <-took:
			if e.injected = held != before; !e.injected {
				e.void = fmt.Sprintf("it had taken hold: %t", held)
			}
		default:
			e.void = "nothing was lost"
		}
		if err != nil || receipt.ID != e.job.ID || receipt.Replayed && before {
			e.say("the enqueue was answered %+v, %v", receipt, err)
		}
		if e.since.IsZero() {
			e.since = time.Now()
		}
		if err := l.made(ctx, e); err != nil {
			return err
		}
		l.once(e)
		return nil
	}
}

// more puts a job into the load, through a book.
func (s *stand) more(ctx context.Context, book *daybook.Book) error {
	e := evidence{}
	e.job.ID = daybook.NewID()
	e.order = loadOrder + e.job.ID.String()
	s.load.also(e.job.ID)
	_, err := book.Enqueue(ctx, daybook.Request{ID: e.job.ID, Queue: loadQueue, Kind: "charge", Args: e.args()})
	return err
}

// warm enqueues a few jobs, so that the server knows the statements, and says in
// how many pieces the last of them went to the server.
func (l *lane) warm(ctx context.Context, book *daybook.Book, line *proxy.Proxy) (trips int, err error) {
	for range 4 {
		before := line.Passed()
		if err := l.more(ctx, book); err != nil {
			return 0, err
		}
		trips = line.Passed() - before
	}
	return trips, nil
}

// shake does something to the load, one at a time, and waits until it does jobs
// again.
func (l *lane) shake(ctx context.Context, e *evidence, do func() error) error {
	l.shaking.Lock()
	defer l.shaking.Unlock()
	e.since = time.Now()
	if err := do(); err != nil || e.void != "" || e.left != "" {
		return err
	}
	e.injected = true
	return l.canary(ctx, l, e)
}

func cut(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		if n := l.load.store.Cut(); n == 0 {
			e.void = "there was no connection to cut"
		}
		return nil
	})
}

func stall(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		if l.load.store.Open() == 0 {
			e.void = "there was no connection to stall"
			return nil
		}
		l.load.store.Stall(true)
		defer l.load.store.Stall(false)
		pause(ctx, l.lease/2) // what was on its way has arrived
		before := l.load.store.Passed()
		pause(ctx, l.lease)
		if l.load.store.Passed() != before {
			e.void = "something passed meanwhile"
		}
		return ctx.Err()
	})
}

func terminate(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		n, err := l.site.Server.Terminate(ctx, applicationLoad)
		if err == nil && n == 0 {
			e.void = "the server had no connection of the load's"
		}
		return err
	})
}

const idleConnections = 300

func sit(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		n, leave, err := l.site.Server.Sit(ctx, idleConnections, applicationIdle)
		if err != nil {
			return err
		}
		defer leave()
		if n < idleConnections {
			l.opts.Note("idle-connections: the server had room for %d of %d", n, idleConnections)
		}
		if n == 0 {
			e.left = "the server has no room for idle connections beside those that others may want"
			return nil
		}
		e.since = time.Now() // to open them took its time
		return l.canary(ctx, l, e)
	})
}

// halfOpen lets what the listeners hear through stand for good: they must notice
// by themselves and listen anew.
func halfOpen(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		before, err := l.reconnects(ctx)
		if err != nil {
			return err
		}
		if l.load.bell.Open() == 0 {
			e.void = "there was no connection to the bell"
			return nil
		}
		l.load.bell.Freeze()
		defer l.load.bell.Cut() // what is frozen and nobody's any more
		return l.until(ctx, e, "the listeners to listen anew", func() (bool, error) {
			now, err := l.reconnects(ctx)
			return now > before, err
		})
	})
}

// reconnects sums how often the load's workers have listened anew.
func (l *lane) reconnects(ctx context.Context) (n int64, err error) {
	for _, p := range l.load.listening() {
		t, err := p.tell(ctx)
		if err != nil {
			return 0, err
		}
		if t.Worker.Bell != nil {
			n += t.Worker.Bell.Reconnects
		}
	}
	return n, nil
}

// restart is no restart when the server says that it runs since before.
func restart(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		before, err := l.site.Server.Began(ctx)
		if err != nil {
			return err
		}
		if err := l.site.Power.Restart(ctx); err != nil {
			return err
		}
		after, err := l.site.Server.Began(ctx)
		if err == nil && after == before {
			e.void = "the server was not restarted: it runs since " + before
		}
		return err
	})
}

// readOnlyFor is past the leases.
const readOnlyFor = 2 * leaseShort

// readOnly is what a failover looks like that isn't over yet.
func readOnly(ctx context.Context, l *lane, e *evidence) error {
	return l.shake(ctx, e, func() error {
		if err := l.site.Power.ReadOnly(ctx, true); err != nil {
			return err
		}
		bounded, stop := context.WithTimeout(ctx, readOnlyFor)
		err := l.more(bounded, l.book)
		stop()
		if err == nil {
			e.void = "the server took a write"
		}
		pause(ctx, time.Until(e.since.Add(readOnlyFor)))
		return errors.Join(l.site.Power.ReadOnly(ctx, false), ctx.Err())
	})
}
