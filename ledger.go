package daybook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Begin is an owner's wish to make one outside call.
type Begin struct {
	Name        string
	Policy      Policy
	Window      time.Duration // keyed: how long the destination knows a key, from the first begin
	Quiet       time.Duration // checked: how long after a call's end its trace may come late
	Limit       time.Duration // the call is given up by then; 0 is what the lease, and the window, leave
	Fingerprint string        // of the input; another one later sets the job aside. "" isn't compared
	NextKey     bool          // after a recorded absent: call with a new key
	Call        ID            // repeating a begin by its call gives the same answer; zero makes one
}

// Decision is what the ledger tells an owner to do.
type Decision string

// The decisions.
const (
	DecisionCall  Decision = "call"  // call with the key, and finish
	DecisionDone  Decision = "done"  // it happened before: here is its result
	DecisionProbe Decision = "probe" // ask the destination, and finish with what it said
	DecisionWait  Decision = "wait"  // release the job until then: an earlier call may still show
	DecisionAsk   Decision = "ask"   // the job is set aside for a person
)

// Begun answers a begin.
type Begun struct {
	Decision  Decision        `json:"decision"`
	Key       string          `json:"key"`
	Result    json.RawMessage `json:"result,omitempty"`
	CallUntil Time            `json:"call_until,omitzero"` // give the call up by then
	WaitUntil Time            `json:"wait_until,omitzero"`
	Reason    Reason          `json:"reason,omitempty"` // of ask: why the job is set aside
}

// EffectWrite is what a decision of the ledger writes, all in one transaction.
type EffectWrite struct {
	Effect Effect  // the row as it is to be; no name writes none
	Called bool    // Effect.Generation got leave to call
	Event  *Event  // what the timeline says
	Change *Change // the job's own move: it was set aside
}

// WindowMax bounds the window of a keyed effect and the quiet time of a checked
// one: longer, no destination keeps its promises.
const WindowMax = 10 * 365 * 24 * time.Hour

func (b *Begin) check() error {
	if err := checkEffectName(b.Name); err != nil {
		return err
	}
	if strictness[b.Policy] == 0 {
		return Invalid("policy", "wants keyed, checked, repeatable or ask, got %s; there is no default",
			quote(string(b.Policy)))
	}
	switch {
	case b.Policy == PolicyKeyed && b.Window == 0:
		return Invalid("window", "is missing; a keyed effect says how long its destination knows a key")
	case b.Policy != PolicyKeyed && b.Window != 0:
		return Invalid("window", "belongs to keyed effects only")
	case b.Policy != PolicyChecked && b.Quiet != 0:
		return Invalid("quiet", "belongs to checked effects only")
	case len(b.Fingerprint) > KeyMax:
		return Invalid("fingerprint", "at most %d bytes, got %d", KeyMax, len(b.Fingerprint))
	}
	for _, d := range []struct {
		field string
		given time.Duration
		most  time.Duration
	}{{"window", b.Window, WindowMax}, {"quiet", b.Quiet, WindowMax}, {"call", b.Limit, LeaseMax}} {
		if err := checkDuration(d.field, d.given, 0, d.most); err != nil {
			return err
		}
	}
	if b.Policy == PolicyKeyed && b.Limit > b.Window {
		return Invalid("call", "may take %s, longer than the %s for which the destination knows the key", b.Limit,
			b.Window)
	}
	if b.Call.IsZero() {
		b.Call = NewID()
	}
	return checkText("fingerprint", b.Fingerprint)
}

// checkEffectName holds a handler to names that are not the book's own.
func checkEffectName(name string) error {
	if err := CheckName("effect", name); err != nil {
		return err
	}
	if name == HandlerEffect {
		return Invalid("effect", "%s is the book's own name for a handler without a ledger; choose another", name)
	}
	return nil
}

