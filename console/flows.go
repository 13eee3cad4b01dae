package console

import (
	"context"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// flows are samples of the counts, kept in memory: what went through each queue
// since the console began to look. The book keeps sums and no series.
type flows struct {
	mu      sync.Mutex
	samples []sample // the oldest first
}

// sample is the counts at one time.
type sample struct {
	at     daybook.Time
	total  tally
	queues map[string]tally
}

// tally is one queue's numbers in a sample.
type tally struct {
	daybook.Counts
	Eligible int64
	Oldest   float64
}

const (
	// sampleEvery and samplesMost make two hours.
	sampleEvery = 20 * time.Second
	samplesMost = 360
	// sampledQueues bounds the queues of a sample; those behind have no chart.
	sampledQueues = 300
)

// backlog is every queue in numbers, and all of them together.
type backlog struct {
	At     daybook.Time
	Queues []daybook.Backlog
	Total  daybook.Backlog
}

// backlog looks at the queues, with everybody who looks now.
func (c *Console) backlog(ctx context.Context) (backlog, error) {
	return see(ctx, c, "backlog", func(ctx context.Context) (b backlog, err error) {
		if b.At, b.Queues, err = c.book.Backlog(ctx); err != nil {
			return b, err
		}
		b.Total = totalOf(b.Queues)
		c.flows.note(b)
		return b, nil
	})
}

// totalOf adds queues up. The oldest is that of all.
func totalOf(queues []daybook.Backlog) (t daybook.Backlog) {
	t.Reasons = map[daybook.Reason]int64{}
	for _, q := range queues {
		t.Eligible += q.Eligible
		t.Later += q.Later
		t.Held += q.Held
		t.Oldest = max(t.Oldest, q.Oldest)
		t.Open += q.Open
		t.Doubled += q.Doubled
		t.Add(q.Counts)
		for reason, n := range q.Reasons {
			t.Reasons[reason] += n
		}
	}
	return t
}

// note keeps a sample, unless the one before is new enough.
func (f *flows) note(b backlog) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n > 0 {
		since := b.At.Sub(f.samples[n-1].at)
		if since >= 0 && since < sampleEvery*9/10 {
			return
		}
		if since < 0 { // the database's clock was set back
			f.samples = nil
		}
	}
	s := sample{at: b.At, total: tally{b.Total.Counts, b.Total.Eligible, b.Total.Oldest}, queues: map[string]tally{}}
	for i, q := range b.Queues {
		if i == sampledQueues {
			break
		}
		s.queues[q.Queue] = tally{q.Counts, q.Eligible, q.Oldest}
	}
	f.samples = append(f.samples, s)
	if over := len(f.samples) - samplesMost; over > 0 {
		f.samples = append([]sample(nil), f.samples[over:]...)
	}
}

// step is what went through between two samples.
type step struct {
	From, To                          daybook.Time
	In, Attempts, Succeeded, SetAside int64
	Eligible                          int64 // at its end
}

// steps are what went through one queue, or through all with "".
func (f *flows) steps(queue string) (all []step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := func(s sample) (tally, bool) {
		if queue == "" {
			return s.total, true
		}
		t, ok := s.queues[queue]
		return t, ok
	}
	for i := 1; i < len(f.samples); i++ {
		was, known := of(f.samples[i-1])
		now, ok := of(f.samples[i])
		if !ok || !known {
			continue
		}
		all = append(all, step{From: f.samples[i-1].at, To: f.samples[i].at,
			In:       now.Accepted + now.MovedIn + now.Revived - was.Accepted - was.MovedIn - was.Revived,
			Attempts: now.Attempts - was.Attempts, Succeeded: now.Succeeded - was.Succeeded,
			SetAside: now.EverSetAside - was.EverSetAside, Eligible: now.Eligible})
	}
	return all
}

// since is when the samples begin; 0 is that there is none.
func (f *flows) since() daybook.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) == 0 {
		return 0
	}
	return f.samples[0].at
}
