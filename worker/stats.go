package worker

import (
	"sync/atomic"
	"time"

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

	Rings  int64 `json:"rings"`         // heard
	Again  int64 `json:"rings_again"`   // of them, those that the bell says it delivered before
	Stale  int64 `json:"rings_stale"`   // of them, for a job that can't be had, or another's queue
	Polled int64 `json:"found_by_poll"` // claims that no ring had announced when the poll looked
	Stood  int64 `json:"stood"`         // claim calls that enqueues of this process made; no ring is heard for those
	Bell   *Bell `json:"bell,omitempty"`
}

// Bell is this process's end of a bell that other processes hear too.
type Bell struct {
	Listening   bool    `json:"listening"` // if not, work is found by polling until the bell has healed
	Reconnects  int64   `json:"reconnects"`
	Published   int64   `json:"published"` // rings that the bell took over
	Failed      int64   `json:"failed"`    // rings that it didn't take
	Heard       int64   `json:"heard"`
	Doubled     int64   `json:"doubled"`
	Passed      int64   `json:"passed"`       // handed on since nobody here was free
	EchoSeconds float64 `json:"echo_seconds"` // round trip of the last echo, 0 before the first
	EchoAge     float64 `json:"echo_age"`     // seconds since it came back
}

// counters are the numbers that outlive a Run.
type counters struct {
	leaked, claimed, succeeded, failed, released, cancelled, lost, fenced, sessions atomic.Int64
	rings, again, stale, polled, stood                                              atomic.Int64
}

// Stats is a snapshot, for health and metrics. It costs a short lock.
func (w *Worker) Stats() Stats {
	c := &w.counters
	s := Stats{Quiet: w.quiet.Load(), Leaked: c.leaked.Load(), Claimed: c.claimed.Load(),
		Succeeded: c.succeeded.Load(), Failed: c.failed.Load(), Released: c.released.Load(),
		Cancelled: c.cancelled.Load(), Lost: c.lost.Load(), Fenced: c.fenced.Load(), Sessions: c.sessions.Load(),
		Rings: c.rings.Load(), Again: c.again.Load(), Stale: c.stale.Load(), Polled: c.polled.Load(), Stood: c.stood.Load(),
		Bell: bellOf(w.outside())}
	if e := w.running.Load(); e != nil {
		e.describe(&s)
	}
	return s
}

func bellOf(outside daybook.Outside) *Bell {
	if outside == nil {
		return nil
	}
	s := outside.Stats()
	b := &Bell{Listening: s.Listening, Reconnects: s.Reconnects, Published: s.Published, Failed: s.Failed,
		Heard: s.Heard, Doubled: s.Doubled, Passed: s.Passed, EchoSeconds: s.Echo.Seconds()}
	if !s.EchoAt.IsZero() {
		b.EchoAge = time.Since(s.EchoAt).Seconds()
	}
	return b
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
