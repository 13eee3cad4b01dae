package drill

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/worker"
)

// Opener opens the book of a drill: where is what [Options.Where] said. The
// drill closes it.
type Opener func(ctx context.Context, where string, o daybook.Options) (*daybook.Book, error)

// poll is how often an idle worker looks for work. Rings are no part of this
// drill.
const poll = 100 * time.Millisecond

// parting is how long a child may take to end once its orders ended. A child
// that stands in a gap while its parent dies would stay for ever otherwise.
const parting = 5 * time.Second

// Child is what the program named by Options.Command calls: a worker that takes
// orders from in, reports on out, logs to logs, and returns when in ends. It is
// of no use to people.
func Child(in io.Reader, out, logs io.Writer, open Opener) error {
	orders := bufio.NewReader(in)
	c := child{out: &procs.Lines{W: out}, log: slog.New(slog.NewTextHandler(logs, nil)), open: open}
	first, err := orders.ReadBytes('\n')
	if err != nil || json.Unmarshal(first, &c.setup) != nil {
		return daybook.Fail(daybook.CodeInvalid, "a process of the drill is started by daybook drill, not by hand")
	}
	if err := c.live(orders); err != nil {
		_ = c.out.Write(report{Error: err.Error(), Away: isAway(err)}) // the log has it too
		return err
	}
	return nil
}

// child is one process of the drill, seen from inside.
type child struct {
	setup
	open    Opener
	out     *procs.Lines
	gate    *gate
	log     *slog.Logger
	hurt    *hurtBell // nil where rings are no part of the drill
	carried *carried  // nil where the bell leaves the process by itself
	worker  *worker.Worker
	sends   chan request
	moves   chan string
	sent    atomic.Int64
}

// live opens the book and does what the role is until the orders end, or until
// the process is told to stop (SIGTERM).
func (c *child) live(orders *bufio.Reader) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c.gate = newGate(c.out)
	c.gate.deaf = c.Fault == deaf
	book, err := c.reach(ctx)
	if err != nil {
		return err
	}
	defer book.Close()
	if c.Bells {
		book = c.bells(book)
	}
	c.sends, c.moves = make(chan request, 8), make(chan string, 8)
	live, err := c.begin(book)
	if err != nil {
		return err
	}
	go func() {
		if err := procs.ReadLines(orders, c.obey); err != nil {
			c.log.Error("the parent can't be understood; ending", "err", err)
		}
		time.AfterFunc(parting, func() { os.Exit(1) })
		stop()
	}()
	_ = c.out.Write(report{Ready: true}) // the parent is gone: so will this process be
	return live(ctx)
}

// reach opens the book, as a program does that is started anew until it can: its
// server may have no room while another fault is made.
func (c *child) reach(ctx context.Context) (*daybook.Book, error) {
	late := time.Now().Add(comes)
	for {
		book, err := c.open(ctx, c.Where, daybook.Options{Log: c.log, Hook: c.gate.hook})
		if err == nil || ctx.Err() != nil || !isAway(err) || time.Now().After(late) {
			return book, err
		}
		c.log.Warn("the book can't be reached; it is tried again", "err", err)
		pause(ctx, lull)
	}
}

// comes is how long a server may have no room for a process that begins.
const comes = 20 * time.Second

// bells gives the book a bell that can be hurt. Where its own doesn't leave the
// process, the parent carries the rings.
func (c *child) bells(book *daybook.Book) *daybook.Book {
	outside := book.Outside()
	if book.Bell() == nil { // nobody wants any
		return book
	}
	if outside == nil {
		c.carried = newCarried(func(r report) { _ = c.out.Write(r) })
		outside = c.carried
	}
	c.hurt = newHurtBell(outside)
	return daybook.New(book.Store(), daybook.Options{Log: c.log, Hook: c.gate.hook, Bell: c.hurt})
}

