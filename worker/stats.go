package worker

import (
	"sync/atomic"

	"github.com/daybookdev/daybook"
)

// Stats is what a worker does now, and did since it was made.
type Stats struct {
	Session    daybook.ID `json:"session,omitzero"` // zero between two sessions
	Healthy    bool       `json:"healthy"`          // it runs, and its lease holds by its own clock
	Quiet      bool       `json:"quiet"`            // it claims no more
	Running    int        `json:"running"`          // handlers that run, the leaked ones too
	Waiting    int        `json:"waiting"`          // claims that wait for a free slot
	Unrecorded int        `json:"unrecorded"`       // outcomes that the book hasn't answered yet
	Leaked     int64      `json:"leaked"`           // handlers that go on though their context ended

	Claimed   int64 `json:"claimed"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Released  int64 `json:"released"` // given back without blame
	Cancelled int64 `json:"cancelled"`
	Lost      int64 `json:"lost"`   // claims that were taken back while this worker held them
	Fenced    int64 `json:"fenced"` // outcomes that came too late and changed nothing
	Sessions  int64 `json:"sessions"`
}

// counters are the numbers that outlive a Run.
type counters struct {
	leaked, claimed, succeeded, failed, released, cancelled, lost, fenced, sessions atomic.Int64
}

// Stats is a snapshot, for health and metrics. It costs a short lock.
func (w *Worker) Stats() Stats {
	c := &w.counters
	s := Stats{Quiet: w.quiet.Load(), Leaked: c.leaked.Load(), Claimed: c.claimed.Load(),
		Succeeded: c.succeeded.Load(), Failed: c.failed.Load(), Released: c.released.Load(),
		Cancelled: c.cancelled.Load(), Lost: c.lost.Load(), Fenced: c.fenced.Load(), Sessions: c.sessions.Load()}
	if e := w.running.Load(); e != nil {
		e.describe(&s)
	}
	return s
}

// describe puts in what belongs to one Run.
func (e *engine) describe(s *Stats) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Session = e.session.ID
	s.Healthy = !e.session.ID.IsZero() && e.trusted()
	s.Waiting = len(e.queue)
	s.Unrecorded, s.Running = len(e.outbox)+e.sending, e.slots
}

// count notes what the book made of an outcome.
func (c *counters) count(out daybook.Outcome, a daybook.Answer) {
	switch {
	case a.State == daybook.Cancelled && out.Kind != daybook.OutcomeSucceeded:
		c.cancelled.Add(1)
	case out.Kind == daybook.OutcomeSucceeded:
		c.succeeded.Add(1)
	case out.Kind == daybook.OutcomeFailed:
		c.failed.Add(1)
	default:
		c.released.Add(1)
	}
}
