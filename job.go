package daybook

import (
	"encoding/json"
	"fmt"
	"time"
)

// Job is one row of authority: what someone asked for, and where it stands.
// It is a value; a move returns a new one inside a [Change].
type Job struct {
	ID                ID              `json:"id"`
	Queue             string          `json:"queue"`
	Kind              string          `json:"kind"`
	Args              json.RawMessage `json:"args,omitempty"` // byte for byte as given; not loaded for moves
	State             State           `json:"state"`
	Reason            Reason          `json:"reason,omitempty"`
	Priority          int             `json:"priority"`
	RunAt             Time            `json:"run_at"` // when it is or became eligible
	ExpiresAt         Time            `json:"expires_at,omitzero"`
	HeldBy            string          `json:"held_by,omitempty"`
	Generation        int64           `json:"generation"` // the fencing token: rises, never falls
	Failures          int             `json:"failures"`
	Crashes           int             `json:"crashes"`
	MaxFailures       int             `json:"max_failures"`
	OnLost            OnLost          `json:"on_lost"`
	Timeout           time.Duration   `json:"-"` // run limit of one attempt
	Key               string          `json:"key,omitempty"`
	Traceparent       string          `json:"traceparent,omitempty"` // W3C Trace Context of the enqueue
	Tracestate        string          `json:"tracestate,omitempty"`
	Origin            *Origin         `json:"origin,omitempty"`
	Result            json.RawMessage `json:"result,omitempty"`
	Progress          json.RawMessage `json:"progress,omitempty"`
	LastError         *Problem        `json:"last_error,omitempty"`
	Session           ID              `json:"session,omitzero"`
	Worker            string          `json:"worker,omitempty"`
	LeaseUntil        Time            `json:"lease_until,omitzero"`
	CancelRequestedAt Time            `json:"cancel_requested_at,omitzero"`
	EnqueuedAt        Time            `json:"enqueued_at"`
	ClaimedAt         Time            `json:"claimed_at,omitzero"`
	EndedAt           Time            `json:"ended_at,omitzero"`
	Hidden            bool            `json:"hidden,omitempty"` // documents are left out for this reader: see [Sight]

	// What only moves and stores read.

	FirstClaimedAt Time   `json:"-"` // starts the snooze clock; since enqueue or revive
	StartedAt      Time   `json:"-"` // a recorded start of the running attempt
	GrantedAt      int64  `json:"-"` // the session's count of listing renewals at the grant
	OpenEffect     string `json:"-"` // the first effect that is open, or ""
	Ledger         bool   `json:"-"` // its handler recorded an effect
	Effects        int    `json:"-"` // how many effects it has
	Happened       bool   `json:"-"` // the effect handler happened, a person said
	Ref            int64  `json:"-"` // the store's own handle of the row
}

// Origin is where a moved job came from. Two jobs never share one.
type Origin struct {
	System      string `json:"system"`
	Store       string `json:"store"`
	Queue       string `json:"queue"`
	ID          string `json:"id"`
	Occurrence  int    `json:"occurrence"`
	PayloadHash string `json:"payload_hash"`
	Round       int    `json:"round,omitempty"` // of the cutover: the same job may go back, and move in again
}

// Owner says which claim a write belongs to.
type Owner struct {
	Session    ID    `json:"session"`
	Generation int64 `json:"generation"`
}

