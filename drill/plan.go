package drill

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// policy is one of the ledger's, with what tries it.
type policy struct {
	name   daybook.Policy
	kind   string // of the jobs, and the name of their effect
	nobody bool   // only a person can say what an open effect did
	late   bool   // a late call happens again, and the book must say so
}

// policies in the order of the table.
var policies = []policy{
	{name: daybook.PolicyKeyed, kind: "charge"},
	{name: daybook.PolicyChecked, kind: "mail", late: true},
	{name: daybook.PolicyRepeatable, kind: "price"},
	{name: daybook.PolicyAsk, kind: "letter", nobody: true},
}

// Gaps are those around an effect, which this drill knows.
var Gaps = []string{daybook.GapBegin, daybook.GapRecord, daybook.GapComplete, daybook.GapReply, daybook.GapPause}

// The faults.
const (
	faultKill = "kill" // SIGKILL in the gap
	faultStop = "stop" // SIGSTOP in the gap until the lease is past, then SIGCONT
)

var faultKinds = []string{faultKill, faultStop}

// combination is a row of the table.
type combination struct {
	policy policy
	gap    string
	fault  string
}

// combinations of some gaps, in the order of the table.
func combinations(gaps []string, only map[daybook.Policy]bool) (all []combination) {
	for _, p := range policies {
		for _, gap := range Gaps {
			for _, fault := range faultKinds {
				if slices.Contains(gaps, gap) && (only == nil || only[p.name]) {
					all = append(all, combination{p, gap, fault})
				}
			}
		}
	}
	return all
}

// leavesOpen reports whether an attempt that ends in the gap leaves its effect
// open.
func leavesOpen(gap string) bool {
	return gap == daybook.GapBegin || gap == daybook.GapRecord || gap == daybook.GapPause
}

// planned is one run of a combination.
type planned struct {
	combination
	row   int  // of the table
	run   int  // counts from 1
	early bool // a stopped worker goes on as soon as its job is somebody else's, not when that one is done
}

// String is the fault for people.
func (p planned) String() string { return strings.TrimSpace(p.gap + " " + p.fault) }

// planner hands out runs, in rounds of every combination once, shuffled by the
// seed. The same options give the same plan; which worker meets which run isn't
// in it.
type planner struct {
	rows   []combination
	random *rand.Rand
	round  []planned
	runs   int
	rounds int
}

func newPlanner(rows []combination, seed uint64) *planner {
	return &planner{rows: rows, random: rand.New(rand.NewPCG(seed, 0xd2111))}
}

// next is the next run. It begins a round when the last one is handed out.
func (p *planner) next() planned {
	if len(p.round) == 0 {
		p.rounds++
		for i, row := range p.rows {
			p.round = append(p.round, planned{combination: row, row: i, early: p.random.IntN(2) == 0})
		}
		p.random.Shuffle(len(p.round), func(i, j int) { p.round[i], p.round[j] = p.round[j], p.round[i] })
	}
	next := p.round[0]
	p.round = p.round[1:]
	p.runs++
	next.run = p.runs
	return next
}

// between reports whether a round ended, and the next hasn't begun.
func (p *planner) between() bool { return len(p.round) == 0 }
