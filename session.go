package daybook

import "time"

// Session is one start of a worker process. It holds one lease for everything
// it claimed, so that renewal costs per process and not per job. The book
// makes the id; it is never used again, so a restarted worker of the same name
// doesn't own its predecessor's jobs (oban-bg/oban #862).
type Session struct {
	ID        ID            `json:"id"`
	Worker    string        `json:"worker"`
	Lease     time.Duration `json:"-"`
	StartedAt Time          `json:"started_at"`
	RenewedAt Time          `json:"renewed_at"`
	ExpiresAt Time          `json:"lease_until"`
	EndedAt   Time          `json:"ended_at,omitzero"` // final: an ended session never renews or claims again
	MarkedAt  Time          `json:"-"`                 // found expired by a pass that could not be sure
	Renewals  int64         `json:"-"`                 // renewals that listed their claims
	Starts    bool          `json:"starts,omitempty"`  // records starts before handlers begin
	Quiet     bool          `json:"quiet,omitempty"`   // asked to claim no more
	Queues    []string      `json:"queues,omitempty"`  // what it takes; empty is unknown
	Kinds     []string      `json:"kinds,omitempty"`   // empty is every kind
	Running   int           `json:"running"`           // claims it holds; only in lists
	Ref       int64         `json:"-"`
}

// Live reports whether the session may still claim and renew. A lease that ran
// out is not enough to end it: until someone ends it, a renewal saves it.
func (s Session) Live() bool { return s.EndedAt == 0 }

// Renew extends the lease from now and forgets a mark. listed says that the
// renewal named its claims.
func (s Session) Renew(now Time, listed bool) (Session, error) {
	if !s.Live() {
		return s, Fail(CodeFenced, "session %s ended at %s; its claims were taken back", s.ID, s.EndedAt)
	}
	s.RenewedAt, s.ExpiresAt, s.MarkedAt = now, now.Add(s.Lease), 0
	if listed {
		s.Renewals++
	}
	return s, nil
}

// HalfSpent reports whether the lease is below half, when a claim renews it.
func (s Session) HalfSpent(now Time) bool { return s.ExpiresAt.Sub(now) < s.Lease/2 }

// Certainty is how far a reconciler's pass trusts that a lease past its end
// means a dead process.
type Certainty int

// A pass is unsure after its own start, after a failed or late pass, and after
// a jump of the database's clock: then a database that was away for a minute
// must not cost the whole fleet its work. AtOnce is a person's order.
const (
	Unsure Certainty = iota
	Sure
	AtOnce
)

// Expiry decides about a session whose lease is past. A sure pass ends it; an
// unsure one only marks it, and any pass ends one that is still expired when
// its mark is least(lease, MarkMax) old.
func (s Session) Expiry(now Time, c Certainty) (next Session, changed bool) {
	old := s.MarkedAt != 0 && now.Sub(s.MarkedAt) >= min(s.Lease, MarkMax)
	switch {
	case !s.Live() || s.ExpiresAt > now:
		return s, false
	case old, c == AtOnce, c == Sure && s.MarkedAt == 0:
		s.EndedAt = now
		return s, true
	case s.MarkedAt == 0:
		s.MarkedAt = now
		return s, true
	}
	return s, false
}

// End closes the session for good, by its own wish.
func (s Session) End(now Time) Session {
	if s.EndedAt == 0 {
		s.EndedAt = now
	}
	return s
}

// Unlisted reports whether a claim granted when the session had listed granted
// times, and absent from the newest list, was never received: two listing
// renewals have passed it over.
func (s Session) Unlisted(granted int64) bool { return s.Renewals-granted >= 2 }