// By is the person behind a move, and why.
type By struct {
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Change is what a move did: the row before and after, and what else the store
// writes with it in the same transaction. A store saves Now only where the row
// still is Was: same state, same generation, same session.
type Change struct {
	Move    Move
	Was     Job
	Now     Job
	Attempt *Attempt // the attempt that the move ended
	Event   *Event   // what the timeline says of it
	Effect  *Effect  // the open effect that a loss leaves behind
}

// Event is one line of a job's timeline that is not an attempt: what a person
// or the book itself did.
type Event struct {
	At         Time   `json:"at"`
	What       string `json:"what"`
	Generation int64  `json:"generation,omitempty"`
	Session    ID     `json:"session,omitzero"`
	Actor      string `json:"actor,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Detail     string `json:"detail"`
	Hidden     bool   `json:"hidden,omitempty"` // what was said is left out for this reader: see [Sight]
}

// Trace is the trace context that the job was enqueued with, or none.
func (j Job) Trace() Trace { return Trace{Parent: j.Traceparent, State: j.Tracestate} }

// Attempted reports whether the job was ever claimed.
func (j Job) Attempted() bool { return j.Generation > 0 }

// CrashLimit is how many crashes set the job aside.
func (j Job) CrashLimit() int { return min(CrashesMax, j.MaxFailures) }

// Suspect reports whether the job crashed often enough that a session is given
// only one like it at a time: a poison job must not condemn the thousand that
// share its process (sidekiq/sidekiq #4633, contribsys/faktory #99).
func (j Job) Suspect() bool {
	limit := j.CrashLimit()
	return limit > 1 && j.Crashes >= min(2, limit-1)
}

// Deadline is when the running attempt's run limit is over.
func (j Job) Deadline() Time { return j.ClaimedAt.Add(j.Timeout) }

// becomes finishes a move: it panics when the result breaks the lifecycle,
// since that is an error of this package and must not reach a database.
func (j Job) becomes(move Move, next Job, c Change) Change {
	if !Allowed(move, j.State, next.State) {
		panic(fmt.Sprintf("daybook: %s moved a job from %s to %s", move, j.State, next.State))
	}
	if next.Generation < j.Generation {
		panic(fmt.Sprintf("daybook: %s lowered generation %d to %d", move, j.Generation, next.Generation))
	}
	if (next.State == Running) != !next.Session.IsZero() {
		panic(fmt.Sprintf("daybook: %s left a %s job with session %s", move, next.State, next.Session))
	}
	if (next.State == SetAside) != (next.Reason != "") {
		panic(fmt.Sprintf("daybook: %s left a %s job with reason %q", move, next.State, next.Reason))
	}
	if next.State == SetAside && j.State != SetAside && c.Event == nil {
		c.Event = &Event{At: next.EndedAt, What: "set aside", Generation: next.Generation, Detail: string(next.Reason)}
	}
	c.Move, c.Was, c.Now = move, j, next
	return c
}

// tookHold reports whether the row stands as the change left it and not as it
// was before: then an earlier run of the same write was committed, and only its
// answer was lost.
func (c Change) tookHold(j Job) bool {
	return c.Move != "" && c.Now.standing() == j.standing() && c.Now.standing() != c.Was.standing()
}

// standing is what a person's move changes in a row.
func (j Job) standing() any {
	return [...]any{j.State, j.Reason, j.Generation, j.RunAt, j.EndedAt, j.HeldBy, j.CancelRequestedAt}
}

// refuse is the answer of a move that the job's state doesn't allow.
func (j Job) refuse(format string, args ...any) *Error {
	return Fail(CodeRefused, "job %s %s", j.ID, fmt.Sprintf(format, args...))
}

// disowned gives the row back: nobody owns it, whatever it becomes next.
func (j Job) disowned() Job {
	j.Session, j.Worker, j.LeaseUntil = ID{}, "", 0
	j.StartedAt, j.CancelRequestedAt, j.GrantedAt = 0, 0, 0
	return j
}

func (j Job) waitingAt(at Time) Job {
	j.State, j.Reason, j.RunAt, j.EndedAt = Waiting, "", at, 0
	return j
}

func (j Job) setAside(reason Reason, now Time) Job {
	j.State, j.Reason, j.EndedAt = SetAside, reason, now
	return j
}

func (j Job) ended(state State, now Time) Job {
	j.State, j.Reason, j.EndedAt = state, "", now
	return j
}
