package httpapi

import (
	"time"

	"github.com/daybookdev/daybook"
)

// What worker programs call beside claims: their session by itself, and the bell.

// sessionRoutes are about sessions, and what wakes them.
func (s *Server) sessionRoutes() []route {
	return []route{
		post(daybook.ScopeWork, "/v1/sessions", "startSession", "Start a session: one start of one worker process",
			s.startSession).most(1<<20).
			shows(`{"worker":"mailer-1","lease_seconds":30,"queues":["mail"]}`,
				`{"id":"`+egSession+`","worker":"mailer-1","started_at":"2026-12-24T18:00:00.000000Z",`+
					`"renewed_at":"2026-12-24T18:00:00.000000Z","lease_until":"2026-12-24T18:00:30.000000Z",`+
					`"queues":["mail"],"running":0}`),
		post(daybook.ScopeWork, "/v1/sessions/{session}/quiet", "quietSession",
			"Note that a session claims no more, for people to see", s.quietSession).mayLackBody(),
		post(daybook.ScopeWork, "/v1/listen", "listen", "Wait until somebody rings for one of these queues",
			s.listen).most(1<<20).
			shows(`{"queues":["mail"],"wait_seconds":1}`, `{"rung":true,"queue":"mail"}`),
	}
}

// SessionBody starts a session.
type SessionBody struct {
	Worker       string   `json:"worker,omitempty" maxLength:"255" doc:"the process's name, at most 255 bytes"`
	LeaseSeconds *float64 `json:"lease_seconds,omitempty" minimum:"1" maximum:"86400" doc:"1…86400; else 30"`
	Starts       bool     `json:"starts,omitempty" doc:"the worker records starts before handlers begin"`
	Queues       []string `json:"queues,omitempty" doc:"what it takes, to answer why a job waits"`
	Kinds        []string `json:"kinds,omitempty" doc:"which kinds; every one without"`
}

func (s *Server) startSession(c *call, in SessionBody) (session daybook.Session, err error) {
	r := daybook.SessionRequest{Worker: in.Worker, Starts: in.Starts, Queues: in.Queues, Kinds: in.Kinds}
	if r.Lease, err = leaseOf(in.LeaseSeconds); err != nil {
		return session, err
	}
	if err := checkNames(in.Queues, in.Kinds); err != nil {
		return session, err
	}
	return s.book.StartSession(c.ctx(), r)
}

func (s *Server) quietSession(c *call, _ none) (none, error) {
	session, err := c.id("session")
	if err != nil {
		return none{}, err
	}
	return none{}, s.book.QuietSession(c.ctx(), session)
}

// ListenBody waits for a ring.
type ListenBody struct {
	Queues      []string `json:"queues" minItems:"1" maxItems:"10000" doc:"the queues to hear of (1…10000)"`
	Kinds       []string `json:"kinds,omitempty" doc:"what the caller takes; every kind without"`
	WaitSeconds *float64 `json:"wait_seconds,omitempty" minimum:"0" maximum:"60" doc:"wait so long (0…60; 0 without)"`
}

// Rung answers who waited. It is a hint and no claim: look with a claim call.
type Rung struct {
	Rung  bool   `json:"rung" doc:"there may be work; false is that the time is over"`
	Queue string `json:"queue,omitempty" doc:"where; without, in any of them"`
}

func (s *Server) listen(c *call, in ListenBody) (Rung, error) {
	wait, err := seconds("wait_seconds", in.WaitSeconds)
	switch {
	case err != nil:
		return Rung{}, err
	case wait > waitMax:
		return Rung{}, daybook.Invalid("wait_seconds", "wants 0…%.0f, got %g", waitMax.Seconds(), *in.WaitSeconds)
	case len(in.Queues) > daybook.QueuesMax:
		return Rung{}, daybook.Invalid("queues", "at most %d, got %d", daybook.QueuesMax, len(in.Queues))
	}
	if err := checkClaim(daybook.ClaimRequest{Queues: in.Queues, Kinds: in.Kinds}); err != nil {
		return Rung{}, err
	}
	w := s.waiting.join(in.Queues, in.Kinds)
	defer s.waiting.leave(w)
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case r := <-w.wake:
		s.waiting.looked(w, r, true, true) // the caller looks now
		return Rung{true, r.Queue}, nil
	case <-over.C:
	case <-s.closing:
	case <-c.ctx().Done():
		return Rung{}, c.ctx().Err()
	}
	return Rung{}, nil
}
