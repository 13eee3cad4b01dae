package daybook

import (
	"context"
	"encoding/json"
	"time"
)

// Store keeps the rows. It decides nothing: the moves of this package decide,
// and a store loads, locks and saves. What each method answers when there is
// nothing, and when called twice, is part of the contract that storetest
// holds every store to.
type Store interface {
	// Write runs fn in one transaction and commits it, durably, before it
	// returns nil. Several writes may share a commit, but an error of fn
	// undoes fn alone. fn may run again after a passing fault of the database,
	// so it must not keep what an earlier run found. doing names the work for
	// error texts. An error with CodeUnavailable means that the write may or
	// may not have taken hold: every write of Book can be repeated.
	Write(ctx context.Context, doing string, fn func(Tx) error) error
	// Read runs fn on one snapshot.
	Read(ctx context.Context, doing string, fn func(View) error) error
	// Describe says what this store is, for logs and doctor.
	Describe() string
	// Close waits for running writes and lets go of the database. Twice is
	// harmless; writes after it answer CodeUnavailable.
	Close() error
}

// Tx is one write transaction. It sees its own writes.
type Tx interface {
	View
	// Enqueue inserts the jobs, in order, with their keys, and counts them. A
	// key or id that the book knows is answered by NewJob.Replay; on its error
	// nothing of the call is stored.
	Enqueue(ctx context.Context, jobs []NewJob) ([]Receipt, error)
	// Claim finds eligible jobs, gives them to the session by Job.Claim and
	// saves them. Nothing eligible is an empty list.
	Claim(ctx context.Context, c Claiming) ([]Job, error)
	// Lock loads jobs, without args, and holds them until the transaction
	// ends. The answer is parallel to ids; an unknown id gives a zero Job.
	// Locks are taken in one order, so two callers can't deadlock.
	Lock(ctx context.Context, ids []ID) ([]Job, error)
	// Save carries out changes: each only where the row still is Change.Was
	// (state, generation, session), else the whole call answers CodeFenced.
	Save(ctx context.Context, changes []Change) error
	// SaveOwned writes start and progress of running jobs, where generation
	// and session still match, else CodeFenced.
	SaveOwned(ctx context.Context, jobs []Job) error
	// SaveEffect writes a row of the ledger, the call that it gave leave to, and
	// its event, beside a job that is locked: while that runs, only where
	// generation and session still match, else CodeFenced.
	SaveEffect(ctx context.Context, j Job, w EffectWrite) error
	// SaveSession inserts a session without Ref (and returns it with one), or
	// updates one that hasn't ended meanwhile, else CodeFenced.
	SaveSession(ctx context.Context, s Session) (Session, error)
	// SaveCall remembers what a claim call was given, so that its repeat gets
	// the same; one row a call, gone with its session.
	SaveCall(ctx context.Context, call ID, s Session, jobs []Job) error
	// SaveRefusals keeps what fenced owners said, once per job, generation,
	// session and operation.
	SaveRefusals(ctx context.Context, refusals []Refusal) error
	// SaveQueue pauses or resumes a queue, making it if need be.
	SaveQueue(ctx context.Context, q Queue) error
	// SaveSetting writes a value of the book itself where it is still was
	// ("" for none, and a value "" takes it away); false when it isn't.
	SaveSetting(ctx context.Context, name, was, value string) (bool, error)
	// Prune removes jobs with their rows, writing the end into their keys'
	// records first, and nothing else.
	Prune(ctx context.Context, jobs []Job) error
	// Sweep does upkeep that decides nothing: folds counting rows older than
	// the cutoff, drops key records, sessions and calls past theirs. It
	// returns how many rows it took, at most limit of each (with KeepRings at
	// most limit and two a queue, those left in their place not counted).
	Sweep(ctx context.Context, c Cutoffs, limit int) (int, error)
}

// Completer is a Tx that carries out many plain successes of one session as one
// set. It must do exactly what Job.Complete decides for each of them, and the
// conformance suite holds it to that. Those that aren't plain (its owner was
// replaced, an effect is open, the job is unknown) it leaves as they are and
// names by their places, and the caller goes one by one; it may leave others
// with them.
type Completer interface {
	Complete(ctx context.Context, session ID, successes []Outcome) (left []int, err error)
}