// BeginEffect decides about an owner's wish to call, by what the ledger knows of
// the effect; e has no name when it knows nothing yet. What it writes is written
// under the job's lock, so that nobody else begins meanwhile.
func (j Job) BeginEffect(o Owner, e Effect, b Begin, now Time) (Begun, EffectWrite, error) {
	if err := j.owner(o); err != nil {
		return Begun{}, EffectWrite{}, err
	}
	if e.Name == "" {
		if j.Effects >= EffectsMax {
			return Begun{}, EffectWrite{}, j.refuse("has %d effects, the most there may be", j.Effects)
		}
		e = Effect{Job: j.ID, Name: b.Name, Policy: b.Policy, State: EffectAbsent, Round: -1, Fingerprint: b.Fingerprint,
			Quiet: b.Quiet, Ref: j.Ref}
		return j.callEffect(o, e, b, now)
	}
	repeated, err := j.reused(o, e, b)
	switch {
	case err != nil:
		return Begun{}, EffectWrite{}, err
	case e.otherInput(b) && !e.free():
		return j.effectChanged(o, e, now)
	case e.State == EffectDone:
		done := Begun{Decision: DecisionDone, Key: e.Key, Result: e.Result}
		if repeated {
			return done, EffectWrite{}, nil
		}
		e.Used, e.Call = o.Generation, b.Call
		return done, EffectWrite{Effect: e, Event: e.event("effect replayed", o.Generation, now)}, nil
	}
	if strictness[b.Policy] < strictness[e.Policy] {
		return Begun{}, EffectWrite{}, j.refuse("has effect %s declared %s; a later attempt may only be stricter, got %s",
			quote(e.Name), e.Policy, b.Policy)
	}
	switch {
	case repeated && e.Probed == o.Generation:
		return Begun{Decision: DecisionProbe, Key: e.Key}, EffectWrite{}, nil
	case repeated && e.Generation == o.Generation:
		return Begun{Decision: DecisionCall, Key: e.Key, CallUntil: e.callUntil(j, b)}, EffectWrite{}, nil
	}
	e.Quiet = max(e.Quiet, b.Quiet)
	if e.otherInput(b) { // what is free may become another action, under a key of its own
		e.SettledBy, e.Fingerprint, b.NextKey = "", b.Fingerprint, true
	}
	if e.Policy = b.Policy; e.Fingerprint == "" {
		e.Fingerprint = b.Fingerprint
	}
	if e.Doubtful() {
		if e.State, e.EndedAt, e.SettledBy = EffectIsOpen, 0, ""; e.Policy == PolicyChecked && e.Probed == o.Generation {
			e.Used, e.Call = o.Generation, b.Call
			w, err := j.askAbout(o, e, now) // the destination and the late owner contradict each other
			return Begun{Decision: DecisionAsk, Key: e.Key, Reason: ReasonEffectOpen}, w, err
		}
	}
	if e.State == EffectIsOpen {
		return j.openEffect(o, e, b, now)
	}
	return j.callEffect(o, e, b, now)
}

// otherInput reports that the begin is about another action than the effect's.
func (e Effect) otherInput(b Begin) bool {
	return e.Fingerprint != "" && b.Fingerprint != "" && e.Fingerprint != b.Fingerprint
}

// free reports that a person said it didn't happen, and nothing since speaks
// against it.
func (e Effect) free() bool { return e.State == EffectAbsent && e.SettledBy != "" && !e.Doubtful() }

// reused refuses a name that stands for a second action of one attempt, and
// tells whether the begin only repeats the newest one of it. After its own probe
// found nothing an owner begins anew; after its own call didn't happen, what
// looks like a repeat is a late one, and nobody would make its call.
func (j Job) reused(o Owner, e Effect, b Begin) (repeated bool, err error) {
	if e.Used != o.Generation || e.State == EffectAbsent && e.Probed == o.Generation {
		return false, nil
	}
	if e.Call == b.Call && e.State != EffectAbsent {
		return true, nil
	}
	return false, Fail(CodeEffectNameReused,
		"job %s: effect %s was begun in this attempt already; name each outside action once", j.ID, quote(e.Name))
}

// callUntil is until when the repeat of a begin may go on with its call.
func (e Effect) callUntil(j Job, b Begin) Time {
	until := min(e.CallUntil, j.LeaseUntil)
	if b.Limit > 0 {
		until = min(until, e.BegunAt.Add(b.Limit))
	}
	if e.SafeUntil != 0 {
		until = min(until, e.SafeUntil)
	}
	return until
}

