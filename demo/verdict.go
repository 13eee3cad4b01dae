package demo

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// Result is what a run found. Its JSON is the surface's answer of the demo.
type Result struct {
	Jobs            int            `json:"jobs"` // deliveries
	Workers         int            `json:"workers"`
	Seed            uint64         `json:"seed"`
	Accepted        int            `json:"accepted"` // deliveries whose callers were told so
	Replayed        int            `json:"replayed"` // requests answered "known already"
	Attempts        int64          `json:"attempts"` // claims
	Kills           int            `json:"kills"`    // processes killed with SIGKILL
	Gaps            map[string]int `json:"gaps"`     // faults that happened, by gap
	Lost            int            `json:"lost"`     // accepted, and not in the book
	Fenced          int            `json:"fenced"`   // writes of replaced owners, refused and kept
	EffectsAsked    int            `json:"effects_asked"`
	EffectsHappened int            `json:"effects_happened"`
	Doubled         int            `json:"doubled"`    // deliveries on which the destination acted twice
	Missing         int            `json:"missing"`    // accepted, and the destination never acted
	Violations      int            `json:"violations"` // of invariants, and where book and world differ
	JobsPerSecond   float64        `json:"jobs_per_second"`

	// Found says what each violation is, at most foundMost of them.
	Found []string `json:"-"`
	// FencedJob is a job whose timeline shows a fenced write; zero without one.
	FencedJob daybook.ID `json:"-"`
	// Dir is the folder that was kept, or "".
	Dir string `json:"-"`
}

// foundMost bounds the violations that are told one by one.
const foundMost = 20

// Wrong says what didn't hold, in order of weight; empty is a run in which
// everything held. A gap that no fault hit, or no fenced write, makes the run
// void: it proved too little.
func (r Result) Wrong() []string {
	var wrong []string
	for _, n := range []struct {
		count int
		what  string
	}{{r.Lost, "lost"}, {r.Missing, "missing"}, {r.Doubled, "doubled"}, {r.Violations, "violations"}} {
		if n.count > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	for _, gap := range gapNames() {
		if r.Gaps[gap] == 0 {
			wrong = append(wrong, "void: no fault in the gap "+gap)
		}
	}
	if r.Fenced == 0 {
		wrong = append(wrong, "void: no write was fenced")
	}
	return wrong
}

// gapNames are the gaps that a run must hit, in the order of a job's way.
func gapNames() []string { return slices.Concat(enqueuerGaps, workerGaps) }

// violation notes one difference between what must be and what is.
func (r *Result) violation(format string, args ...any) {
	if r.Violations++; r.Violations <= foundMost {
		r.Found = append(r.Found, fmt.Sprintf(format, args...))
	}
}

// judge compares the three sides. It is pure: the same evidence gives the same
// result.
func judge(e evidence) Result {
	r := Result{Jobs: e.Jobs, Workers: e.Workers, Seed: e.Seed, Attempts: e.Counts.Attempts, Kills: e.Kills,
		Gaps: map[string]int{}, Fenced: e.Fenced, FencedJob: e.FencedJob,
		EffectsAsked: e.Asked, EffectsHappened: len(e.Acts)}
	for _, gap := range gapNames() {
		r.Gaps[gap] = e.Gaps[gap]
	}
	if e.Took > 0 {
		r.JobsPerSecond = float64(int(float64(e.Jobs)/e.Took.Seconds()*10)) / 10
	}
	r.judgeBook(e.Checked)
	happened := map[string][]act{}
	for _, a := range e.Acts {
		happened[a.Delivery] = append(happened[a.Delivery], a)
	}
	for i, d := range e.Deliveries {
		r.judgeDelivery(e, e.Acks[i], d.ID, sha256.Sum256(d.Body), happened[d.ID])
		delete(happened, d.ID)
	}
	for delivery := range happened {
		r.violation("the destination acted on delivery %s, which nobody sent", delivery)
	}
	r.judgeCounts(e)
	return r
}

// judgeBook takes over what the checker found.
func (r *Result) judgeBook(checked check.Report) {
	for _, invariant := range checked.Invariants {
		for _, v := range invariant.Found {
			r.violation("%s: %s %s", v.Invariant, v.Subject, v.Detail)
		}
		r.Violations += invariant.Rows - len(invariant.Found) // what it counted and didn't name
	}
}

// judgeDelivery follows one delivery: told its caller, done outside, written
// in the book.
func (r *Result) judgeDelivery(e evidence, acks []ack, delivery string, body [sha256.Size]byte, acts []act) {
	if len(acts) > 1 {
		r.Doubled++
	}
	if len(acks) == 0 {
		r.violation("delivery %s was never answered", delivery)
		return
	}
	r.Accepted++
	fresh := 0
	for _, a := range acks {
		if a.Replayed {
			r.Replayed++
		} else {
			fresh++
		}
		if a.ID != acks[0].ID {
			r.violation("delivery %s became two jobs, %s and %s", delivery, acks[0].ID, a.ID)
		}
	}
	if fresh > 1 {
		r.violation("delivery %s was called new %d times", delivery, fresh)
	}
	if len(acts) == 0 || acts[0].Body != body {
		r.Missing++
	}
	id := acks[0].ID
	job, found := e.Book[id]
	if !found {
		r.Lost++
		return
	}
	if job.Key != delivery || job.Args != body {
		r.violation("job %s is not delivery %s as it was sent", id, delivery)
	}
	r.judgeEnd(id, job, acts)
}

// judgeEnd holds a job's end in the book against what happened outside.
func (r *Result) judgeEnd(id daybook.ID, job entry, acts []act) {
	switch {
	case job.State != daybook.Succeeded:
		r.violation("job %s ended %s %s", id, job.State, job.Reason)
	case len(acts) == 0: // counted as missing
	case acts[0].Key != daybook.EffectKey(id, effect, 0):
		r.violation("job %s acted with a key that isn't its own", id)
	case !bytes.Equal(job.Result, fmt.Appendf(nil, `{"receipt":%d}`, acts[0].Receipt)):
		r.violation("job %s says %.80s, the destination receipt %d", id, job.Result, acts[0].Receipt)
	}
}

// judgeCounts holds the book's counts against what callers were told.
func (r *Result) judgeCounts(e evidence) {
	if !e.Counts.Balanced() {
		r.violation("conservation is broken: %+v", e.Counts)
	}
	if e.Counts.Accepted != int64(r.Accepted) || len(e.Book) != r.Accepted {
		r.violation("callers were told of %d jobs, the book counts %d and holds %d",
			r.Accepted, e.Counts.Accepted, len(e.Book))
	}
}
