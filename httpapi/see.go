package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookdev/daybook"
)

// Backlog is every queue in numbers.
type Backlog struct {
	At     daybook.Time      `json:"at"`
	Queues []daybook.Backlog `json:"queues"`
}

func (s *Server) backlog(c *call) (Backlog, error) {
	at, queues, err := s.book.Backlog(c.ctx())
	for i := range queues {
		queues[i].Kinds = orEmpty(queues[i].Kinds)
	}
	return Backlog{at, orEmpty(queues)}, err
}

func (s *Server) inventory(c *call) (daybook.Inventory, error) {
	inv, err := s.book.Inventory(c.ctx())
	for i := range inv.Queues {
		inv.Queues[i].Kinds = orEmpty(inv.Queues[i].Kinds)
	}
	return inv, err
}

// Queues are the queues, without numbers.
type Queues struct {
	Queues []daybook.Queue `json:"queues"`
}

func (s *Server) queues(c *call) (Queues, error) {
	queues, err := s.book.Queues(c.ctx(), false)
	return Queues{orEmpty(queues)}, err
}

// Steered is a queue after a decision.
type Steered struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
}

func (s *Server) pause(c *call, in DecideBody) (Steered, error) {
	return s.steer(c, in, true, s.book.Pause)
}

func (s *Server) resume(c *call, in DecideBody) (Steered, error) {
	return s.steer(c, in, false, s.book.Resume)
}

func (s *Server) steer(c *call, in DecideBody, paused bool,
	do func(context.Context, string, daybook.By) error) (Steered, error) {
	name, err := c.name("queue")
	if err != nil {
		return Steered{}, err
	}
	by, err := c.by(in.Reason)
	if err != nil {
		return Steered{}, err
	}
	return Steered{name, paused}, do(c.ctx(), name, by)
}

// Sessions are workers' sessions.
type Sessions struct {
	At       daybook.Time      `json:"at" doc:"the database's time, which made the leases"`
	Sessions []daybook.Session `json:"sessions" doc:"the newest first"`
}

func (s *Server) sessions(c *call) (Sessions, error) {
	limit, _, err := c.page()
	if err != nil {
		return Sessions{}, err
	}
	if c.asked("limit") == "" {
		limit = daybook.ListMax
	}
	at, sessions, err := s.book.SessionsAt(c.ctx(), daybook.SessionFilter{Worker: c.asked("worker"),
		WithEnded: c.asked("ended") == "true", Limit: limit})
	return Sessions{at, orEmpty(sessions)}, err
}

// Checked is what a check found, for the description.
type Checked struct {
	Violations int                `json:"violations" doc:"0 in a healthy book"`
	Full       bool               `json:"full" doc:"all rows were walked"`
	Invariants []CheckedInvariant `json:"invariants"`
}

// CheckedInvariant is what became of one invariant.
type CheckedInvariant struct {
	Name     string              `json:"name"`
	Sentence string              `json:"sentence" doc:"what must be true"`
	Rows     int                 `json:"rows" doc:"that break it"`
	Walked   int64               `json:"walked" doc:"rows looked at"`
	Found    []daybook.Violation `json:"found,omitempty" doc:"the first of them"`
}

func (s *Server) check(c *call) (any, error) {
	select { // one at a time: it walks the book
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	default:
		return nil, problem(daybook.CodeBusy, "a check is under way; its answer is as good, ask again behind it")
	}
	return s.opts.Check(c.ctx(), c.asked("full") == "true")
}

// Health says that the process lives.
type Health struct {
	Status string `json:"status"`
	Bell   string `json:"bell,omitempty" doc:"how the bell is heard; a deaf one costs latency and no work"`
}

func (s *Server) health(*call) (Health, error) {
	h := Health{Status: "ok"}
	if s.opts.Bell != nil {
		h.Bell = s.opts.Bell()
	}
	return h, nil
}

// readyMax is how long the book may take to show that it is there.
const readyMax = 2 * time.Second

func (s *Server) ready(c *call) (Health, error) {
	ctx, cancel := context.WithTimeout(c.ctx(), readyMax)
	defer cancel()
	if err := s.opts.Ready(ctx); err != nil {
		return Health{}, problem(daybook.CodeUnavailable, "not ready: "+sayable(err))
	}
	return Health{Status: "ready"}, nil
}

// through answers with a handler of its own.
func through(h http.Handler) func(c *call) (any, error) {
	return func(c *call) (any, error) {
		c.done = true
		h.ServeHTTP(c.w, c.r)
		return nil, nil
	}
}