// Claimer is a Tx that carries out a whole claim call as one set: it finds the
// session, claims, and remembers the call, exactly as the steps of Tx would. It
// answers false, and has changed nothing, when the call wants the steps: it was
// made before, or the session is unknown, ended, quiet, or below half of its
// lease. It is not asked for a job that a message named.
type Claimer interface {
	ClaimSet(ctx context.Context, r ClaimRequest) (claimed Claimed, plain bool, err error)
}

// Reviver is a Tx that finds the next jobs of a FindMatching and revives those at
// once of which it is plain that they can be, exactly as Find, Lock, Job.Revive and
// Save would one by one: the conformance suite holds it to that. It leaves the others
// as they are. Those with an open effect it tells, without a lock: what refuses is not
// written. The rest (the work happened, somebody changed the job since it was found)
// it names, and the caller goes one by one; it may leave others with them. It answers
// false, and has changed nothing, when the filter wants the steps.
type Reviver interface {
	ReviveSet(ctx context.Context, q Finding, by By) (set RevivedSet, plain bool, err error)
}

// RevivedSet is what a set of revivals did.
type RevivedSet struct {
	Found int      // jobs that matched, at most Finding.Limit
	Last  int64    // Job.Ref of the last of them
	Moved int      // of those, how many wait again
	Ring  []string // queues in which one can be claimed now
	Open  []Job    // with an open effect: of each Ref, ID, State and OpenEffect
	Left  []ID     // all the others
}

// Renewer is a Tx that renews the lease of a session which owns nothing and lists
// nothing in one step, as the steps of Tx would. Not done is that it has changed
// nothing: the session is unknown or ended, or owns something.
type Renewer interface {
	RenewIdle(ctx context.Context, session ID) (answer Renewal, done bool, err error)
}

// View is one snapshot of the book.
type View interface {
	// Now is the database's clock, fixed for the transaction.
	Now() Time
	// Job loads one job with args and all that people see; not found is false.
	Job(ctx context.Context, id ID) (Job, bool, error)
	// Jobs lists a page of jobs.
	Jobs(ctx context.Context, f Filter) (Page[Job], error)
	// History loads what happened to a job, each list by time.
	History(ctx context.Context, j Job) (History, error)
	// AttemptOf loads the attempt that accounts for a generation of a job.
	AttemptOf(ctx context.Context, j Job, generation int64) (Attempt, bool, error)
	// Find returns ids of jobs that want a move of the reconciler or a person,
	// and how many are sure to be left is unknown: call until it is empty.
	Find(ctx context.Context, q Finding) ([]ID, error)
	// Review counts jobs of a state that slow moves lead to (set_aside,
	// cancelled, expired) by what the ledger has against another attempt.
	Review(ctx context.Context, f Filter) (Reviewed, error)
	// Claims loads what a session owns now, without args; or, by call id, what
	// that call was given and its session still owns, with args. found is
	// false when nobody knows the session or the call.
	Claims(ctx context.Context, of ClaimsOf) (s Session, jobs []Job, found bool, err error)
	// Sessions lists sessions, newest first: live ones, ended ones only if asked.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	// Queues lists the queues in name order: cheaply, with Ready, Next and
	// NextLater alone, or with their counts and kinds, which walks every live job.
	Queues(ctx context.Context, counted bool) ([]Queue, error)
	// Queue loads one queue's name and pause, without any numbers; not found is
	// false. It costs the same however many queues there are.
	Queue(ctx context.Context, name string) (Queue, bool, error)
	// Key loads a request key's record; not found is false.
	Key(ctx context.Context, key string) (KeyRecord, bool, error)
	// Effect loads one effect of a job, with its calls and what came too late;
	// not found is false.
	Effect(ctx context.Context, j Job, name string) (Effect, bool, error)
	// Effects lists a page of the ledger, with what came too late.
	Effects(ctx context.Context, f EffectFilter) (Page[Effect], error)
	// Setting reads a value of the book itself, "" for none.
	Setting(ctx context.Context, name string) (string, error)
}

