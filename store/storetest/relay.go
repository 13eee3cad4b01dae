package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/relay"
)

// runRelay holds the store to what a relay needs of its outbox.
func runRelay(t *testing.T, open opener) {
	eachOnFile(t, open, []test{
		{"Rings are the rows that made work eligible", ringsEligible},
		{"Rings come in pages", ringsPages},
		{"DropRings changes no count and takes a row once", dropRingsCounts},
		{"DropRings leaves what came after the look", dropRingsLater},
		{"OldestRing tells the age", oldestRing},
		{"Sweep leaves one row a queue to the relay", sweepKeepsRings},
		{"Sweep with rings gets on with many queues", sweepManyQueues},
		{"A row that the relay published isn't the one that Sweep left", sweptWhilePublished},
		{"A row with an earlier time is found", ringFromThePast},
		{"Several relays publish everything", severalRelays},
		{"A bell that is away holds nobody up", bellAway},
		{"LiveSessions counts up to a bound", liveSessions},
	})
}

var casesOfRelay = []test{{"L39", lateRow}, {"L74", relayKilled}}

// post is a bell outside that keeps what is published.
type post struct {
	daybook.NoBell
	mu      sync.Mutex
	rings   []string
	away    error
	between func() // called while a batch is on its way
}

var _ daybook.Outside = (*post)(nil)

func (p *post) Publish(ctx context.Context, rings []daybook.Ring) error {
	p.mu.Lock()
	away, between := p.away, p.between
	p.mu.Unlock()
	if between != nil {
		between()
	}
	if away != nil {
		<-ctx.Done() // as long as it may take
		return away
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rings {
		p.rings = append(p.rings, r.Queue)
	}
	return nil
}

func (p *post) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (p *post) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (p *post) Stats() daybook.BellStats                          { return daybook.BellStats{} }
func (p *post) set(away error)                                    { p.mu.Lock(); p.away = away; p.mu.Unlock() }

// taken are the queues rung since the last call, sorted, once each.
func (p *post) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.Sorted(slices.Values(p.rings))
	p.rings = nil
	return slices.Compact(list)
}

// relaying opens the book as a process with a bell outside and a relay.
func (w *world) relaying(bell *post, hook daybook.Hook) *world {
	w.Helper()
	other := *w
	other.opts.Bell, other.opts.Hook = bell, hook
	other.book = w.open(w.t, other.opts)
	return &other
}

func (w *world) outbox(from int64, most int) (b daybook.RingBatch) {
	w.Helper()
	w.read(func(v daybook.View) (err error) {
		b, err = v.(daybook.OutboxView).Rings(w.ctx, from, most)
		return err
	})
	return b
}

func (w *world) rung(rows []daybook.RingRow, want int) {
	w.Helper()
	n, err := w.book.Rung(w.ctx, rows)
	w.ok(err)
	same(w, "rows taken out", n, want)
}

// relay makes one pass of a relay of this process.
func (w *world) relay() relay.Report {
	w.Helper()
	report, err := relay.New(w.book, relay.Options{}).Pass(w.ctx)
	w.ok(err)
	return report
}

func ringsEligible(w *world) {
	b := w.outbox(0, 100)
	same(w, "rows of an empty book", len(b.Rows), 0)
	w.enqueue(daybook.Request{Queue: "later", In: time.Hour})
	w.enqueue(daybook.Request{Queue: "r"})
	_, err := w.book.EnqueueMany(w.ctx, []daybook.Request{request(daybook.Request{}), request(daybook.Request{}),
		request(daybook.Request{Queue: "s"})})
	w.ok(err)
	b = w.outbox(0, 100)
	same(w, "now", b.Now, w.clock.time())
	same(w, "rows", len(b.Rows), 3) // one a transaction and queue
	same(w, "full", b.Full, false)
	same(w, "queues", fmt.Sprint(slices.Sorted(slices.Values(b.Queues()))), "[q r s]")
	for _, r := range b.Rows {
		same(w, "at", r.At, w.clock.time())
	}
	w.rung(b.Rows, 3)
	j := w.claimed(w.session("w"))
	same(w, "rows of a claim", len(w.outbox(0, 100).Rows), 0)
	_, err = w.book.Release(w.ctx, j.ID, owner(j), 0)
	w.ok(err)
	same(w, "rows of a release", len(w.outbox(0, 100).Rows), 1)
	same(w, "from the mark on", len(w.outbox(b.Next, 100).Rows), 1)
}

