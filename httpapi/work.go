package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
)

// What workers call: claims, renewals, and how attempts ended.

// waitMax is how long a claim call may wait for work.
const waitMax = 60 * time.Second

// ClaimBody asks for work.
type ClaimBody struct {
	Queues       []string   `json:"queues" minItems:"1" maxItems:"10000" doc:"to claim from, in this order (1…10000)"`
	Kinds        []string   `json:"kinds,omitempty" doc:"take these kinds only; every kind without"`
	Worker       string     `json:"worker,omitempty" doc:"of a new session, at most 255 bytes"`
	Session      daybook.ID `json:"session,omitzero" doc:"claim for this session; a new one is made without"`
	Limit        *int       `json:"limit,omitempty" minimum:"1" maximum:"10000" doc:"how many jobs (1…10000; else 1)"`
	LeaseSeconds *float64   `json:"lease_seconds,omitempty" minimum:"1" maximum:"86400" doc:"of a new one, 1…86400; 30"`
	WaitSeconds  *float64   `json:"wait_seconds,omitempty" minimum:"0" maximum:"60" doc:"wait for work (0…60; else 0)"`
	Starts       bool       `json:"starts,omitempty" doc:"the worker records starts before handlers begin"`
	Oldest       bool       `json:"oldest,omitempty" doc:"by age alone, whatever the priority"`

	job *daybook.ID // that a message named
}

// Claim is one job that was claimed.
type Claim struct {
	Job        daybook.Job  `json:"job"`
	Generation int64        `json:"generation" doc:"names this claim in all that is said of it"`
	LeaseUntil daybook.Time `json:"lease_until"`
	Timeout    float64      `json:"timeout_seconds" doc:"the attempt's run limit: past it the claim is taken back"`
}

// Claims answers a call for work.
type Claims struct {
	Session    daybook.ID   `json:"session" doc:"give it in later calls, and renew it"`
	LeaseUntil daybook.Time `json:"lease_until" doc:"of the session"`
	Claims     []Claim      `json:"claims"`
	Full       bool         `json:"full,omitempty" doc:"there may be more: ask again"`
}

func (b ClaimBody) request() (r daybook.ClaimRequest, wait time.Duration, err error) {
	r = daybook.ClaimRequest{Session: b.Session, Queues: b.Queues, Kinds: b.Kinds, Limit: 1, Oldest: b.Oldest,
		SessionRequest: daybook.SessionRequest{Worker: b.Worker, Starts: b.Starts}}
	if b.Limit != nil {
		if r.Limit = *b.Limit; r.Limit < 1 {
			return r, 0, daybook.Invalid("limit", "wants 1…%d, got %d", daybook.BatchMax, r.Limit)
		}
	}
	if r.Lease, err = leaseOf(b.LeaseSeconds); err != nil {
		return r, 0, err
	}
	if wait, err = seconds("wait_seconds", b.WaitSeconds); err == nil && wait > waitMax {
		err = daybook.Invalid("wait_seconds", "wants 0…%.0f, got %g", waitMax.Seconds(), *b.WaitSeconds)
	}
	return r, wait, err
}

// leaseOf is the lease that a body asks for; 0 is the default.
func leaseOf(s *float64) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	lease, err := daybook.Seconds("lease_seconds", *s)
	if err == nil && (lease < daybook.LeaseMin || lease > daybook.LeaseMax) {
		err = daybook.Invalid("lease_seconds", "wants 1…%.0f, got %g", daybook.LeaseMax.Seconds(), *s)
	}
	return lease, err
}

func (s *Server) claim(c *call, in ClaimBody) (Claims, error) {
	r, wait, err := in.request()
	if err != nil {
		return Claims{}, err
	}
	key, err := c.idempotencyKey()
	if err != nil {
		return Claims{}, err
	}
	if err := checkClaim(r); err != nil {
		return Claims{}, err
	}
	if key != "" {
		if r.Call, err = s.callOf(c, key, in); err != nil {
			return Claims{}, err
		}
	}
	given, err := s.await(c, r, wait)
	if err != nil {
		return Claims{}, err
	}
	return s.granted(c, given, key != "")
}