// Ahead is a View that tells when the next jobs of some queues become eligible at
// a cost that the other queues have no part in. Those of the names that exist come
// without counts, in any order, with the database's time. It is the snapshot's
// only look: another one may see a later snapshot. Not known is that it can't
// tell; then the view is as it was.
type Ahead interface {
	QueuesAhead(ctx context.Context, names []string) (list []Queue, now Time, known bool, err error)
}

// Peeker is a View that reads a setting together with the database's time, as the
// snapshot's only look.
type Peeker interface {
	PeekSetting(ctx context.Context, name string) (value string, now Time, err error)
}

// peek reads a setting and the time.
func peek(ctx context.Context, v View, name string) (string, Time, error) {
	if p, ok := v.(Peeker); ok {
		return p.PeekSetting(ctx, name)
	}
	value, err := v.Setting(ctx, name)
	return value, v.Now(), err
}

// queuesAhead lists at least these queues, without counts.
func queuesAhead(ctx context.Context, v View, names []string) ([]Queue, Time, error) {
	if some, ok := v.(Ahead); ok {
		if list, now, known, err := some.QueuesAhead(ctx, names); known || err != nil {
			return list, now, err
		}
	}
	now := v.Now()
	list, err := v.Queues(ctx, false)
	return list, now, err
}

// ClaimsOf names claims by their session or by the call that got them.
type ClaimsOf struct {
	Session ID
	Call    ID
}

// Inspector is a store that can check itself. It reads only.
type Inspector interface {
	// Inspect looks at one chunk of one invariant, on a snapshot of its own.
	Inspect(ctx context.Context, in Inspection) (Inspected, error)
	// Known tells which ids the book has a job of; the answer is parallel to
	// ids.
	Known(ctx context.Context, ids []ID) ([]bool, error)
}

// Gatherer is an Inspector that can look at several invariants on one walk, at
// little more than the cost of one.
type Gatherer interface {
	// Together lists the invariants whose walk this one's is, itself too; none
	// says that it is walked alone. Inspect with Inspection.Together looks at
	// all of them, and each violation names its own.
	Together(invariant string) []string
}

// Upkeeper is a store with upkeep that no transaction of a caller can do, like
// making and dropping the partitions of its history. It is called about once a
// minute, by several processes at once too, with how long finished jobs are kept.
type Upkeeper interface {
	Upkeep(ctx context.Context, keep time.Duration) error
}

// Settings of the book itself.
const (
	SettingIncarnation = "incarnation" // how often the book may have lost commits
	SettingPass        = "reconcile"   // who reconciled last, and when
	SettingChecked     = "checked"     // up to when check has looked
	SettingFound       = "found"       // when the last check began, and how many violations it found
	SettingBookBehind  = "book_behind" // a generation above the row's was seen
	SettingRestored    = "restored"    // when and why the book was told of a restore
	SettingCreated     = "created"     // when the book was made
	SettingSchema      = "schema"      // the schema's version
)

// Claiming is one call for work.
type Claiming struct {
	Session     Session
	Queues      []string // in the order in which to try them
	Kinds       []string // empty is every kind
	Limit       int
	Oldest      bool // by age alone, whatever the priority
	Incarnation int64
}

// Refusal is a fenced write, kept as evidence.
type Refusal struct {
	Job        ID     `json:"job"`
	Generation int64  `json:"generation"`
	Session    ID     `json:"session"`
	Operation  string `json:"operation"`
	Said       string `json:"said,omitempty"` // what it wanted to write, bounded
	At         Time   `json:"at"`
}

// Cutoffs say how old a row must be for Sweep.
type Cutoffs struct {
	Counting Time // fold counting rows written before
	Keys     Time // drop key records whose job ended before, and is gone
	Sessions Time // drop sessions that ended before, and own nothing
	// KeepRings leaves one row a queue of the folded ones that asked for a ring,
	// as old as the oldest of them: the relay hasn't come to it yet.
	KeepRings bool
}

// What a Finding looks for.
type What string

