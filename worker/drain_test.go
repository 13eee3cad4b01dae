package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// dies claims the next job for a session that nobody ever renews.
func dies(t *testing.T, book *daybooktest.Book, lease time.Duration) {
	t.Helper()
	claimed, err := book.Claim(t.Context(), daybook.ClaimRequest{Queues: []string{"q"},
		SessionRequest: daybook.SessionRequest{Worker: "dead", Lease: lease}})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(claimed.Jobs), err)
	}
}

// A user who only ever drains, by cron, gets the jobs of killed workers run.
func TestDrainsRepairLostJobs(t *testing.T) {
	for _, c := range []struct {
		name        string
		lease, wait time.Duration
		noLoops     bool
		want        daybook.State
	}{
		{"a short lease", 5 * time.Second, 5 * time.Second, false, daybook.Succeeded},
		{"a long lease", 10 * time.Minute, daybook.MarkMax, false, daybook.Succeeded},
		{"too soon", 10 * time.Minute, daybook.MarkMax - time.Second, false, daybook.Running},
		{"without loops", 5 * time.Second, time.Hour, true, daybook.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				dies(t, book, c.lease)
				drain := func() {
					w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, NoLoops: c.noLoops})
					worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return nil })
					if err := w.Drain(t.Context()); err != nil {
						t.Fatalf("Drain: %v", err)
					}
				}
				time.Sleep(c.lease + time.Second)
				drain()
				book.RequireState(id, daybook.Running) // marked only: the session might live
				time.Sleep(c.wait)
				drain()
				book.RequireState(id, c.want)
			})
		})
	}
}

// A drain ends with the error when the database fails for too long, whatever
// fails; a worker that doesn't drain waits.
func TestDrainGivesUpOnADeadDatabase(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease time.Duration
		cut   func(p *process)
		want  time.Duration
	}{
		{"from the start", 0, func(p *process) { p.cut() }, daybook.LeaseDefault},
		{"a short lease", time.Second, func(p *process) { p.cut() }, 10 * time.Second},
		{"while a job runs", 0, nil, daybook.LeaseDefault},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				p := newProcess(t, book, worker.Config{Lease: c.lease, Grace: -1, Poll: -1})
				defer p.bell.Close()
				worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
					p.cut()
					return nil
				})
				if c.cut != nil {
					c.cut(p)
				} else {
					enqueue(t, book, daybook.Request{})
				}
				begun := time.Now()
				err := p.Drain(t.Context())
				if !errors.Is(err, daybook.ErrUnavailable) {
					t.Errorf("Drain: %v, want unavailable", err)
				}
				if took := time.Since(begun); took < c.want || took > c.want+10*time.Second {
					t.Errorf("Drain took %s, want %s and a retry", took, c.want)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.cut()
		p.start(t)
		after(10 * time.Minute)
		p.mend()
		id := enqueue(t, book, daybook.Request{})
		after(time.Minute)
		book.RequireState(id, daybook.Succeeded)
	})
}
