package daybook

import (
	"encoding/json"
	"slices"
)

// Phase is how far a cutover is: the moving of one queue out of another system
// into the book.
type Phase string

// The phases, in their order, and the two of a rollback.
const (
	PhasePlan      Phase = "plan"
	PhaseShadow    Phase = "shadow"
	PhaseGate      Phase = "gate"
	PhaseMove      Phase = "move"
	PhaseSettle    Phase = "settle"
	PhaseRun       Phase = "run"
	PhaseReconcile Phase = "reconcile"
	PhaseRetire    Phase = "retire"
	PhaseRetired   Phase = "retired"
	PhaseReturning Phase = "returning"
	PhaseReturned  Phase = "returned"
)

// Authority says who may claim the queue's jobs.
type Authority string

// The authorities. There is never more than one.
const (
	OldMayClaim  Authority = "old"
	NoneMayClaim Authority = "none"
	BookMayClaim Authority = "book"
)

// PhaseRule is one phase, who may claim in it, and where it leads.
type PhaseRule struct {
	Phase  Phase
	Claims Authority
	What   string
	Next   []Phase
}

// PhaseRules is the whole table: commands, API and console read it from here.
var PhaseRules = []PhaseRule{
	{PhasePlan, OldMayClaim, "read-only inventory; questions answered, rollback conditions declared",
		[]Phase{PhaseShadow, PhaseReturned}},
	{PhaseShadow, OldMayClaim, "the old system is watched and its running jobs sampled; no job is written here",
		[]Phase{PhaseGate, PhaseReturned}},
	{PhaseGate, NoneMayClaim, "the old claim path is closed and proved closed",
		[]Phase{PhaseMove, PhaseReturning}},
	{PhaseMove, NoneMayClaim, "each job that nobody works on is taken out and recorded here, held",
		[]Phase{PhaseSettle, PhaseReturning}},
	{PhaseSettle, NoneMayClaim, "running jobs end under their old owners; what lost its owner is decided",
		[]Phase{PhaseRun, PhaseReturning}},
	{PhaseRun, BookMayClaim, "the holds are released; late arrivals are recognised or moved in",
		[]Phase{PhaseReconcile, PhaseReturning}},
	{PhaseReconcile, BookMayClaim, "every job that was seen is accounted for, by its id",
		[]Phase{PhaseRetire, PhaseReturning}},
	{PhaseRetire, BookMayClaim, "the old queue stays empty for longer than its longest timeout",
		[]Phase{PhaseRetired}},
	{PhaseRetired, BookMayClaim, "over: the old queue may be switched off", nil},
	{PhaseReturning, NoneMayClaim, "what never ran here goes back; the old gate opens last", []Phase{PhaseReturned}},
	{PhaseReturned, OldMayClaim, "over: the old system has its jobs again", nil},
}

// Rule is the phase's line in the table; an unknown phase's is the zero rule.
func (p Phase) Rule() PhaseRule {
	for _, r := range PhaseRules {
		if r.Phase == p {
			return r
		}
	}
	return PhaseRule{}
}

// Over reports whether the phase leads nowhere.
func (p Phase) Over() bool { return len(p.Rule().Next) == 0 }

// Cutover is the record of one moving queue.
type Cutover struct {
	Name     string          `json:"name"`
	System   string          `json:"system"`
	Version  string          `json:"version,omitempty"`
	Store    string          `json:"store"` // where it is, without secrets
	OldQueue string          `json:"old_queue"`
	Queue    string          `json:"queue"`           // here
	Round    int             `json:"round,omitempty"` // how often this old queue went back before
	Phase    Phase           `json:"phase"`
	Claims   Authority       `json:"may_claim"`
	Since    Time            `json:"since,omitzero"`
	Plan     json.RawMessage `json:"plan,omitempty"`  // what was answered and declared
	Notes    json.RawMessage `json:"notes,omitempty"` // what the tool found out: gate, canary, scans
	Steps    []PhaseStep     `json:"steps"`
	Changes  int64           `json:"-"` // how often the record was changed: for compare-and-set
}