func ringsPages(w *world) {
	for i := range 7 {
		w.enqueue(daybook.Request{Queue: fmt.Sprint("q", i)})
		w.clock.advance(time.Millisecond)
	}
	from, seen := int64(0), map[string]bool{}
	for _, want := range []int{3, 3, 1} {
		b := w.outbox(from, 3)
		same(w, "rows", len(b.Rows), want)
		same(w, "full", b.Full, want == 3)
		for _, r := range b.Rows {
			seen[r.Queue] = true
		}
		w.rung(b.Rows, want)
		from = b.Next
	}
	same(w, "queues", len(seen), 7)
	same(w, "left", len(w.outbox(0, 3).Rows), 0)
}

func dropRingsCounts(w *world) {
	s := w.session("w")
	for range 5 {
		w.enqueue(daybook.Request{})
		w.enqueue(daybook.Request{Queue: "r"})
		w.complete(w.claimed(s))
	}
	_, before, err := w.book.Backlog(w.ctx)
	w.ok(err)
	b := w.outbox(0, 100)
	w.rung(b.Rows[:4], 4)
	w.rung(b.Rows, 6)
	w.rung(b.Rows, 0)
	w.rung(nil, 0)
	_, after, err := w.book.Backlog(w.ctx)
	w.ok(err)
	for i := range before {
		same(w, "counts of "+before[i].Queue, after[i].Counts, before[i].Counts)
	}
	w.clock.advance(2 * daybook.FoldAge)
	_, err = w.book.Sweep(w.ctx)
	w.ok(err)
	_, after, err = w.book.Backlog(w.ctx)
	w.ok(err)
	for i := range before {
		same(w, "counts of "+before[i].Queue+" after a fold", after[i].Counts, before[i].Counts)
	}
}

func dropRingsLater(w *world) {
	w.enqueue(daybook.Request{})
	b := w.outbox(0, 100)
	w.again().enqueue(daybook.Request{})
	w.rung(b.Rows, 1)
	same(w, "left", len(w.outbox(0, 100).Rows), 1)
}

func oldestRing(w *world) {
	age := func(want time.Duration) {
		w.Helper()
		got, err := w.book.OutboxAge(w.ctx)
		w.ok(err)
		same(w, "age", got, want)
	}
	age(0)
	w.enqueue(daybook.Request{In: time.Hour})
	age(0)
	w.enqueue(daybook.Request{})
	w.clock.advance(3 * time.Second)
	w.enqueue(daybook.Request{})
	age(3 * time.Second)
	w.rung(w.outbox(0, 1).Rows, 1)
	age(0)
}

func sweepKeepsRings(w *world) {
	bell := &post{}
	of := w.relaying(bell, nil)
	for range 5 {
		w.enqueue(daybook.Request{})
		w.enqueue(daybook.Request{Queue: "r"})
		w.clock.advance(time.Second)
	}
	_, before, err := w.book.Backlog(w.ctx)
	w.ok(err)
	w.clock.advance(2 * daybook.FoldAge)
	for range 3 { // the bell stays away
		_, err = of.book.Sweep(w.ctx)
		w.ok(err)
		same(w, "rows left to the relay", len(w.outbox(0, 100).Rows), 2)
		age, err := w.book.OutboxAge(w.ctx)
		w.ok(err)
		same(w, "age", age, 2*daybook.FoldAge+5*time.Second)
	}
	_, after, err := w.book.Backlog(w.ctx)
	w.ok(err)
	for i := range before {
		same(w, "counts of "+before[i].Queue, after[i].Counts, before[i].Counts)
	}
	same(w, "published", of.relay().Rung, 2)
	w.enqueue(daybook.Request{})
	w.clock.advance(2 * daybook.FoldAge)
	_, err = w.book.Sweep(w.ctx) // this process has no bell outside
	w.ok(err)
	same(w, "rows left to nobody", len(w.outbox(0, 100).Rows), 0)
}

