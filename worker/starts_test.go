package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// contribsys/faktory #99: a job that kills its worker was delivered for ever,
// and took the jobs beside it along.
func TestL19_PoisonJobIsSetAsideAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		poison := enqueue(t, book, daybook.Request{Kind: "poison"})
		ids := make([]daybook.ID, 49)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		hang := make(chan struct{})
		defer close(hang)
		kills := 0
		for stateOf(t, book, poison) != daybook.SetAside && kills < 20 {
			p := newProcess(t, book, worker.Config{Concurrency: 50, NoLoops: true})
			killed := make(chan struct{})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				time.Sleep(time.Second)
				return nil
			})
			worker.Handle(p.Worker, "poison", func(context.Context, *worker.Claim[none]) error {
				p.cut() // dead for the world, with all that it holds
				close(killed)
				<-hang
				return nil
			})
			p.start(t)
			select {
			case <-killed:
				kills++
			case <-time.After(10 * time.Minute):
			}
			p.Stop()
			p.end(t)
			after(time.Minute)
		}
		last := newProcess(t, book, worker.Config{})
		worker.Handle(last.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		last.start(t)
		after(10 * time.Minute)
		j := book.RequireState(poison, daybook.SetAside)
		if j.Reason != daybook.ReasonCrashes || kills != daybook.CrashesMax {
			t.Errorf("set aside for %s after %d crashes, want crashes after %d", j.Reason, kills, daybook.CrashesMax)
		}
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Crashes > 2 {
				t.Errorf("job %s beside the poison is blamed for %d crashes", id, j.Crashes)
			}
		}
	})
}

// Starts are recorded for jobs whose loss a person must judge, and only when
// their handlers begin: what waited for a slot is simply eligible again.
func TestStartsAreRecordedBeforeHandlersBegin(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		p := newProcess(t, book, worker.Config{Concurrency: 1, NoLoops: true})
		hang := make(chan struct{})
		defer close(hang)
		worker.Handle(p.Worker, "fast", func(context.Context, *worker.Claim[none]) error { return nil })
		worker.Handle(p.Worker, "slow", func(_ context.Context, c *worker.Claim[none]) error {
			list, err := book.Timeline(context.Background(), c.Job().ID)
			if err != nil || !slices.ContainsFunc(list, func(e daybook.Event) bool { return e.What == "started" }) {
				t.Errorf("the handler runs and no start is recorded: %v, %v", list, err)
			}
			p.cut()
			<-hang
			return nil
		})
		for range 50 {
			enqueue(t, book, daybook.Request{Kind: "fast", Priority: 1})
		}
		ids := make([]daybook.ID, 5)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{Kind: "slow", OnLost: daybook.LostSetAside})
		}
		p.start(t)
		after(time.Second)
		for _, id := range ids {
			book.RequireState(id, daybook.Running)
		}
		after(2 * time.Minute)
		if j := book.RequireState(ids[0], daybook.SetAside); j.Reason != daybook.ReasonLost || j.Crashes != 1 {
			t.Errorf("the one that began: %s, %d crashes; want lost and 1", j.Reason, j.Crashes)
		}
		for _, id := range ids[1:] {
			if j := book.RequireState(id, daybook.Waiting); j.Crashes != 0 {
				t.Errorf("job %s never began and is blamed for %d crashes", id, j.Crashes)
			}
		}
	})
}

func TestStartsAreRecordedInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 100})
		p.set(func(context.Context, string) error { time.Sleep(time.Millisecond); return nil }, nil)
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		for range 100 {
			enqueue(t, book, daybook.Request{OnLost: daybook.LostSetAside})
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.bell.Close()
		if got := p.Stats().Succeeded; got != 100 {
			t.Errorf("%d succeeded, want 100", got)
		}
		if got := p.count("recording starts"); got == 0 || got > 10 {
			t.Errorf("%d writes for 100 starts, want a few", got)
		}
	})
}