// checkClaim refuses names under the fields that they stand in here.
func checkClaim(r daybook.ClaimRequest) error {
	if len(r.Queues) == 0 {
		return daybook.Invalid("queues", "is empty; name at least one queue")
	}
	return checkNames(r.Queues, r.Kinds)
}

func checkNames(queues, kinds []string) error {
	for _, q := range queues {
		if err := daybook.CheckName("queues", q); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		if err := daybook.CheckName("kinds", k); err != nil {
			return err
		}
	}
	return nil
}

// claimMax bounds one look for work. It isn't ended by a client that leaves: what
// was claimed then would be known to nobody.
const claimMax = 15 * time.Second

func (s *Server) tryClaim(c *call, r daybook.ClaimRequest) (daybook.Claimed, error) {
	if err := c.ctx().Err(); err != nil {
		return daybook.Claimed{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx()), claimMax)
	defer cancel()
	return s.book.Claim(ctx, r)
}

// await claims, and waits for something to claim.
func (s *Server) await(c *call, r daybook.ClaimRequest, wait time.Duration) (daybook.Claimed, error) {
	if wait == 0 {
		return s.tryClaim(c, r)
	}
	w := s.waiting.join(r.Queues, r.Kinds)
	defer s.waiting.leave(w)
	over := time.NewTimer(wait)
	defer over.Stop()
	var because *ring
	for {
		given, err := s.tryClaim(c, r)
		s.waiting.looked(w, because, err == nil, len(given.Jobs) > 0)
		if err != nil || len(given.Jobs) > 0 {
			return given, err
		}
		r.Session = given.Session.ID
		if because, err = s.sleep(c, w, given.Session, over.C); because == nil {
			return given, err
		}
	}
}

// sleep waits for a ring, and keeps the session's lease meanwhile: its client is
// there and waits. No ring is that the time is over.
func (s *Server) sleep(c *call, w *waiter, session daybook.Session, over <-chan time.Time) (*ring, error) {
	renew := time.NewTicker(max(session.Lease/2, daybook.LeaseMin/2))
	defer renew.Stop()
	for {
		select {
		case r := <-w.wake:
			return r, nil
		case <-renew.C:
			if _, err := s.book.Renew(c.ctx(), session.ID, nil); err != nil {
				return nil, err
			}
		case <-over:
			return nil, nil
		case <-s.closing:
			return nil, nil
		case <-c.ctx().Done():
			return nil, c.ctx().Err()
		}
	}
}

// granted answers with claims, if the client is still there. What nobody will
// hear of is given back at once, unless the client can ask for the same again.
func (s *Server) granted(c *call, given daybook.Claimed, repeatable bool) (Claims, error) {
	ctx := context.WithoutCancel(c.ctx())
	if c.ctx().Err() != nil && !repeatable && len(given.Jobs) > 0 {
		back := make([]daybook.Outcome, len(given.Jobs))
		for i, j := range given.Jobs {
			back[i] = daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeReleased,
				Owner: daybook.Owner{Session: given.Session.ID, Generation: j.Generation}}
		}
		if _, err := s.book.Finish(ctx, back); err != nil {
			s.log.Debug("claims of a client that left aren't given back; the reconciler does it", "error", sayable(err))
		}
		return Claims{}, c.ctx().Err()
	}
	if n := len(given.Jobs); given.Full && n > 0 {
		s.waiting.more(ctx, given.Jobs[n-1].Queue)
	}
	out := Claims{Session: given.Session.ID, LeaseUntil: given.Session.ExpiresAt, Full: given.Full,
		Claims: make([]Claim, len(given.Jobs))}
	for i, j := range given.Jobs {
		out.Claims[i] = Claim{j, j.Generation, j.LeaseUntil, j.Timeout.Seconds()}
	}
	return out, nil
}

