package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// marks remember how far claims have come in each queue and rank, so that they
// don't walk over what was claimed and can't be vacuumed yet: while somebody
// holds an old snapshot, that is everything since. A look from the start costs
// little on most books; then it is made every time, and no mark is used. Else a
// mark is used until it is forgotten, which is when a look from the start has
// become cheap beside the time that passed. Nothing is skipped for good, and no
// safety depends on marks.
type marks struct {
	mu   sync.Mutex
	sets map[string]*markSet // by kinds: who takes some kinds leaves others waiting behind its marks
}

const (
	// lookCheap is up to what cost the look from the start is made every time.
	lookCheap = 100 * time.Microsecond
	// lookRest and lookShare bound how often it is made otherwise.
	lookRest  = 100 * time.Millisecond
	lookShare = 20
	// What looking costs on a book without anything dead, by queue and by job.
	lookQueue, lookJob = 50 * time.Microsecond, 5 * time.Microsecond
	// markTrail is by how many claimed jobs a mark stays behind at most, so that
	// what is committed a little out of order is seen at once; trailLeast and
	// trailCalls keep that small beside the claim itself. markBehind is the time
	// of it, until so many were claimed.
	markTrail  = 1000
	trailLeast = 100
	trailCalls = 10
	markBehind = daybook.Time(time.Second / time.Microsecond)
	// setsMost and lanesMost bound the memory.
	setsMost, lanesMost = 64, 100_000
)

// markSet are the marks of those who take the same kinds.
type markSet struct {
	lanes  map[string]*laneMarks
	cost   time.Duration // of looks from the start, over all queues
	gaps   time.Duration // that looking for unknown ranks cost last
	gapsAt time.Time
}

// laneMarks are one queue's, by rank.
type laneMarks struct {
	marks   []mark
	cost    time.Duration
	looking bool // somebody looks from the start just now
}

// mark is a place in one rank: what was before it when it was last looked at
// from the start is claimed or was seen.
type mark struct {
	rank int64
	spot
	back   spot      // where to look from meanwhile: a look from the start found more before the mark than it took
	since  time.Time // when the rank was last looked at from the start
	looks  *look     // who does that just now
	behind []batch   // what was claimed behind the mark, the oldest first
	count  int       // jobs in them
}

// spot is a place in the order of one rank's jobs.
type spot struct {
	runAt daybook.Time
	seq   int64
}

func (s spot) before(o spot) bool { return s.runAt < o.runAt || s.runAt == o.runAt && s.seq < o.seq }

// batch is what one claim took of one rank.
type batch struct {
	first, last spot
	count       int
}

// hints are marks as claim_jobs takes them.
type hints struct {
	ends, ranks, runAts, seqs []int64
	gaps                      bool
}

// look is one claim call's look at its queues.
type look struct {
	hints
	claiming
	of    *marks
	set   *markSet
	whole []bool // queues of which a rank is looked at from the start
	begun time.Time
}

