package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// takers are the sessions that may claim, by what they say that they take.
type takers struct {
	of   map[string][]daybook.Session // by queue
	mute []daybook.Session            // those that name no queue
	all  bool                         // no session was left out
}

// takersOf are those whose lease holds.
func takersOf(h health) takers {
	t := takers{of: map[string][]daybook.Session{}, all: len(h.Sessions) < sessionsMost}
	for _, s := range h.Sessions {
		if !s.Live() || s.Quiet || s.ExpiresAt <= h.At {
			continue
		}
		for _, queue := range s.Queues {
			t.of[queue] = append(t.of[queue], s)
		}
		if len(s.Queues) == 0 {
			t.mute = append(t.mute, s)
		}
	}
	return t
}

// lack is what waits in a queue and nobody says to take.
type lack struct {
	Queue  string
	Kinds  []string // that are served by nobody in a queue that is; none is the whole queue
	N      int64    // of jobs that are ready
	Oldest daybook.Time
	Mute   bool // somebody who doesn't say may take them
}

// Words say it in few, for a row of the queue.
func (l lack) Words() string {
	verb := map[bool]string{false: "nobody takes ", true: "nobody says to take "}[l.Mute]
	return verb + cmp.Or(l.kinds(), "it")
}

// kinds names them, the first few.
func (l lack) kinds() string {
	const most = 3
	if len(l.Kinds) == 0 {
		return ""
	}
	text := map[bool]string{false: "kinds ", true: "kind "}[len(l.Kinds) == 1] +
		strings.Join(l.Kinds[:min(most, len(l.Kinds))], ", ")
	if len(l.Kinds) > most {
		text += fmt.Sprintf(" and %d more", len(l.Kinds)-most)
	}
	return text
}

// lacks is what is ready in a queue and nobody says to take, if there is such.
func (t takers) lacks(q daybook.Backlog) (l lack, found bool) {
	l = lack{Queue: q.Queue}
	if q.Paused || q.Eligible == 0 || !t.all {
		return l, false
	}
	for _, k := range q.Kinds {
		may := func(s daybook.Session) bool { takes, _ := s.Takes(q.Queue, k.Kind); return takes }
		if k.Eligible == 0 || slices.ContainsFunc(t.of[q.Queue], may) {
			continue
		}
		l.N += k.Eligible
		l.Kinds = append(l.Kinds, k.Kind)
		l.Mute = l.Mute || slices.ContainsFunc(t.mute, may)
		if l.Oldest == 0 || k.Oldest != 0 && k.Oldest < l.Oldest {
			l.Oldest = k.Oldest
		}
	}
	found = len(l.Kinds) > 0
	if len(t.of[q.Queue]) == 0 {
		l.Kinds = nil
	}
	return l, found
}

// queueNeeds says which queues wait without a worker, and which wait long. A few
// have a line each; many are one line, so that nothing else drowns in them.
func (c *Console) queueNeeds(b backlog, h health, put func(int, need)) {
	var idle, unsaid, late []lack
	sessions := takersOf(h)
	for _, q := range b.Queues {
		l, found := sessions.lacks(q)
		switch {
		case found && l.Mute:
			unsaid = append(unsaid, l)
		case found:
			idle = append(idle, l)
		case !q.Paused && q.Eligible > 0 && time.Duration(q.Oldest*float64(time.Second)) > waitsLong:
			late = append(late, lack{Queue: q.Queue, N: q.Eligible,
				Oldest: h.At.Add(-time.Duration(q.Oldest * float64(time.Second)))})
		}
	}
	c.waits(idle, h.At, "No worker takes %s", func(n need) {
		n.Class = "warn"
		put(4, n)
	})
	c.waits(unsaid, h.At, "No worker says that it takes %s", func(n need) {
		n.Class = "note"
		n.More += ". Some that are there don’t say what they take"
		put(4, n)
	})
	c.waits(late, h.At, "Jobs wait long in %s", func(n need) {
		n.Class = "note"
		put(5, n)
	})
}

// linesMost is how many queues with the same trouble have a line of their own.
const linesMost = 5

// waits puts queues with one trouble, a line each or all in one.
func (c *Console) waits(queues []lack, now daybook.Time, text string, put func(need)) {
	slices.SortStableFunc(queues, func(a, b lack) int { return cmp.Compare(a.Oldest, b.Oldest) })
	ready := func(n int64, oldest daybook.Time) string {
		return fmt.Sprintf("%s ready, the oldest for %s", count(n, "job"), ago(oldest, now))
	}
	if len(queues) <= linesMost {
		for _, q := range queues {
			what, kind := "queue "+q.Queue, ""
			if len(q.Kinds) > 0 {
				what = q.kinds() + " of " + what
			}
			if len(q.Kinds) == 1 {
				kind = q.Kinds[0]
			}
			put(need{Shape: "waiting", Text: fmt.Sprintf(text, what), More: ready(q.N, q.Oldest),
				To: c.url("/jobs", "queue", q.Queue, "kind", kind, "state", "waiting"), Link: "See them"})
		}
		return
	}
	var jobs int64
	what := " queues"
	for _, q := range queues {
		jobs += q.N
		if len(q.Kinds) > 0 {
			what = " queues, or some kinds of theirs"
		}
	}
	more := ready(jobs, queues[0].Oldest) + ", in " + queues[0].Queue
	for _, q := range queues[1:linesMost] {
		more += ", then " + q.Queue
	}
	put(need{Shape: "waiting", Text: fmt.Sprintf(text, num(len(queues))+what), More: more,
		To: c.url("/jobs", "state", "waiting"), Link: "See them"})
}