// PhaseStep is one change of phase, or of the plan.
type PhaseStep struct {
	At     Time   `json:"at"`
	Phase  Phase  `json:"phase"`
	What   string `json:"what,omitempty"` // PlanChanged; "" is that the phase was entered
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// To moves the cutover on. Going where it is already is refused too: callers
// look first, so that a repeated command knows that it is one.
func (c Cutover) To(p Phase, by By, now Time) (Cutover, error) {
	if !slices.Contains(c.Phase.Rule().Next, p) {
		return c, Fail(CodeRefused, "cutover %s is in phase %s, which doesn't lead to %s", c.Name, c.Phase, p)
	}
	c.Phase, c.Claims, c.Since = p, p.Rule().Claims, now
	c.Steps = append(slices.Clone(c.Steps), PhaseStep{At: now, Phase: p, Actor: by.Actor, Reason: by.Reason})
	return c, nil
}

// Closed reports whether the cutover keeps its queue here paused.
func (c Cutover) Closed() bool { return c.Claims != BookMayClaim && c.Phase != PhaseReturned }

// EnteredAt is when the cutover last came into a phase, 0 for never.
func (c Cutover) EnteredAt(p Phase) (at Time) {
	for _, s := range c.Steps {
		if s.Phase == p && s.What == "" {
			at = s.At
		}
	}
	return at
}

// Holder is what held jobs of this cutover are held by.
func (c Cutover) Holder() string { return "cutover:" + c.Name }

// Check holds the record to the limits of names and texts.
func (c Cutover) Check() error {
	for _, f := range [][2]string{{"name", c.Name}, {"queue", c.Queue}} {
		if err := CheckName(f[0], f[1]); err != nil {
			return err
		}
	}
	for _, f := range [][2]string{{"system", c.System}, {"store", c.Store}, {"old_queue", c.OldQueue}} {
		if f[1] == "" || len(f[1]) > ReasonMax {
			return Invalid(f[0], "wants 1–%d bytes, got %d", ReasonMax, len(f[1]))
		}
		if err := checkText(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// Term is the one side of the balance on which a job of the old system stands.
type Term string

// The terms. Still is where every job begins.
const (
	TermStill     Term = "still"     // there, as far as known
	TermMoved     Term = "moved"     // a job of the book, which runs or will
	TermFinished  Term = "finished"  // the old system did it
	TermDead      Term = "dead"      // carried over as set aside
	TermOpen      Term = "open"      // nobody knows, or a person is asked
	TermKept      Term = "kept"      // the book's for good: a rollback came when it had run here
	TermReturning Term = "returning" // on its way back
	TermReturned  Term = "returned"  // the old system's again
)

// Terms lists them.
var Terms = []Term{TermStill, TermMoved, TermFinished, TermDead, TermOpen, TermKept, TermReturning, TermReturned}

// Item is one job of the old system in the books of a cutover. It outlives the
// job's row, so that a late message about it is still recognised.
type Item struct {
	ID         string   `json:"id"` // OldJob.Name
	Occurrence int      `json:"occurrence"`
	Nth        int64    `json:"nth,omitempty"` // OldJob.Nth, once it was taken
	Hash       string   `json:"hash"`
	First      OldState `json:"first"` // where it was when first seen
	Last       OldState `json:"last"`  // and last
	Term       Term     `json:"term"`
	Arrived    bool     `json:"arrived"` // came after the gate
	Proved     bool     `json:"proved"`  // of finished: the old system's own record says so
	Asked      bool     `json:"asked"`   // same id, something else different
	Job        ID       `json:"job,omitzero"`
	Place      int64    `json:"place"`           // in the order of taking
	Again      int64    `json:"again,omitempty"` // how often a copy was met after it was recorded
	Class      string   `json:"class"`
	Owner      string   `json:"owner,omitempty"`
	OwnerSeen  Time     `json:"owner_seen,omitzero"`
	Died       string   `json:"died,omitempty"` // the worker whose death has it lost, by itself or perhaps
	Note       string   `json:"note,omitempty"`
	FirstAt    Time     `json:"first_at,omitzero"`
	SeenAt     Time     `json:"seen_at,omitzero"`   // when the old system last had it
	MissedAt   Time     `json:"missed_at,omitzero"` // the first look that didn't find it any more
	GoneAt     Time     `json:"gone_at,omitzero"`   // a whole look that didn't either, when a hand would have shown it
	ChangedAt  Time     `json:"changed_at,omitzero"`
	Old        *OldJob  `json:"-"` // kept whole while it may have to be moved or returned, else nil
}

// ItemFilter selects items, in the order of their ids, or of their places.
type ItemFilter struct {
	Cutover    string
	ID         string // only those of this old id
	Term       Term
	Last       OldState
	SeenBefore Time // only those that weren't seen at or after this
	NotGone    bool // only those without GoneAt
	Backward   bool // by place, last taken first; the next page is what is left then
	Whole      bool // with Old
	Limit      int
	Cursor     string
}

// ItemCount is how many items are alike.
type ItemCount struct {
	First   OldState `json:"first"`
	Last    OldState `json:"last"`
	Term    Term     `json:"term"`
	Arrived bool     `json:"arrived"`
	Asked   bool     `json:"asked"`
	Missed  bool     `json:"missed"` // the last look didn't find them any more
	Items   int64    `json:"items"`
	Again   int64    `json:"again"`
}

// CutoversMax bounds how many cutovers a book keeps.
const CutoversMax = 1000
