package drill

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/daybookdev/daybook"
)

// scene is one kind of fault.
type scene struct {
	name string // unique with how
	how  string // kill or stop, in a gap or in a step of a cutover
	what string // in a few words
	// needs says why it can't be made here, "" that it can; nil is that it always
	// can.
	needs func(*stand) string
	alone bool // nobody else makes a fault meanwhile
	heard bool // it wants workers that hear the bell
	// run makes it; nil is a gap. It notes in the evidence that it happened, or why
	// it is void, and what is wrong.
	run func(ctx context.Context, l *lane, e *evidence) error
}

// allScenes lists them: the gaps, rings, late owners, pairs, the steps of a
// cutover, and what befalls processes, connections and servers.
func allScenes() (all []scene) {
	for _, g := range daybook.Gaps {
		for _, how := range faultKinds {
			c := scene{name: g.Name, how: how, what: "between " + g.Between}
			if g.Name == daybook.GapMark || g.Name == daybook.GapDeliver || g.Name == daybook.GapAck {
				c.needs, c.heard = wantsBell, g.Name != daybook.GapMark
			}
			all = append(all, c)
		}
	}
	all = append(all, ringScenes...)
	all = append(all, scene{name: "late-owner", what: "every write of an owner after a new attempt began", run: lateOwner})
	for _, d := range decisions {
		for _, o := range ownerMoves {
			all = append(all, pairScene(d, o))
		}
	}
	return slices.Concat(all, cutoverScenes(), processScenes, databaseScenes)
}

// Names lists the faults, each once, gaps first.
func Names() (names []string) {
	for _, c := range allScenes() {
		if !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// Listed is a fault for people.
type Listed struct {
	Name string `json:"name"`
	How  string `json:"how,omitempty"` // kill and stop, in a gap or in a step of a cutover
	What string `json:"what"`
}

// List lists the faults with what they are.
func List() (list []Listed) {
	for _, c := range allScenes() {
		if n := len(list); n > 0 && list[n-1].Name == c.name {
			list[n-1].How += ", " + c.how
			continue
		}
		list = append(list, Listed{c.name, c.how, c.what})
	}
	return list
}

func wantsBell(s *stand) string {
	if s.hurts == nil {
		return "there is no bell"
	}
	return ""
}

// sheet hands faults out, in rounds of each once, shuffled by the seed. The same
// seed and faults give the same order; which lane meets which isn't in it.
type sheet struct {
	all    []planned
	random *rand.Rand
	round  []planned
	runs   int
	rounds int
}

func newSheet(rows []FaultRow, seed uint64) *sheet {
	s := &sheet{random: rand.New(rand.NewPCG(seed, 0xda7b00c))}
	for i, r := range rows {
		if r.Left == "" {
			s.all = append(s.all, planned{combination: combination{gap: r.Name, fault: r.How}, row: i})
		}
	}
	return s
}

func (s *sheet) size() int { return len(s.all) }

func (s *sheet) between() bool { return len(s.round) == 0 }

// next is the next fault. A gap around an effect meets one of the policies.
func (s *sheet) next() planned {
	if s.between() {
		s.rounds++
		s.round = slices.Clone(s.all)
		s.random.Shuffle(len(s.round), func(i, j int) { s.round[i], s.round[j] = s.round[j], s.round[i] })
	}
	next := s.round[0]
	s.round = s.round[1:]
	s.runs++
	next.run, next.early = s.runs, s.random.IntN(2) == 0
	next.policy = policies[0]
	if chosen := policies[s.random.IntN(len(policies))]; slices.Contains(Gaps, next.gap) {
		next.policy = chosen
	}
	return next
}