// JobClaimBody asks for one job.
type JobClaimBody struct {
	Worker       string     `json:"worker,omitempty" doc:"of a new session, at most 255 bytes"`
	Session      daybook.ID `json:"session,omitzero" doc:"claim for this session; a new one is made without"`
	Queues       []string   `json:"queues,omitempty" doc:"only if the job is in one of these"`
	Kinds        []string   `json:"kinds,omitempty" doc:"only if the job is of one of these kinds"`
	LeaseSeconds *float64   `json:"lease_seconds,omitempty" minimum:"1" maximum:"86400" doc:"of a new one, 1…86400; 30"`
	Starts       bool       `json:"starts,omitempty" doc:"the worker records starts before handlers begin"`
}

func (s *Server) claimJob(c *call, in JobClaimBody) (Claims, error) {
	id, err := c.id("id")
	if err != nil {
		return Claims{}, err
	}
	key, err := c.idempotencyKey()
	if err != nil {
		return Claims{}, err
	}
	body := ClaimBody{Queues: in.Queues, Kinds: in.Kinds, Worker: in.Worker, Session: in.Session,
		LeaseSeconds: in.LeaseSeconds, Starts: in.Starts}
	r, _, err := body.request()
	if err != nil {
		return Claims{}, err
	}
	r.Job = id
	if key != "" {
		body.job = &id
		if r.Call, err = s.callOf(c, key, body); err != nil {
			return Claims{}, err
		}
	}
	given, err := s.tryClaim(c, r)
	if err != nil {
		return Claims{}, err
	}
	return s.granted(c, given, key != "")
}

// RenewBody says what the session believes to own.
type RenewBody struct {
	Claims []daybook.ClaimRef `json:"claims,omitempty" doc:"what it believes to own; without, all of it"`
}

// Renewed answers a renewal.
type Renewed struct {
	LeaseUntil daybook.Time       `json:"lease_until"`
	Lost       []daybook.ClaimRef `json:"lost" doc:"not the session's any more: stop, and don't report"`
	Cancel     []daybook.ClaimRef `json:"cancel" doc:"asked to cancel: stop, and report how it ended"`
	Quiet      bool               `json:"quiet,omitempty" doc:"asked to claim no more"`
}

func (s *Server) renew(c *call, in RenewBody) (Renewed, error) {
	session, err := c.id("session")
	if err != nil {
		return Renewed{}, err
	}
	if p := checkRefs("#/claims", in.Claims); p != nil {
		return Renewed{}, p
	}
	r, err := s.book.Renew(c.ctx(), session, in.Claims)
	return Renewed{r.LeaseUntil, orEmpty(r.Lost), orEmpty(r.Cancel), r.Quiet}, err
}

// checkRefs refuses claims that aren't named whole: as lost ones they would be
// given up for the caller's mistake.
func checkRefs(at string, refs []daybook.ClaimRef) *Problem {
	for n, ref := range refs {
		row := at + "/" + strconv.Itoa(n)
		switch {
		case ref.Job.IsZero():
			return problem(daybook.CodeInvalid, "id is missing; name the job").at(row + "/id")
		case ref.Generation < 1:
			return problem(daybook.CodeInvalid, "generation: wants the claim's generation, 1 or more").at(row + "/generation")
		}
	}
	return nil
}

// started answers 204, or which of the claims are lost; the others are recorded.
func (s *Server) started(c *call, in []daybook.ClaimRef) (none, error) {
	session, err := c.id("session")
	if err != nil {
		return none{}, err
	}
	if p := checkRefs("#", in); p != nil {
		return none{}, p
	}
	lost, err := s.book.Started(c.ctx(), session, in)
	if err == nil && len(lost) > 0 {
		p := problem(daybook.CodeFenced, "the session doesn't own some of these any more: don't begin them; "+
			"the others are recorded")
		p.Lost = lost
		return none{}, p
	}
	return none{}, err
}

func (s *Server) endSession(c *call, _ none) (none, error) {
	session, err := c.id("session")
	if err != nil {
		return none{}, err
	}
	return none{}, s.book.EndSession(c.ctx(), session)
}

// orEmpty keeps an empty list from being written as null.
func orEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
