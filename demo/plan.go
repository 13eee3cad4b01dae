package demo

import (
	"math/rand/v2"

	"github.com/daybookdev/daybook"
)

// Where a fault may happen: in a process that accepts, or in one that works.
var (
	enqueuerGaps = []string{daybook.GapAccept, daybook.GapPublish}
	workerGaps   = []string{daybook.GapClaim, daybook.GapGrant, daybook.GapStart, daybook.GapComplete,
		daybook.GapReply, daybook.GapPause}
)

// faultsMost bounds the faults in one gap.
const faultsMost = 5

// fault is one planned fault. It is armed when After more jobs ended since the
// fault before it. The first process that then passes the gap for the
// Passage-th time is killed there, or, in the gap pause, stopped past its lease.
type fault struct {
	Gap     string
	After   int
	Passage int
}

// inEnqueuer reports whether the fault hits a process that accepts.
func (f fault) inEnqueuer() bool { return f.Gap == daybook.GapAccept || f.Gap == daybook.GapPublish }

// send is one request: which delivery, by which enqueuer.
type send struct{ Delivery, Enqueuer int }

// plan is what a run does, decided before it starts: the same options give the
// same plan.
type plan struct {
	Faults []fault
	// Chunks of requests, let in one after the other as the faults go on.
	// There are about three times as many as faults, so that a fault that a
	// chunk passed by meets another.
	Chunks [][]send
}

// newPlan makes the plan of a seed.
func newPlan(jobs, workers int, seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0xdab))
	var p plan
	for range max(1, min(faultsMost, jobs/300)) {
		for _, gap := range enqueuerGaps {
			p.Faults = append(p.Faults, fault{Gap: gap})
		}
		for _, gap := range workerGaps {
			p.Faults = append(p.Faults, fault{Gap: gap})
		}
	}
	random.Shuffle(len(p.Faults), func(i, j int) { p.Faults[i], p.Faults[j] = p.Faults[j], p.Faults[i] })
	p.Chunks = make([][]send, min(jobs, 3*len(p.Faults)+1))
	few := max(1, min(faultsMost, jobs/len(p.Chunks)/(2*workers)))
	for i := range p.Faults {
		p.Faults[i].After = random.IntN(jobs/(2*len(p.Faults)) + 1)
		p.Faults[i].Passage = 1 + random.IntN(few)
	}
	p.spread(jobs, random)
	return p
}

// spread puts every delivery into two requests of two enqueuers, the second in
// the same chunk as the first or soon after, and shuffles each chunk.
func (p *plan) spread(jobs int, random *rand.Rand) {
	for position, delivery := range random.Perm(jobs) {
		first := position * len(p.Chunks) / jobs
		second := min(first+random.IntN(3), len(p.Chunks)-1)
		one := random.IntN(enqueuers)
		other := (one + 1 + random.IntN(enqueuers-1)) % enqueuers
		p.Chunks[first] = append(p.Chunks[first], send{delivery, one})
		p.Chunks[second] = append(p.Chunks[second], send{delivery, other})
	}
	for _, chunk := range p.Chunks {
		random.Shuffle(len(chunk), func(i, j int) { chunk[i], chunk[j] = chunk[j], chunk[i] })
	}
}
