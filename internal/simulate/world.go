package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/sqlite"
)

const queue = "q"

// world is one simulation under way.
type world struct {
	Schedule
	book      *daybook.Book
	mu        sync.Mutex
	processes [workers + hands]*process
	turn      int
	clock     int64           // of the history: no two of its events are at once
	acts      map[string]int  // what happened outside, by effect key
	done      map[string]bool // which of them the book has recorded
	ids       []daybook.ID
	history   []recorded
	wrong     []string
}

// Run runs a schedule in the caller's bubble of virtual time, and says what is
// wrong in the end.
func (s Schedule) Run(ctx context.Context) []string {
	w := &world{Schedule: s, acts: map[string]int{}, done: map[string]bool{}}
	var err error
	w.book, err = sqlite.Open(ctx, sqlite.Memory,
		sqlite.Options{Book: daybook.Options{Bell: daybook.NoBell{}, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return []string{err.Error()}
	}
	defer w.book.Close()
	for i := range w.processes {
		w.set(i, w.start(i))
	}
	var beside sync.WaitGroup
	beside.Go(func() { w.accept(ctx) })
	beside.Go(func() { w.play(ctx) })
	beside.Wait()
	w.heal(ctx)
	for _, p := range w.processes {
		p.kill()
	}
	w.judge(ctx)
	wait(ctx, patience) // for calls of processes that were killed while they stood still
	return w.wrong
}

func (w *world) set(i int, p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes[i] = p
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// tick is the next moment of the history.
func (w *world) tick() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return w.clock
}

// next is the end of the bell whose turn it is.
func (w *world) next() *end {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	if p := w.processes[w.turn%workers]; p != nil {
		return p.bell
	}
	return nil
}

// act is what happens outside, for an effect key. What the book knows to be done
// nobody asks for again.
func (w *world) act(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done[key] {
		w.wrong = append(w.wrong, "an effect that was recorded as done was called again")
	}
	w.acts[key]++
	return w.acts[key]
}

func (w *world) recorded(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[key] = true
}

// accept puts the jobs in, spread over the time of the faults.
func (w *world) accept(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Seed, 0xacce97))
	for i := range jobs {
		kind := "job"
		if i%2 == 0 {
			kind = "hand"
		}
		receipt, err := w.book.Enqueue(ctx, daybook.Request{Queue: queue, Kind: kind, Key: fmt.Sprint("job ", i)})
		if err != nil {
			w.say("enqueueing: %v", err)
			return
		}
		w.mu.Lock()
		w.ids = append(w.ids, receipt.ID)
		w.mu.Unlock()
		wait(ctx, time.Duration(r.IntN(int(simulated/jobs/time.Millisecond)))*time.Millisecond)
	}
}

// play makes the faults.
func (w *world) play(ctx context.Context) {
	began := time.Now()
	for _, f := range w.faults {
		wait(ctx, time.Until(began.Add(f.at)))
		if f.kind == cancel {
			w.cancel(ctx, f.who)
			continue
		}
		p := w.processes[f.who%len(w.processes)]
		switch f.kind {
		case cutOff, lost, slow, stop:
			p.store.spoil(f.kind, f.last)
		case die:
			p.kill()
			wait(ctx, f.last)
			w.set(p.number, w.start(p.number))
		default:
			p.bell.spoil(f.kind, f.last)
		}
	}
	wait(ctx, time.Until(began.Add(simulated)))
}

// cancel cancels a job, if it is there and wants to be cancelled.
func (w *world) cancel(ctx context.Context, i int) {
	w.mu.Lock()
	if i >= len(w.ids) {
		w.mu.Unlock()
		return
	}
	id := w.ids[i]
	w.mu.Unlock()
	by := daybook.By{Actor: "simulation", Reason: "a person's decision"}
	if _, err := w.book.Cancel(ctx, id, by, i%3 == 0); err != nil && daybook.CodeOf(err) != daybook.CodeRefused {
		w.say("cancelling: %v", err)
	}
}

// patience is how long all jobs may take once nothing is wrong any more: leases,
// passes of a reconciler that can't be sure, and retries.
const patience = 2 * time.Minute

// heal waits until every job has come to its end, with nothing spoiled any more.
func (w *world) heal(ctx context.Context) {
	for _, p := range w.processes {
		p.store.spoil("", 0)
		p.bell.spoil("", 0)
	}
	for late := time.Now().Add(patience); ; wait(ctx, time.Second) {
		open := 0
		for _, id := range w.ids {
			j, err := w.book.Job(ctx, id)
			if err != nil || !j.State.Final() {
				open++
			}
			if j.State == daybook.SetAside && j.Reason == daybook.ReasonCrashes { // it lost too many owners
				by := daybook.By{Actor: "simulation", Reason: "nothing is wrong any more"}
				if _, err := w.book.Revive(ctx, id, by); err != nil {
					w.say("reviving: %v", err)
				}
			}
		}
		if open == 0 {
			return
		}
		if time.Now().After(late) {
			w.say("%d jobs have not ended %s after the last fault", open, patience)
			return
		}
	}
}

// told reports whether an owner of a job knows, or may know, that it is done.
func (w *world) told(id daybook.ID) bool {
	return slices.ContainsFunc(w.history, func(r recorded) bool { return r.job == id && !r.claim && (r.ok || r.unknown) })
}

// judge compares the book with what is known without it.
func (w *world) judge(ctx context.Context) {
	report, err := check.Run(ctx, w.book, check.Options{Full: true})
	if err != nil {
		w.say("checking: %v", err)
		return
	}
	for _, i := range report.Invariants {
		if i.Rows > 0 {
			w.say("check %s: %d rows, %v", i.Name, i.Rows, i.Found)
		}
	}
	done := 0
	for _, id := range w.ids {
		j, err := w.book.Job(ctx, id)
		switch {
		case err != nil:
			w.say("job %s: %v", id, err)
		case j.Kind == "job" && j.State == daybook.Succeeded:
			done++
		case j.State == daybook.Succeeded && !w.told(id):
			w.say("job %s succeeded, and no owner was told so", id)
		case j.State != daybook.Succeeded && j.State != daybook.Cancelled:
			w.say("job %s ended %s %s", id, j.State, j.Reason)
		}
	}
	if len(w.acts) < done {
		w.say("%d jobs succeeded, and %d happened", done, len(w.acts))
	}
	w.linear()
}
