package postgres

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// tours are for claims from very many queues: asking each of ten thousand would
// cost far more than the claim. They keep a list of queues that have something
// due, found by walking over the index of waiting jobs from queue to queue, and
// a claim asks those in turn.
type tours struct {
	mu    sync.Mutex
	due   []string // the next one first
	known map[string]bool
	after int64         // where the next page begins that is looked at now and then
	cost  time.Duration // of the last page
	ended time.Time     // the last page
	whole time.Duration // what all pages cost, when that was last known
	ask   int           // how many queues the next call asks
	asked queueSet      // the last call's queues
}

// queueSet is a list of queues with the place of each.
type queueSet struct {
	list   []string
	places map[string]int
}

// same reports whether queues are the list, from anywhere on: so a worker names
// them, call for call, and ten thousand are sooner compared than put in a map.
func (s *queueSet) same(queues []string) bool {
	at, has := s.places[queues[0]]
	rest := len(s.list) - at
	return has && len(queues) == len(s.list) && slices.Equal(queues[:rest], s.list[at:]) &&
		slices.Equal(queues[rest:], s.list[:at])
}

const (
	// tourFrom is up to how many queues a claim asks all of them.
	tourFrom = 64
	// tourMost is how many queues of the list one call asks; the first few have
	// enough if they are deep.
	tourMost = 1024
	// tourPage is how many queues are looked for at once, and tourShare bounds
	// the time for it where there is no hurry.
	tourPage, tourShare = 500, 20
	// tourCheap is what a page may cost however often it is made.
	tourCheap = 20 * time.Millisecond
)

// tour is one call's part.
type tour struct {
	of     *tours
	wanted map[string]int
	always bool          // look for queues each time
	after  int64         // where this call's own look over all queues has come
	cost   time.Duration // of it
}

// begin is nil for a call that asks all its queues: they are few, or fewer than
// it is worth walking over all that have something waiting.
func (s *tours) begin(queues []string, always bool) *tour {
	if len(queues) <= tourFrom || len(queues) <= tourMost && s.dearer(len(queues)) {
		return nil
	}
	return &tour{of: s, always: always, wanted: s.setOf(queues)}
}

func (s *tours) setOf(queues []string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.same(queues) {
		s.asked = queueSet{slices.Clone(queues), make(map[string]int, len(queues))}
		for i, q := range queues {
			s.asked.places[q] = i
		}
	}
	return s.asked.places
}

// wants reports whether the call is about a queue.
func (t *tour) wants(queue string) bool {
	_, wanted := t.wanted[queue]
	return wanted
}

// dearer reports whether looking for queues costs more than asking so many.
func (s *tours) dearer(queues int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole > time.Duration(queues)*lookQueue && time.Since(s.ended) < time.Minute
}

// next are the queues to ask.
func (t *tour) next() (queues []string) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	most := min(max(t.of.ask, tourFrom), tourMost)
	for _, q := range t.of.due {
		if len(queues) == most {
			break
		}
		if t.wants(q) {
			queues = append(queues, q)
		}
	}
	return queues
}

// claim asks the queues of the list, some after the others until one gives
// something. When the list was too old and they have nothing, it asks those that a
// look over all queues finds.
func (t *tour) claim(x *tx, c claiming) (a answer, err error) {
	all, err := t.look(x)
	for err == nil {
		c.queues = t.next()
		a, err = x.claimFrom(c)
		if err != nil || a.head == nil {
			break
		}
		more := t.end(c, a)
		a.more = len(a.jobs) > 0 && (more || len(a.jobs) < c.limit && !all)
		if len(a.jobs) > 0 || all && !more {
			break
		}
		if !more {
			all, err = t.more(x)
		}
	}
	return a, err
}

// look looks for queues with something due: a page now and then, and when few
// are left, from the first on until there are enough. It tells whether it looked
// at all.
func (t *tour) look(x *tx) (all bool, err error) {
	left := len(t.next())
	switch {
	case left > 0 && !t.rested(left):
		return false, nil
	case left >= tourFrom:
		after, err := t.page(x, t.of.place())
		t.of.move(after)
		return false, err
	}
	for left < tourFrom && !all && err == nil {
		all, err = t.more(x)
		left = len(t.next())
	}
	return all, err
}

// more takes this call's look over all queues a page further.
func (t *tour) more(x *tx) (all bool, err error) {
	if t.after, err = t.page(x, t.after); err != nil || t.after != 0 {
		return false, err
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.whole = t.cost
	return true, nil
}

// rested tells whether a page may be looked at while so many queues are left.
func (t *tour) rested(left int) bool {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return t.always || left < tourFrom && t.of.cost < tourCheap || time.Since(t.of.ended) >= tourShare*t.of.cost
}

func (s *tours) place() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.after
}

func (s *tours) move(after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = after
}

// page looks at the queues after a place that have anything waiting. It answers
// where to go on; 0 is that these were the last.
func (t *tour) page(x *tx, after int64) (next int64, err error) {
	begun := time.Now()
	var found []string
	err = x.rows("SELECT lane, name FROM daybook.due_queues($1::int, $2::int, $3::bigint)",
		[]any{after, int64(tourPage), x.nowOrNull()}, func(row []any) error {
			if row[1] == nil {
				next = num(row[0])
			} else {
				found = append(found, text(row[1]))
			}
			return nil
		})
	cost := time.Since(begun)
	t.cost += cost
	t.of.add(found, cost)
	return next, err
}

// add puts queues on the list that have something due.
func (s *tours) add(found []string, cost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cost, s.ended = cost, time.Now()
	if s.known == nil {
		s.known = map[string]bool{}
	}
	for _, q := range found {
		if !s.known[q] {
			s.known[q] = true
			s.due = append(s.due, q)
		}
	}
}

// end puts the queues that were asked behind the others, and drops those that
// have nothing left; the next look finds them again. It tells whether others are
// left. The next call asks twice as many queues as this one had to.
func (t *tour) end(c claiming, a answer) (more bool) {
	gave := make(map[string]bool, len(a.jobs))
	for i := range a.jobs {
		gave[a.jobs[i].Queue] = true
	}
	seen := maps.Clone(gave)
	for _, i := range a.head.Dry {
		delete(gave, c.queues[i-1])
	}
	asked := c.queues[:a.head.LookedAt]
	for len(a.jobs) >= c.limit && !seen[asked[len(asked)-1]] {
		asked = asked[:len(asked)-1] // the call had enough before it came there
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.ask = 2 * len(asked)
	done := make(map[string]bool, len(asked))
	for _, q := range asked {
		done[q] = true
	}
	var rest, behind []string
	for i, q := range t.of.due {
		if more && len(done) == 0 {
			rest = append(rest, t.of.due[i:]...)
			break
		}
		if !done[q] {
			rest = append(rest, q)
			more = more || t.wants(q)
			continue
		}
		delete(done, q)
		if gave[q] {
			behind = append(behind, q)
		} else {
			delete(t.of.known, q)
		}
	}
	t.of.due = append(rest, behind...)
	return more
}
