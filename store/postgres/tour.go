package postgres

import (
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
	after int64         // the last queue's number of the page before
	cost  time.Duration // of the page before
	round time.Duration // of the pages since the first queue
	whole time.Duration // of all pages, when that was last known
	ended time.Time     // the page before
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
	wanted map[string]bool
	always bool // look for queues each time
	begun  bool // this call began with the first queue
}

// begin is nil for a call that asks all its queues: they are few, or fewer than
// it is worth walking over all that have something waiting.
func (s *tours) begin(queues []string, always bool) *tour {
	if len(queues) <= tourFrom || len(queues) <= tourMost && s.dearer(len(queues)) {
		return nil
	}
	t := &tour{of: s, always: always, wanted: make(map[string]bool, len(queues))}
	for _, q := range queues {
		t.wanted[q] = true
	}
	return t
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
	for _, q := range t.of.due {
		if t.wanted[q] && len(queues) < tourMost {
			queues = append(queues, q)
		}
	}
	return queues
}

// claim asks the queues of the list. When it was too old and they have nothing,
// it asks those that a look over all queues finds.
func (t *tour) claim(x *tx, c claiming) (a answer, err error) {
	all, err := t.look(x)
	for err == nil {
		c.queues = t.next()
		a, err = x.claimFrom(c)
		if err != nil || a.head == nil {
			break
		}
		more := t.end(c, a)
		if a.more = more || len(a.jobs) < c.limit && !all; len(a.jobs) > 0 || all {
			break
		}
		if all, err = t.page(x); all && !t.begun {
			t.restart() // the pages before were another call's
			all = false
		}
	}
	a.more = a.more && len(a.jobs) > 0
	return a, err
}

// look looks for queues with something due: a page now and then, and from the
// first queue on until there are enough when few are left. It tells whether it
// looked at all.
func (t *tour) look(x *tx) (all bool, err error) {
	left := len(t.next())
	switch {
	case left > 0 && !t.rested(left):
		return false, nil
	case left >= tourFrom:
		_, err := t.page(x)
		return false, err
	}
	t.restart()
	for left < tourFrom && !all && err == nil {
		all, err = t.page(x)
		left = len(t.next())
	}
	return all, err
}

// rested tells whether a page may be looked at while so many queues are left.
func (t *tour) rested(left int) bool {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	return t.always || left < tourFrom && t.of.cost < tourCheap || time.Since(t.of.ended) >= tourShare*t.of.cost
}

// restart begins anew with the first queue.
func (t *tour) restart() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.after, t.of.round, t.begun = 0, 0, true
}

// page looks at the next queues that have anything waiting. ended says that
// they were the last; the next page begins anew.
func (t *tour) page(x *tx) (ended bool, err error) {
	t.of.mu.Lock()
	after := t.of.after
	t.of.mu.Unlock()
	begun := time.Now()
	var found []string
	err = x.rows("SELECT lane, name FROM daybook.due_queues($1::int, $2::int, $3::bigint)",
		[]any{after, int64(tourPage), x.nowOrNull()}, func(row []any) error {
			if row[1] == nil {
				after = num(row[0])
				return nil
			}
			found = append(found, text(row[1]))
			return nil
		})
	if err != nil {
		return false, err
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.after, t.of.ended = after, time.Now()
	t.of.cost = t.of.ended.Sub(begun)
	if t.of.round += t.of.cost; after == 0 {
		t.of.whole, t.of.round = t.of.round, 0
	}
	if t.of.known == nil {
		t.of.known = map[string]bool{}
	}
	for _, q := range found {
		if !t.of.known[q] {
			t.of.known[q] = true
			t.of.due = append(t.of.due, q)
		}
	}
	return after == 0, nil
}

// end puts the queues that were asked behind the others, and drops those that
// had nothing; the next page finds them again. It tells whether others wait.
func (t *tour) end(c claiming, a answer) (more bool) {
	gave := make(map[string]bool, len(a.jobs))
	for i := range a.jobs {
		gave[a.jobs[i].Queue] = true
	}
	asked := c.queues[:a.head.LookedAt]
	for len(a.jobs) >= c.limit && !gave[asked[len(asked)-1]] {
		asked = asked[:len(asked)-1] // the call had enough before it came there
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	done := make(map[string]bool, len(asked))
	for _, q := range asked {
		done[q] = true
	}
	var rest, behind []string
	for _, q := range t.of.due {
		switch {
		case !done[q]:
			rest = append(rest, q)
			more = more || t.wanted[q]
		case gave[q]:
			behind = append(behind, q)
		default:
			delete(t.of.known, q)
		}
	}
	t.of.due = append(rest, behind...)
	return more
}
