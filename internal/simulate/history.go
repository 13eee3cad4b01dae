package simulate

import (
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/daybookdev/daybook"
)

// operation is one claim or completion, as its caller saw it.
type operation struct {
	claim      bool
	job        daybook.ID
	session    daybook.ID
	generation int64
	ok         bool // a completion was recorded; else it was fenced
	unknown    bool // nobody knows
}

// recorded is an operation in time.
type recorded struct {
	operation
	from, to int64
}

// never is later than everything: an operation without an answer may take hold at
// any time.
const never = int64(1) << 60

// note puts an operation that began at from into the history.
func (w *world) note(o operation, from int64) {
	to := never
	if !o.unknown {
		to = w.tick()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, recorded{o, from, to})
}

// owned is what one job is to its owners: the model that a history is held to.
type owned struct {
	session    daybook.ID
	generation int64
	revoked    bool // its owner was told that it lost the claim
	done       bool
}

// step is one operation on one job. A claim takes a job over from whoever had it,
// under a higher generation; only the newest owner completes it, and its success
// stays. That a claim was lost is no operation of any caller: it shows in what the
// owner is answered.
func (o owned) step(op operation) (allowed bool, next owned) {
	mine := op.session == o.session && op.generation == o.generation
	switch {
	case op.claim:
		return !o.done && op.generation > o.generation, owned{session: op.session, generation: op.generation}
	case op.unknown:
		if mine && !o.revoked {
			o.done = true
		}
		return true, o
	case op.ok:
		allowed = mine && !o.revoked
		o.done = true
		return allowed, o
	case mine && o.done:
		return false, o // told that it is done, and then that it isn't its own
	}
	o.revoked = o.revoked || mine
	return true, o
}

// linearMost bounds the search for an order of one history.
const linearMost = time.Minute

// linear looks whether some order of the history is one that a book without
// concurrency could have given.
func (w *world) linear() {
	byJob := map[daybook.ID][]porcupine.Operation{}
	for i, r := range w.history {
		byJob[r.job] = append(byJob[r.job], porcupine.Operation{ClientId: i, Input: r.operation, Call: r.from, Return: r.to})
	}
	model := porcupine.Model{
		Init: func() any { return owned{} },
		Step: func(state, input, _ any) (bool, any) { return state.(owned).step(input.(operation)) },
	}
	for job, history := range byJob {
		if porcupine.CheckOperationsTimeout(model, history, linearMost) == porcupine.Illegal {
			w.say("no order of what the owners of job %s were answered makes sense: %s", job, w.story(job))
		}
	}
}

// story is what the owners of a job were answered, for people.
func (w *world) story(job daybook.ID) string {
	var lines []string
	for _, r := range w.history {
		what := "was told that it lost it"
		switch {
		case r.job != job:
			continue
		case r.claim:
			what = "claimed it"
		case r.unknown:
			what = "was told nothing when it had done it"
		case r.ok:
			what = "was told that it is done"
		}
		lines = append(lines, fmt.Sprintf("from %d to %d generation %d %s", r.from, min(r.to, w.clock), r.generation, what))
	}
	return strings.Join(lines, "; ")
}
