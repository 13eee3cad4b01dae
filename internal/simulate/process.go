package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/worker"
)

// lease is short beside the faults, so that many of them outlast it.
const lease = 3 * time.Second

// process is one of a simulation: with its own way to the database and its own
// end of the bell, both of which a schedule may spoil.
type process struct {
	w      *world
	number int
	store  *cable
	bell   *end
	book   *daybook.Book
	stop   context.CancelFunc
	done   chan struct{}
}

// start starts a worker, or a hand.
func (w *world) start(number int) *process {
	p := &process{w: w, number: number, done: make(chan struct{})}
	p.store = &cable{Store: w.book.Store(), dead: make(chan struct{})}
	p.bell = &end{Bell: local.New(), w: w}
	random := rand.New(rand.NewPCG(w.Seed, uint64(number)))
	var guard sync.Mutex
	p.book = daybook.New(p.store, daybook.Options{Bell: p.bell, Log: slog.New(slog.DiscardHandler),
		Random: func() float64 {
			guard.Lock()
			defer guard.Unlock()
			return random.Float64()
		}})
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.done)
		if number < workers {
			p.work(ctx)
		} else {
			p.hand(ctx, random)
		}
	}()
	return p
}

// kill is what kill -9 is to everybody else: nothing of it reaches anybody any
// more.
func (p *process) kill() {
	p.store.kill()
	p.stop()
	<-p.done
	p.bell.Close()
}

// work runs a worker, whose handler does one thing outside, through the ledger.
func (p *process) work(ctx context.Context) {
	w := worker.New(p.book, worker.Config{Queues: []string{queue}, Name: "worker", Concurrency: 2, Lease: lease,
		Grace: time.Second, Poll: 4 * time.Second, Reconcile: reconcile.Options{Every: 2 * time.Second},
		Relay: relay.Options{Every: 2 * time.Second}})
	worker.Handle(w, "job", func(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
		var used string
		_, err := worker.Effect(ctx, "act", worker.Keyed(time.Hour), func(ctx context.Context, key string) (int, error) {
			used = key
			wait(ctx, 500*time.Millisecond)
			return p.w.act(key), ctx.Err()
		})
		if err == nil && used != "" {
			p.w.recorded(used)
		}
		wait(ctx, 2*time.Second) // here many are lost, with their effect done
		return errors.Join(err, ctx.Err())
	}, worker.KindOptions{Retry: daybook.Backoff{First: time.Second, Cap: 4 * time.Second, Spread: 0.1}})
	if err := w.Run(ctx); err != nil {
		p.w.say("worker %d: %v", p.number, err)
	}
}

// wait waits d, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// hand claims, holds and completes by hand, and repeats what isn't answered, as
// the protocol says: that is what the history is made of.
func (p *process) hand(ctx context.Context, r *rand.Rand) {
	var session daybook.ID
	for ctx.Err() == nil {
		if session.IsZero() {
			s, err := p.book.StartSession(ctx, daybook.SessionRequest{Worker: "hand", Lease: lease})
			if err != nil {
				wait(ctx, time.Second)
				continue
			}
			session = s.ID
		}
		claimed, err := p.claim(ctx, session)
		switch {
		case errors.Is(err, daybook.ErrFenced) || errors.Is(err, daybook.ErrNotFound):
			session = daybook.ID{}
		case err != nil || len(claimed) == 0:
			wait(ctx, time.Second)
		}
		for _, j := range claimed {
			wait(ctx, time.Duration(r.IntN(4000))*time.Millisecond) // now and then past the lease
			p.complete(ctx, j)
		}
	}
}

// claim makes one claim call, and repeats it until it is answered.
func (p *process) claim(ctx context.Context, session daybook.ID) ([]daybook.Job, error) {
	request := daybook.ClaimRequest{Session: session, Queues: []string{queue}, Kinds: []string{"hand"}, Limit: 2,
		Call: daybook.NewID()}
	began := p.w.tick()
	for ctx.Err() == nil {
		claimed, err := p.book.Claim(ctx, request)
		if errors.Is(err, daybook.ErrUnavailable) {
			wait(ctx, 300*time.Millisecond)
			continue
		}
		for _, j := range claimed.Jobs {
			p.w.note(operation{claim: true, job: j.ID, session: session, generation: j.Generation}, began)
		}
		return claimed.Jobs, err
	}
	return nil, ctx.Err() // what it was given is revoked unseen: it is no part of the history
}

// complete says that a job is done, until it is answered.
func (p *process) complete(ctx context.Context, j daybook.Job) {
	began := p.w.tick()
	op := operation{job: j.ID, session: j.Session, generation: j.Generation}
	for {
		_, err := p.book.Complete(ctx, j.ID, daybook.Owner{Session: j.Session, Generation: j.Generation}, nil)
		switch {
		case err == nil:
			op.ok = true
		case !errors.Is(err, daybook.ErrFenced):
			if wait(ctx, 300*time.Millisecond); ctx.Err() == nil {
				continue
			}
			op.unknown = true // it may take hold yet, or never
		}
		p.w.note(op, began)
		return
	}
}