// openEffect decides about an effect that an earlier attempt began and that
// nobody saw end: its policy does.
func (j Job) openEffect(o Owner, e Effect, b Begin, now Time) (Begun, EffectWrite, error) {
	e.Used, e.Call = o.Generation, b.Call
	switch e.Policy {
	case PolicyRepeatable:
		return j.callEffect(o, e, b, now)
	case PolicyKeyed:
		if end := e.window(b, now); now < end && (b.Limit == 0 || now.Add(b.Limit) <= end) {
			return j.callEffect(o, e, b, now)
		}
	case PolicyChecked:
		settled := e.CallUntil.Add(e.Quiet)
		if now < settled {
			return Begun{Decision: DecisionWait, Key: e.Key, WaitUntil: settled}, EffectWrite{}, nil
		}
		e.Probed = o.Generation
		return Begun{Decision: DecisionProbe, Key: e.Key},
			EffectWrite{Effect: e, Event: e.event("effect probed", o.Generation, now)}, nil
	}
	w, err := j.askAbout(o, e, now)
	return Begun{Decision: DecisionAsk, Key: e.Key, Reason: ReasonEffectOpen}, w, err
}

// askAbout sets the job aside: only a person can find out about the effect.
func (j Job) askAbout(o Owner, e Effect, now Time) (EffectWrite, error) {
	c, err := j.Ask(o, e.Name, now)
	return EffectWrite{Effect: e, Change: &c}, err
}

// effectChanged sets the job aside: what it would do now is not what it began.
func (j Job) effectChanged(o Owner, e Effect, now Time) (Begun, EffectWrite, error) {
	c, err := j.Fail(o, Failure{Permanent: true, Reason: ReasonEffectChanged, Problem: changedProblem(e.Name)}, now)
	return Begun{Decision: DecisionAsk, Key: e.Key, Reason: ReasonEffectChanged}, EffectWrite{Change: &c}, err
}

func changedProblem(name string) *Problem {
	return NewProblem("effect "+name+" was begun with other input before; the handler changed between two attempts",
		string(ReasonEffectChanged), "")
}

// window is until when the destination knows the effect's key, as the stricter
// of what was declared before and is declared now has it.
func (e Effect) window(b Begin, now Time) Time {
	first := now
	for _, c := range e.Calls {
		if c.Round == e.Round {
			first = min(first, c.At)
		}
	}
	end := first.Add(b.Window)
	if e.SafeUntil != 0 {
		end = min(end, e.SafeUntil)
	}
	return end
}

// callEffect gives leave to call. Until then nothing can have happened, or
// happening again is harmless.
func (j Job) callEffect(o Owner, e Effect, b Begin, now Time) (Begun, EffectWrite, error) {
	until := j.LeaseUntil
	if b.Limit > 0 {
		until = now.Add(b.Limit)
	}
	switch {
	case j.LeaseUntil <= now:
		return Begun{}, EffectWrite{}, j.refuse("can't begin effect %s: its session's lease is over; renew it",
			quote(b.Name))
	case until > j.LeaseUntil:
		return Begun{}, EffectWrite{}, j.refuse("can't begin effect %s: it may take %s, and the lease has %s left; renew it",
			quote(b.Name), b.Limit, j.LeaseUntil.Sub(now).Round(time.Millisecond))
	}
	end := e.window(b, now)
	missed := b.Policy == PolicyKeyed && (now >= end || b.Limit > 0 && until > end)
	if e.State == EffectAbsent && (e.Round < 0 || b.NextKey && e.SettledBy == "" || missed) {
		// Nothing is behind the old key, and the destination may soon forget it
		// or replay an error that it stored: a new one is as safe. What a person
		// found absent keeps its key: should it be there after all, it is met.
		e.Round, e.Calls, e.SafeUntil = e.Round+1, nil, 0
		e.Key = EffectKey(j.ID, e.Name, e.Round)
		end = now.Add(b.Window)
	}
	e.SafeUntil = 0
	if b.Policy == PolicyKeyed {
		e.SafeUntil, until = end, min(until, end)
	}
	if e.State != EffectIsOpen {
		e.CallUntil, e.Unsure = until, 0
	} else {
		// The elder call may still be at it, and only a probe or a person finds
		// out how it ended.
		e.CallUntil, e.Unsure = max(e.CallUntil, until), cmp.Or(e.Unsure, e.Generation)
	}
	e.State, e.Generation, e.BegunAt = EffectIsOpen, o.Generation, now
	e.EndedAt, e.SettledBy, e.Result = 0, "", nil
	e.Used, e.Call, e.Probed = o.Generation, b.Call, 0
	ev := e.event("effect begun", o.Generation, now)
	ev.Detail += ", policy " + string(e.Policy) + ", key " + e.Key
	return Begun{Decision: DecisionCall, Key: e.Key, CallUntil: until},
		EffectWrite{Effect: e, Called: true, Event: ev}, nil
}