// begin decides from where on a claim looks. off makes it look at all, always:
// with a clock that the caller moves, nothing tells how old a mark is.
func (m *marks) begin(c claiming, off bool) *look {
	l := &look{claiming: c, of: m, hints: hints{gaps: true}}
	if off {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.set, l.begun, l.whole = m.setOf(c.kinds), time.Now(), make([]bool, len(c.queues))
	if l.set.cost < lookCheap {
		for i := range l.whole {
			l.whole[i] = true
		}
		return l
	}
	for i, queue := range c.queues {
		l.whole[i] = l.useMarks(l.set.lane(queue))
		l.ends = append(l.ends, int64(len(l.ranks)))
	}
	l.gaps = slices.Contains(l.whole, true) || l.begun.Sub(l.set.gapsAt) >= lookShare*l.set.gaps
	return l
}

// cheap reports whether those who take these kinds look from the start anyway.
func (m *marks) cheap(kinds []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setOf(kinds).cost < lookCheap
}

func (m *marks) setOf(kinds []string) *markSet {
	key := strings.Join(kinds, " ") // no name has a space
	s := m.sets[key]
	if s == nil {
		if m.sets == nil || len(m.sets) >= setsMost {
			m.sets = map[string]*markSet{}
		}
		s = &markSet{lanes: map[string]*laneMarks{}}
		m.sets[key] = s
	}
	return s
}

func (s *markSet) lane(queue string) *laneMarks {
	lane := s.lanes[queue]
	if lane == nil {
		if len(s.lanes) >= lanesMost {
			clear(s.lanes)
			s.cost = 0
		}
		lane = &laneMarks{}
		s.lanes[queue] = lane
	}
	return lane
}

// useMarks takes a queue's marks into the hints, except those that are old
// enough to be forgotten. Of several calls at once one looks from the start.
func (l *look) useMarks(lane *laneMarks) (whole bool) {
	rest := max(lookRest, lookShare*l.set.cost)
	for i := range lane.marks {
		m := &lane.marks[i]
		if !lane.looking && l.begun.Sub(m.since) >= rest {
			whole, m.looks = true, l
			continue
		}
		from := m.spot
		if m.back != (spot{}) {
			from = m.back
		}
		l.ranks, l.runAts, l.seqs = append(l.ranks, m.rank), append(l.runAts, int64(from.runAt)), append(l.seqs, from.seq)
	}
	whole = whole || len(lane.marks) == 0
	lane.looking = lane.looking || whole
	return whole
}

// end learns from what the call found; no header is that it failed.
func (l *look) end(a answer) {
	if l.set == nil {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if a.head != nil {
		l.learnCost(a)
		l.learnMarks(a)
	}
	for i, queue := range l.queues {
		if !l.whole[i] {
			continue
		}
		lane := l.set.lane(queue)
		lane.looking = false
		for n := range lane.marks {
			lane.marks[n].looks = nil
		}
	}
}

// learnCost notes what it cost to look from the start, above what looking
// costs anyway.
func (l *look) learnCost(a answer) {
	if l.ends != nil {
		l.set.gaps, l.set.gapsAt = 0, l.begun
		if gaps := time.Duration(a.head.Gaps) * time.Microsecond; gaps >= lookCheap {
			l.set.gaps = gaps
		}
	}
	whole := 0
	for i := range l.whole {
		if l.whole[i] {
			whole++
		}
	}
	if whole == 0 {
		return
	}
	usual := time.Duration(a.head.LookedAt) * lookQueue
	cost := time.Duration(max(a.head.Gaps,
		a.head.Looked-(time.Duration(len(a.jobs))*lookJob).Microseconds())) * time.Microsecond
	cost = max(0, cost-usual) / time.Duration(whole)
	for i, queue := range l.queues {
		if l.whole[i] {
			lane := l.set.lane(queue)
			l.set.cost += cost - lane.cost
			lane.cost = cost
		}
	}
}

// learnMarks moves the marks of the ranks that jobs were claimed of. A call that
// found fewer than it wanted saw everything in its queues: their other ranks
// have nothing, and neither has the rank that most jobs have.
func (l *look) learnMarks(a answer) {
	for from := 0; from < len(a.jobs); {
		first := &a.jobs[from]
		to := from + 1
		for to < len(a.jobs) && a.jobs[to].Queue == first.Queue && a.jobs[to].Priority == first.Priority {
			to++
		}
		last := &a.jobs[to-1]
		l.set.lane(first.Queue).at(rank(first.Priority)).claimed(batch{spot{first.RunAt, first.Ref},
			spot{last.RunAt, last.Ref}, to - from}, l)
		from = to
	}
	if len(a.jobs) >= l.limit {
		return
	}
	for i, queue := range l.queues {
		if a.head.Lanes[i] == 0 {
			continue // nobody looked
		}
		lane := l.set.lane(queue)
		lane.at(rank(0))
		for n := range lane.marks {
			lane.marks[n].seen(daybook.Time(a.head.Now), l)
		}
	}
}

// at is the mark of a rank, made if need be.
func (lane *laneMarks) at(rank int64) *mark {
	i, known := slices.BinarySearchFunc(lane.marks, rank, func(m mark, rank int64) int { return int(m.rank - rank) })
	if !known {
		lane.marks = slices.Insert(lane.marks, i, mark{rank: rank})
	}
	return &lane.marks[i]
}

// whole reports whether the look began at the rank's start.
func (m *mark) whole(l *look) bool { return m.since.IsZero() || l.ends == nil || m.looks == l }

// claimed moves the mark for jobs that were claimed. It never moves back for
// good: when there may be more before it, the next claims look there first.
func (m *mark) claimed(b batch, l *look) {
	if m.since.IsZero() {
		m.spot = spot{b.first.runAt - markBehind, 0}
	}
	if m.whole(l) {
		m.since = l.begun
	}
	m.back = spot{}
	if b.last.before(m.spot) {
		m.back = b.last
		return
	}
	m.behind = append(m.behind, b)
	m.count += b.count
	trail := min(markTrail, trailLeast+trailCalls*b.count)
	for m.count-m.behind[0].count >= trail {
		m.count -= m.behind[0].count
		m.behind = m.behind[1:]
		m.move(m.behind[0].first)
	}
}

// seen moves the mark of a rank that has nothing due.
func (m *mark) seen(now daybook.Time, l *look) {
	m.back = spot{}
	if m.whole(l) {
		m.since = l.begun
		m.move(spot{now - markBehind, 0})
	}
}

func (m *mark) move(to spot) {
	if m.before(to) {
		m.spot = to
	}
}
