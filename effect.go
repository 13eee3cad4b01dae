package daybook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
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

// Effect is one outside action of a job, as the ledger has it.
type Effect struct {
	Job        ID              `json:"job"`
	Name       string          `json:"name"`
	Policy     Policy          `json:"policy"`
	State      EffectState     `json:"state"`
	Generation int64           `json:"generation"` // of the newest begin
	Round      int             `json:"round,omitempty"`
	Key        string          `json:"key"`
	Result     json.RawMessage `json:"result,omitempty"`
	BegunAt    Time            `json:"begun_at"`
	EndedAt    Time            `json:"ended_at,omitzero"`
	SettledBy  string          `json:"settled_by,omitempty"`
	Doubled    bool            `json:"doubled,omitempty"`
	Ref        int64           `json:"-"`
}

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