// begin makes what the role is, and returns what lives it.
func (c *child) begin(book *daybook.Book) (live func(context.Context) error, err error) {
	switch c.Role {
	case roleEnqueuer:
		return c.enqueuer(book)
	case roleRelay:
		return func(ctx context.Context) error { return runLoops(ctx, book) }, nil
	case roleServer:
		return c.server(book)
	case roleMover:
		return c.mover(book)
	}
	c.makeWorker(book)
	return c.worker.Run, nil
}

// runLoops relays and reconciles until ctx ends.
func runLoops(ctx context.Context, book *daybook.Book) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	if book.Outside() != nil {
		loops.Go(func() { _ = relay.New(book, relay.Options{Every: passes / 2}).Run(ctx) }) // fails for options only
	}
	return reconcile.New(book, reconcile.Options{Every: passes}).Run(ctx)
}

// obey carries one order out. It never blocks on the handler: the parent may
// write while this process's own reports wait to be read.
func (c *child) obey(o order) {
	switch {
	case o.Arm != nil:
		c.gate.arm(*o.Arm)
	case o.Go != 0:
		c.gate.goOn(o.Go)
	case o.Send != nil:
		push(c.sends, *o.Send)
	case o.Move != "":
		push(c.moves, o.Move)
	case o.Hurt != nil && c.hurt != nil:
		c.hurt.set(*o.Hurt)
	case o.Ring != "" && c.carried != nil:
		c.carried.hear(o.Ring)
	case o.Tell != 0:
		c.tell(o.Tell)
	}
}

// tell says what this process has counted.
func (c *child) tell(number int) {
	t := told{Number: number, Wall: time.Now().Add(c.Clock), Sent: c.sent.Load()}
	if c.worker != nil {
		t.Worker = c.worker.Stats()
	}
	if c.hurt != nil {
		t.Hurt = c.hurt.spoiled()
	}
	_ = c.out.Write(report{Told: &t})
}

// makeWorker makes one that runs the handlers of the examples.
func (c *child) makeWorker(book *daybook.Book) {
	w := worker.New(book, worker.Config{Queues: []string{c.Queue}, Name: c.Name, Concurrency: cmp.Or(c.Slots, 1),
		Lease: c.Lease, Grace: time.Second, Poll: cmp.Or(c.Poll, poll), NoLoops: !c.Loops,
		Reconcile: reconcile.Options{Every: passes}})
	c.To.Client = &http.Client{Transport: &sending{gate: c.gate, through: &http.Transport{ResponseHeaderTimeout: parting}}}
	options := worker.KindOptions{Retry: daybook.Backoff{First: poll, Cap: time.Second, Spread: 0.1}}
	if c.Fault == forgetful {
		c.forget(w, options)
	} else {
		c.To.Register(w, options)
	}
	c.worker = w
}

// sending is the way out of a worker. In front of it is the place that no check
// on this side can close: the lease was looked at, and the request isn't sent
// yet. A process that is stopped there sends when it goes on, as the kernel does
// with what is in its buffers: nothing that the request's context says can take
// that back, so the context is left behind here.
type sending struct {
	gate    *gate
	through *http.Transport
}

// RoundTrip sends one request.
func (s *sending) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet { // which only asks
		s.gate.reached(daybook.GapPause, daybook.ID{})
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	return s.through.RoundTrip(r)
}

// forget registers a handler that charges without the ledger.
func (c *child) forget(w *worker.Worker, o worker.KindOptions) {
	worker.Handle(w, "charge", func(ctx context.Context, job *worker.Claim[json.RawMessage]) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.To.Payments+"/charges", bytes.NewReader(job.Args))
		if err != nil {
			return err
		}
		r.Header.Set("Idempotency-Key", daybook.NewID().String())
		answer, err := c.To.Client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var receipt effects.Receipt
		if err := json.NewDecoder(answer.Body).Decode(&receipt); err != nil {
			return err
		}
		return job.SetResult(receipt)
	}, o)
}