func sweepManyQueues(w *world) {
	for n := range 21 {
		w.enqueue(daybook.Request{Queue: fmt.Sprint("q", n%7)})
		w.clock.advance(time.Millisecond)
	}
	w.clock.advance(2 * daybook.FoldAge)
	for n := 0; ; n++ {
		took := 0
		w.write(func(tx daybook.Tx) (err error) {
			took, err = tx.Sweep(w.ctx, daybook.Cutoffs{Counting: tx.Now(), KeepRings: true}, 3)
			return err
		})
		if took < 3 {
			break
		}
		if n > 21 {
			w.Fatal("sweeping doesn't end")
		}
	}
	b := w.outbox(0, 100)
	same(w, "rows left", len(b.Rows), 7)
	same(w, "queues left", len(b.Queues()), 7)
}

func sweptWhilePublished(w *world) {
	of := w.relaying(&post{}, nil)
	w.enqueue(daybook.Request{})
	b := w.outbox(0, 100)
	w.enqueue(daybook.Request{}) // after the relay looked
	w.clock.advance(2 * daybook.FoldAge)
	_, err := of.book.Sweep(w.ctx)
	w.ok(err)
	w.rung(b.Rows, 0)
	same(w, "rows left to the relay", len(w.outbox(0, 100).Rows), 1)
}

// ringFromThePast has rows show up with a time from long before the relay's
// last look, as those of a transaction that was long under way do.
func ringFromThePast(w *world) {
	bell := &post{}
	of := w.relaying(bell, nil)
	stop := of.loop(relay.Options{Every: time.Millisecond})
	for n := range 5 {
		queue := fmt.Sprint("q", n)
		w.clock.advance(-time.Hour)
		w.enqueue(daybook.Request{Queue: queue})
		w.clock.advance(time.Hour)
		w.eventually("rung: "+queue, func() bool { return slices.Contains(bell.taken(), queue) })
	}
	stop()
}

// loop runs a relay of this process until it is stopped.
func (w *world) loop(o relay.Options) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- relay.New(w.book, o).Run(ctx) }()
	return func() {
		w.Helper()
		cancel()
		w.ok(<-done)
	}
}

// eventually waits for what another goroutine brings about.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(end) {
			w.Fatalf("still not %s", what)
		}
	}
}

func severalRelays(w *world) {
	bells := []*post{{}, {}, {}}
	var stops []func()
	for _, b := range bells {
		stops = append(stops, w.relaying(b, nil).loop(relay.Options{Every: time.Millisecond}))
	}
	var all sync.WaitGroup
	for n := range 4 {
		of := w.again()
		all.Go(func() {
			for i := range 50 {
				r := request(daybook.Request{Queue: fmt.Sprint("q", n, ".", i%10)})
				if _, err := of.book.Enqueue(w.ctx, r); err != nil {
					w.Errorf("enqueue: %v", err)
				}
			}
		})
	}
	all.Wait()
	w.eventually("an empty outbox", func() bool { return len(w.outbox(0, 1).Rows) == 0 })
	for _, stop := range stops {
		stop()
	}
	queues := map[string]bool{}
	for _, b := range bells {
		for _, q := range b.taken() {
			queues[q] = true
		}
	}
	same(w, "queues rung", len(queues), 40)
	_, backlog, err := w.book.Backlog(w.ctx)
	w.ok(err)
	for _, b := range backlog {
		same(w, "accepted in "+b.Queue, b.Accepted, 5)
	}
}

