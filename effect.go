package daybook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// EffectState is what the ledger knows of an effect.
type EffectState string

// The states. Open means begun and not known to have ended: the ledger never
// guesses.
const (
	EffectIsOpen EffectState = "open"
	EffectDone   EffectState = "done"
	EffectAbsent EffectState = "absent"
)

// Policy decides what an open effect means for the next attempt.
type Policy string

// The policies.
const (
	PolicyKeyed      Policy = "keyed"
	PolicyChecked    Policy = "checked"
	PolicyRepeatable Policy = "repeatable"
	PolicyAsk        Policy = "ask"
)

// strictness orders the policies: a later attempt may declare a stricter one,
// never a laxer. Each trusts the destination less than the one before.
var strictness = map[Policy]int{PolicyRepeatable: 1, PolicyKeyed: 2, PolicyChecked: 3, PolicyAsk: 4}

// Effect is one outside action of a job, as the ledger has it.
type Effect struct {
	Job        ID              `json:"job"`
	Name       string          `json:"name"`
	Policy     Policy          `json:"policy"`
	State      EffectState     `json:"state"`
	Generation int64           `json:"generation"` // of the newest begin that was told to call
	Round      int             `json:"round,omitempty"`
	Key        string          `json:"key"`
	Result     json.RawMessage `json:"result,omitempty"`
	BegunAt    Time            `json:"begun_at"`
	EndedAt    Time            `json:"ended_at,omitzero"`
	SettledBy  string          `json:"settled_by,omitempty"`
	Doubled    bool            `json:"doubled,omitempty"`   // two attempts made it happen: see [Effect.CalledTwice]
	CallUntil  Time            `json:"call_until,omitzero"` // its calls have been given up by then
	SafeUntil  Time            `json:"safe_until,omitzero"` // keyed: the destination knows the key until then
	Late       []Late          `json:"late,omitempty"`      // what fenced owners said of it
	Hidden     bool            `json:"hidden,omitempty"`    // results are left out for this reader: see [Sight]
	Calls      []EffectCall    `json:"-"`                   // every call, by generation; not loaded for lists

	// What only the ledger and stores read.

	Quiet       time.Duration `json:"-"` // checked: how long after a call's end its trace may come late
	Fingerprint string        `json:"-"` // of the input, as its first begin said
	Call        ID            `json:"-"` // of the newest begin, whatever it was told
	Used        int64         `json:"-"` // generation of that begin
	Probed      int64         `json:"-"` // generation that was told to probe since the newest call
	Unsure      int64         `json:"-"` // an elder call's generation, while nobody knows how that call ended
	Ref         int64         `json:"-"`
}

// EffectCall is one generation's leave to call.
type EffectCall struct {
	Generation int64
	Round      int
	At         Time
}

// Late is what a fenced owner said of an effect: evidence, and no more.
type Late struct {
	Generation int64         `json:"generation"`
	At         Time          `json:"at"`
	Outcome    EffectOutcome `json:"outcome"`
	Said       string        `json:"said,omitempty"` // the result as it came, bounded
}

// EffectOutcome is what an owner says of its call.
type EffectOutcome string

// The outcomes. Unknown leaves the effect open: a timeout is not a no.
const (
	OutcomeDone    EffectOutcome = "done"
	OutcomeAbsent  EffectOutcome = "absent"
	OutcomeUnknown EffectOutcome = "unknown"
)

// EffectKey is the key that an effect's destination can enforce: the same over
// all attempts of a job, another for each name and round.
func EffectKey(job ID, name string, round int) string {
	h := sha256.New()
	h.Write(job[:])
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write([]byte(strconv.Itoa(round)))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// handlerEffect is what a lost attempt leaves when its handler used no ledger
// and its job says that a person must look.
func handlerEffect(j Job, now Time) *Effect {
	begun := cmp.Or(j.StartedAt, j.ClaimedAt, now) // an imported job's attempt was seen by nobody here
	return &Effect{Job: j.ID, Name: HandlerEffect, Policy: PolicyAsk, State: EffectIsOpen,
		Generation: j.Generation, Key: EffectKey(j.ID, HandlerEffect, 0), BegunAt: begun, Ref: j.Ref}
}

// Operations of refusals that speak of an effect; its name follows.
const (
	operationBegin  = "effect_begin:"
	operationFinish = "effect_finish:"
)

// nameIn is the effect of which an operation speaks.
func nameIn(operation string) string {
	_, name, _ := strings.Cut(operation, ":")
	return name
}

// lateSaid is what a refusal keeps of a finish that came too late.
func lateSaid(outcome EffectOutcome, result json.RawMessage) string {
	said, _ := cleanText(strings.TrimSpace(string(outcome)+" "+string(result)), ProgressMax)
	return said
}

// LateOf reads the evidence about one effect out of a job's refusals.
func LateOf(name string, refusals []Refusal) (late []Late) {
	for _, r := range refusals {
		if r.Operation != operationFinish+name {
			continue
		}
		outcome, said, _ := strings.Cut(r.Said, " ")
		late = append(late, Late{Generation: r.Generation, At: r.At, Outcome: EffectOutcome(outcome), Said: said})
	}
	return late
}

// Doubtful reports that the effect is recorded absent and that somebody's call,
// who said so too late, happened all the same: a person who settled it before
// could not know. The next begin takes it for open.
func (e Effect) Doubtful() bool {
	_, doubtful := e.contradicted()
	return doubtful
}

// contradicted finds the evidence that makes an absent effect doubtful.
func (e Effect) contradicted() (by Late, doubtful bool) {
	for _, l := range e.Late {
		judged := e.SettledBy != "" && l.At <= e.EndedAt
		if e.State != EffectAbsent || l.Outcome != OutcomeDone || judged {
			continue
		}
		for _, c := range e.Calls {
			if c.Generation == l.Generation {
				return l, true
			}
		}
	}
	return Late{}, false
}

// CalledTwice reports whether the effect must be taken to have happened twice:
// by the call that counts, where it is done, and by each of another generation
// that said so too late. Calling twice is harmless where the effect is
// repeatable, or where both calls carried one key that the destination still
// enforced.
func (e Effect) CalledTwice() bool {
	if e.Policy == PolicyRepeatable {
		return false
	}
	happened := EffectCall{Round: e.Round}
	if e.State == EffectDone {
		happened.Generation = e.Generation
	}
	for _, l := range e.Late {
		if l.Outcome != OutcomeDone || l.Generation == happened.Generation {
			continue
		}
		for _, c := range e.Calls {
			switch oneKey := c.Round == happened.Round && c.Round == e.Round && l.At <= e.SafeUntil; {
			case c.Generation != l.Generation: // who was only told to probe called nothing
			case happened.Generation == 0:
				happened = c
			case c.Generation != happened.Generation && !oneKey:
				return true
			}
		}
	}
	return false
}