// EffectEnd is what an owner says of the call or the probe that it made.
type EffectEnd struct {
	Name    string
	Outcome EffectOutcome
	Result  json.RawMessage // of done
}

func (f EffectEnd) check() error {
	if err := checkEffectName(f.Name); err != nil {
		return err
	}
	switch f.Outcome {
	case OutcomeDone, OutcomeAbsent, OutcomeUnknown:
	default:
		return Invalid("outcome", "wants done, absent or unknown, got %s", quote(string(f.Outcome)))
	}
	if len(f.Result) == 0 {
		return nil
	}
	if f.Outcome != OutcomeDone {
		return Invalid("result", "belongs to the outcome done only")
	}
	if len(f.Result) > ResultMax {
		return tooLarge("result", ResultMax, len(f.Result))
	}
	return CheckJSON("result", f.Result)
}

// FinishEffect records what the owner's call, or its probe, came to. Saying the
// same again changes nothing. A probe that can't tell sets the job aside for a
// person. A call that didn't happen leaves the effect open when nobody knows how
// an elder call of it ended: it speaks for itself alone.
func (j Job) FinishEffect(o Owner, e Effect, f EffectEnd, now Time) (EffectWrite, error) {
	if err := j.owner(o); err != nil {
		return EffectWrite{}, err
	}
	probe := e.Probed == o.Generation
	switch {
	case e.Name == "":
		return EffectWrite{}, Fail(CodeNotFound, "job %s has no effect %s; begin it first", j.ID, quote(f.Name))
	case e.Generation != o.Generation && !probe:
		return EffectWrite{}, j.refuse("has effect %s begun by generation %d, not by this attempt; begin it first",
			quote(e.Name), e.Generation)
	case e.State == EffectState(f.Outcome):
		return EffectWrite{}, nil
	case e.State != EffectIsOpen:
		return EffectWrite{}, j.refuse("has effect %s %s already; what was said first stays", quote(e.Name), e.State)
	case f.Outcome == OutcomeUnknown && probe:
		return j.askAbout(o, e, now)
	case f.Outcome == OutcomeUnknown:
		return EffectWrite{Event: e.event("effect left open", o.Generation, now)}, nil
	case f.Outcome == OutcomeAbsent && !probe && e.Unsure != 0:
		ev := e.event("effect left open", o.Generation, now)
		ev.Detail += fmt.Sprintf(", this call didn't happen, that of generation %d may have", e.Unsure)
		return EffectWrite{Event: ev}, nil
	}
	e.State, e.EndedAt, e.Result = EffectState(f.Outcome), now, f.Result
	e.Doubled = e.Doubled || e.CalledTwice()
	ev := e.event("effect "+string(e.State), o.Generation, now)
	if probe {
		ev.Detail += ", the destination says"
	}
	return EffectWrite{Effect: e, Event: ev}, nil
}

// Evidence marks the effect doubled when what came too late shows that it is.
func (e Effect) Evidence(l Late, now Time) EffectWrite {
	if e.Doubled || !e.CalledTwice() {
		return EffectWrite{}
	}
	e.Doubled = true
	ev := e.event("effect doubled", l.Generation, now)
	return EffectWrite{Effect: e, Event: ev}
}

func (e Effect) event(what string, generation int64, now Time) *Event {
	return &Event{At: now, What: what, Generation: generation, Detail: e.Name}
}