// bellAway: while a bell takes nothing, jobs go on, and no transaction of the
// relay's is open; what wasn't rung is rung when the bell is back.
func bellAway(w *world) {
	bell := &post{away: errors.New("away")}
	var waited atomic.Int64
	bell.between = func() { waited.Add(1) }
	of := w.relaying(bell, nil)
	w.enqueue(daybook.Request{})
	_, err := relay.New(of.book, relay.Options{Deadline: time.Millisecond}).Pass(w.ctx)
	w.refused(err, daybook.CodeUnavailable)
	same(w, "rows left", len(w.outbox(0, 100).Rows), 1)
	stop := of.loop(relay.Options{Every: time.Millisecond, Deadline: 50 * time.Millisecond})
	w.eventually("a bell that was tried", func() bool { return waited.Load() > 1 })
	for range 20 {
		w.enqueue(daybook.Request{})
		w.complete(w.claimed(w.session("w")))
	}
	bell.set(nil)
	w.eventually("an empty outbox", func() bool { return len(w.outbox(0, 1).Rows) == 0 })
	stop()
	same(w, "rung", fmt.Sprint(bell.taken()), "[q]")
}

func liveSessions(w *world) {
	live := func(most, want int) {
		w.Helper()
		n, err := w.book.LiveSessions(w.ctx, most)
		w.ok(err)
		same(w, "live sessions", n, want)
	}
	live(10, 0)
	for range 3 {
		w.session("w")
	}
	w.ok(w.book.EndSession(w.ctx, w.session("gone").ID))
	live(10, 3)
	live(2, 2)
}

// lateRow (MassTransit #4990, #5339): a row that comes between the relay's look
// and its mark is neither lost nor left behind: not one that comes while a batch
// is published, not one between that and its removal, and not one after a look
// that found none.
func lateRow(w *world) {
	bell := &post{}
	late := 0
	insert := func() {
		late++
		w.enqueue(daybook.Request{Queue: fmt.Sprint("late", late)})
	}
	of := w.relaying(bell, func(gap string, _ daybook.ID) {
		if gap == daybook.GapMark && late < 4 {
			insert()
		}
	})
	of.relay()
	same(w, "rung when there was nothing", len(bell.taken()), 0)
	w.enqueue(daybook.Request{})
	bell.between = func() {
		if late < 4 {
			insert()
		}
	}
	for _, want := range []string{"[q]", "[late1 late2]", "[late3 late4]", "[]"} {
		of.relay()
		same(w, "rung", fmt.Sprint(bell.taken()), want)
	}
	same(w, "rows left", len(w.outbox(0, 100).Rows), 0)
	same(w, "accepted", w.counts().Accepted, 1)
}

// errKilled is how a relay dies in these tests.
var errKilled = errors.New("killed")

// relayKilled (Particular/docs #1816, wolverine #2361): the relay dies a hundred
// times between publishing and taking the rows out. Everything is rung again and
// again, and each job runs once.
func relayKilled(w *world) {
	bell := &post{}
	deaths := 0
	of := w.relaying(bell, func(gap string, _ daybook.ID) {
		if gap == daybook.GapMark && deaths < 100 {
			deaths++
			panic(errKilled)
		}
	})
	ids := w.many(20)
	s := w.session("w")
	runs, rings := map[daybook.ID]int{}, 0
	for killed := true; killed; {
		killed = of.dies()
		for range bell.taken() {
			rings++
			for _, j := range w.claim(s, 1) {
				runs[j.ID]++
				w.complete(j)
			}
		}
	}
	same(w, "deaths", deaths, 100)
	same(w, "rings", rings, 101)
	same(w, "rows left", len(w.outbox(0, 100).Rows), 0)
	for _, id := range ids {
		w.stands(id, daybook.Succeeded)
		same(w, "runs", runs[id], 1)
		same(w, "attempts", len(w.attempts(id)), 1)
	}
}

// dies makes one pass, and reports whether the relay died in it.
func (w *world) dies() (killed bool) {
	defer func() {
		if said := recover(); said != nil {
			if said != error(errKilled) {
				panic(said)
			}
			killed = true
		}
	}()
	w.relay()
	return false
}
