package drill

import (
	"bytes"
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/effects/outside"
)

// evidence is what one run left: in the book, and outside.
type evidence struct {
	planned
	order     string    // number, by which the destination's ledger is read
	injected  bool      // the fault was shown to have happened
	void      string    // why it wasn't
	left      string    // why it can't be made here at all
	unseen    bool      // its job never came into the book: there is nothing to judge
	aside     int       // how often the job was set aside, and settled
	since     time.Time // the fault
	recovered time.Duration
	stuck     []string // steps that didn't come about

	job     daybook.Job
	effects int
	effect  daybook.Effect
	acts    []outside.Act
	asked   int
}

// judge says what is wrong. A void run is no evidence of what its fault does,
// but what it shows to be wrong is wrong.
func (e evidence) judge() (wrong []string) {
	wrong = append(wrong, e.stuck...)
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch {
	case e.job.State != daybook.Succeeded:
		say("it ended %s %s", e.job.State, e.job.Reason)
	case len(e.acts) == 0:
		say("it succeeded, and nothing happened")
	case !e.hasReceipt():
		say("its result is %.80s, which is no receipt of the destination's", e.job.Result)
	}
	switch {
	case e.effects != 1:
		say("the book has %d effects of it, want 1", e.effects)
	case e.effect.State != daybook.EffectDone || e.effect.Policy != e.policy.name || e.effect.Name != e.policy.kind:
		say("its effect is %s %s, policy %s", e.effect.Name, e.effect.State, e.effect.Policy)
	}
	lands := e.policy.late && e.gap == daybook.GapPause && e.fault == faultStop
	switch {
	case len(e.acts) > 1 && !lands:
		say("it happened %d times", len(e.acts))
	case len(e.acts) > 1 && !e.effect.Doubled:
		say("it happened %d times, and the book doesn't say so", len(e.acts))
	case len(e.acts) < 2 && e.effect.Doubled:
		say("the book says doubled, and it happened %d times", len(e.acts))
	case lands && !e.early && e.void == "" && len(e.acts) != 2:
		say("a call that came after the job was done happened %d times in all, want 2", len(e.acts))
	}
	wanted := 0
	if e.policy.nobody && leavesOpen(e.gap) {
		wanted = 1
	}
	// Where a late word says that it happened and the destination, which shows it a
	// little later, says that it didn't, a person is asked, and rightly.
	if lands && e.aside == 1 && len(e.effect.Late) > 0 {
		wanted = 1
	}
	// A worker that lost its lease on its own account may have left another call
	// open: then a person is asked again, and rightly.
	if e.void == "" && e.aside != wanted && !(e.policy.nobody && e.aside > wanted && e.unplanned()) {
		say("a person was asked %d times, want %d", e.aside, wanted)
	}
	return wrong
}

// unplanned reports whether the job lost more owners than the fault took.
func (e evidence) unplanned() bool {
	if e.gap == daybook.GapReply {
		return e.job.Crashes > 0
	}
	return e.job.Crashes > 1
}

func (e evidence) hasReceipt() bool {
	for _, a := range e.acts {
		if bytes.Equal(e.job.Result, fmt.Appendf(nil, `{"receipt":%d}`, a.Receipt)) {
			return true
		}
	}
	return false
}

// Row is what came of all runs of one combination.
type Row struct {
	Policy     daybook.Policy `json:"policy"`
	Gap        string         `json:"gap"`
	Fault      string         `json:"fault"`
	Runs       int            `json:"runs"`     // in which the fault was shown to have happened
	Requests   int            `json:"requests"` // that reached the destination
	Happened   int            `json:"happened"` // runs whose effect did, at least once
	Doubled    int            `json:"doubled"`  // runs whose effect happened more than once
	Asked      int            `json:"asked"`    // runs that a person had to settle
	Void       int            `json:"void"`
	Violations int            `json:"violations"`
}

func (r *Row) add(e evidence, wrong []string) {
	r.Violations += len(wrong)
	if e.void != "" || !e.injected {
		r.Void++
		return
	}
	r.Runs++
	r.Requests += e.asked
	if len(e.acts) > 0 {
		r.Happened++
	}
	if len(e.acts) > 1 {
		r.Doubled++
	}
	if e.aside > 0 {
		r.Asked++
	}
}

// Result is what came of a drill.
type Result struct {
	Seed            uint64         `json:"seed"`
	Injected        map[string]int `json:"injected"` // faults, by gap
	Violations      int            `json:"violations"`
	Void            int            `json:"void"` // runs whose fault couldn't be shown to have happened
	RecoverySeconds float64        `json:"recovery_seconds_max"`
	Replay          string         `json:"replay"`
	Effects         []Row          `json:"effects"`
	Found           []string       `json:"found,omitempty"`
	Took            time.Duration  `json:"-"`
	Dir             string         `json:"-"` // with the workers' logs, when they were kept
}

// foundMax bounds what a result tells one by one.
const foundMax = 100

// verdict puts all together, with what the checker found. An effect that is
// doubled is a violation but where a run has shown that it happened twice.
func (d *drill) verdict(report check.Report, took time.Duration) Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := Result{Seed: d.Seed, Injected: map[string]int{}, Effects: d.rows, Took: took,
		RecoverySeconds: d.slowest.Round(time.Millisecond).Seconds()}
	for _, row := range d.rows {
		r.Injected[row.Gap] += row.Runs
		r.Violations += row.Violations
		r.Void += row.Void
	}
	wrong, found := againstBook(report, len(d.doubled))
	r.Violations += wrong
	d.found = append(d.found, found...)
	r.Found = d.found[:min(len(d.found), foundMax)]
	return r
}

// doubledInvariant is the checker's word for what the ledger calls doubled.
const doubledInvariant = "effect-doubled"
