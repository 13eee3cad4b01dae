package daybook

import "slices"

// State is where a job stands. "Scheduled" and "retrying" are waiting with a
// later run_at; "uncertain" is set aside with reason effect_open.
type State string

// The states.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Succeeded State = "succeeded"
	SetAside  State = "set_aside"
	Cancelled State = "cancelled"
	Expired   State = "expired"
	Moved     State = "moved"
)

// States lists them in the order in which people read them.
var States = []State{Waiting, Running, Succeeded, SetAside, Cancelled, Expired, Moved}

// Final reports whether no machine moves the job on, so that retention may
// take it. Set-aside jobs wait for a person and are not final.
func (s State) Final() bool {
	return s == Succeeded || s == Cancelled || s == Expired || s == Moved
}

// Valid reports whether s is one of the states.
func (s State) Valid() bool { return slices.Contains(States, s) }

// Reason says why a job is set aside.
type Reason string

// The reasons.
const (
	ReasonFailures      Reason = "failures"       // failed max_failures times
	ReasonPermanent     Reason = "permanent"      // the error said that trying again is useless
	ReasonCrashes       Reason = "crashes"        // its sessions were lost too often
	ReasonLost          Reason = "lost"           // its session was lost, and on_lost says set_aside
	ReasonTimeout       Reason = "timeout"        // it ran past its run limit
	ReasonEffectOpen    Reason = "effect_open"    // an effect was begun and nobody knows how it ended
	ReasonEffectChanged Reason = "effect_changed" // the same effect was begun with other input
	ReasonGaveUp        Reason = "gave_up"        // it snoozed for too long
	ReasonUndecodable   Reason = "undecodable"    // args don't decode into the handler's type
)

// Reasons lists them.
var Reasons = []Reason{ReasonFailures, ReasonPermanent, ReasonCrashes, ReasonLost, ReasonTimeout,
	ReasonEffectOpen, ReasonEffectChanged, ReasonGaveUp, ReasonUndecodable}

// Move names a step in a job's life.
type Move string

// The moves.
const (
	MoveEnqueue  Move = "enqueue"
	MoveImport   Move = "import"
	MoveClaim    Move = "claim"
	MoveComplete Move = "complete"
	MoveFail     Move = "fail"
	MoveAsk      Move = "ask"
	MoveRelease  Move = "release"
	MoveLose     Move = "lose"
	MoveCancel   Move = "cancel"
	MoveExpire   Move = "expire"
	MoveSettle   Move = "settle"
	MoveRevive   Move = "revive"
	MoveUnhold   Move = "unhold"
	MoveOut      Move = "move"
	MovePrune    Move = "prune"
)

// Transition is one arrow of the lifecycle. From is "" for a new job and To is
// "" for a row that goes away.
type Transition struct {
	Move Move
	From State
	To   State
	By   string // who may make it
}

// Transitions is the whole lifecycle as data. It feeds the pure moves' last
// check, the exhaustive test, the picture in ARCHITECTURE.md and the checker.
var Transitions = []Transition{
	{MoveEnqueue, "", Waiting, "caller"},
	{MoveImport, "", Waiting, "cutover"},
	{MoveImport, "", SetAside, "cutover"},
	{MoveClaim, Waiting, Running, "worker"},
	{MoveComplete, Running, Succeeded, "owner"},
	{MoveFail, Running, Waiting, "owner"},
	{MoveFail, Running, SetAside, "owner"},
	{MoveFail, Running, Cancelled, "owner"},
	{MoveAsk, Running, SetAside, "owner"},
	{MoveAsk, Running, Cancelled, "owner"},
	{MoveRelease, Running, Waiting, "owner"},
	{MoveRelease, Running, SetAside, "owner"},
	{MoveRelease, Running, Cancelled, "owner"},
	{MoveLose, Running, Waiting, "reconciler"},
	{MoveLose, Running, SetAside, "reconciler"},
	{MoveLose, Running, Cancelled, "reconciler"},
	{MoveCancel, Waiting, Cancelled, "person"},
	{MoveCancel, SetAside, Cancelled, "person"},
	{MoveCancel, Running, Running, "person"},
	{MoveCancel, Running, Cancelled, "person"},
	{MoveExpire, Waiting, Expired, "reconciler"},
	{MoveExpire, Waiting, SetAside, "reconciler"},
	{MoveSettle, SetAside, Waiting, "person"},
	{MoveSettle, SetAside, SetAside, "person"},
	{MoveSettle, SetAside, Succeeded, "person"},
	{MoveSettle, Waiting, Waiting, "person"},
	{MoveSettle, Cancelled, Cancelled, "person"},
	{MoveRevive, SetAside, Waiting, "person"},
	{MoveRevive, Cancelled, Waiting, "person"},
	{MoveRevive, Expired, Waiting, "person"},
	{MoveUnhold, Waiting, Waiting, "person"},
	{MoveOut, Waiting, Moved, "cutover"},
	{MovePrune, Succeeded, "", "reconciler"},
	{MovePrune, Cancelled, "", "reconciler"},
	{MovePrune, Expired, "", "reconciler"},
	{MovePrune, Moved, "", "reconciler"},
}

// Allowed reports whether the table has the arrow.
func Allowed(move Move, from, to State) bool {
	return slices.ContainsFunc(Transitions, func(t Transition) bool {
		return t.Move == move && t.From == from && t.To == to
	})
}

// OnLost is what happens to a job whose claim was lost after it began.
type OnLost string

// The two policies. There is no third: either doing it again is harmless, or a
// person must look.
const (
	LostRetry    OnLost = "retry"
	LostSetAside OnLost = "set_aside"
)