// The findings.
const (
	FindOfEndedSessions What = "claims of ended sessions"
	FindPastRunLimit    What = "claims past their run limit"
	FindPastExpiry      What = "waiting jobs past expires_at"
	FindPastRetention   What = "final jobs past retention"
	FindMatching        What = "jobs that match a filter"
)

// Finding is a search for jobs to move.
type Finding struct {
	What   What
	Cutoff Time   // for expiry, run limit and retention
	Filter Filter // for FindMatching
	Limit  int
	After  int64 // Job.Ref of the last job seen, for walking on past refusals
}

// Filter selects jobs. Empty fields select all.
type Filter struct {
	Queue  string
	Kind   string
	State  State
	Reason Reason
	Key    string
	HeldBy string
	Held   bool
	Brief  bool   // a list without args, result and progress, which may be large
	Limit  int    // 0 is ListDefault
	Cursor string // from the page before
}

// Page is part of a list. Cursor is "" on the last one.
type Page[T any] struct {
	Items  []T
	Cursor string
}

// SessionFilter selects sessions.
type SessionFilter struct {
	ID        ID // this one, ended or not
	Worker    string
	Expired   Time // only live ones whose lease ended before
	WithEnded bool
	Limit     int
}

// EffectFilter selects effects.
type EffectFilter struct {
	Job    ID
	Open   bool
	Limit  int
	Cursor string
}

// Queue is a named lane with its numbers.
type Queue struct {
	Name         string       `json:"name"`
	Paused       bool         `json:"paused"`
	PausedAt     Time         `json:"paused_at,omitzero"`
	PausedBy     string       `json:"paused_by,omitempty"`
	PausedReason string       `json:"paused_reason,omitempty"`
	Ready        bool         `json:"-"` // has a job that is eligible, whoever takes it
	Next         Time         `json:"-"` // when the earliest waiting job is or became eligible; 0 is none
	NextLater    Time         `json:"-"` // when the first job that isn't eligible yet becomes so; 0 is none
	Counts       Counts       `json:"-"`
	Eligible     int64        `json:"-"` // waiting, due, not held
	Later        int64        `json:"-"` // waiting for a time
	Held         int64        `json:"-"`
	Oldest       Time         `json:"-"` // when the oldest eligible job became eligible
	Kinds        []KindCounts `json:"-"`
	OpenEffects  int64        `json:"-"`
	Doubled      int64        `json:"-"` // effects that happened twice
	Ref          int64        `json:"-"`
}

// KindCounts are the live jobs of one kind in one queue.
type KindCounts struct {
	Kind     string           `json:"kind"`
	Eligible int64            `json:"eligible"`
	Later    int64            `json:"later"`
	Held     int64            `json:"held"`
	Running  int64            `json:"running"`
	SetAside map[Reason]int64 `json:"set_aside,omitempty"` // by reason
	Oldest   Time             `json:"oldest_eligible_at,omitzero"`
}

// History is all that is known of a job's past.
type History struct {
	Attempts []Attempt
	Events   []Event
	Refusals []Refusal
	Effects  []Effect
	Key      *KeyRecord
}

// Inspection is one chunk of a check.
type Inspection struct {
	Invariant Invariant
	After     string   // Inspected.Next of the chunk before; "" begins
	Chunk     int64    // how many rows to walk at most; 0 is the store's choice
	Since     Time     // only live rows and those that ended since; 0 walks all
	Together  bool     // look at all invariants of Gatherer.Together; not with Only
	Only      []string // look again at just these rows, by Violation.At
}

// Inspected is what a chunk held.
type Inspected struct {
	Violations []Violation
	Walked     int64  // rows looked at
	Next       string // After of the next chunk; opaque
	Done       bool   // there is no next chunk
}

// Outcome is what an owner reports of an attempt.
type Outcome struct {
	Job       ID
	Owner     Owner
	Kind      OutcomeKind // succeeded, failed or released
	Result    json.RawMessage
	Problem   *Problem
	Permanent bool
	Reason    Reason
	RetryIn   *time.Duration // of a failure; nil is the default curve
	In        time.Duration  // of a release
}
