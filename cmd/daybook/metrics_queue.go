package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookdev/daybook"
)

// What is shown of queues, by name. Every process shows the same: the book's.
var (
	descJobs  = describe("jobs", "Jobs that stand in a queue, by where they stand.", "queue", "state")
	descAside = describe("set_aside",
		"Jobs that wait for a person's decision (dead letters), by reason.", "queue", "reason")
	descOldest = describe("oldest_eligible_seconds",
		"Age of the oldest eligible job; later, held and paused ones don't count.", "queue")
	descPaused   = describe("queue_paused", "1 while the queue takes no claims; of several queues, how many.", "queue")
	descRequests = describe("requests_total",
		"Jobs that came into a queue or left its way, pruned ones included.", "queue", "what")
	descAttempts = describe("attempts_total", "Claims from a queue.", "queue")
	descOpen     = describe("open_effects", "Effects that were begun, and nobody knows yet what they did.", "queue")
	descDoubled  = describe("doubled_effects", "Effects that happened twice, as evidence shows.", "queue")
	descTakers   = describe("queue_workers", "Live workers that claim from the queue.", "queue")
	descQueues   = describe("queues", "Queues that the book knows, whether they are shown by name or not.")
)

var queueDescs = []*prometheus.Desc{descJobs, descAside, descOldest, descPaused, descRequests, descAttempts, descOpen,
	descDoubled, descTakers}

// otherQueues stands for the queues that aren't shown by name. It is no queue's
// name: those have no brackets.
const otherQueues = "(other)"

// queueNumbers are the numbers of one queue, or of all the others together.
type queueNumbers struct {
	daybook.Backlog
	paused  int
	workers int
}

// countQueues counts the queues, and the workers that take from them. Up to a limit
// they have their names. A name stays for this process's life, else sums would fall
// when a queue comes out of them.
func (m *metrics) countQueues(ctx context.Context) (numbers []queueNumbers, total int, err error) {
	now, backlog, err := m.book.Backlog(ctx)
	if err != nil {
		return nil, 0, err
	}
	sessions, err := m.book.Sessions(ctx, daybook.SessionFilter{Limit: sessionsMost})
	if err != nil {
		return nil, 0, err
	}
	m.name(backlog)
	numbers = make([]queueNumbers, 0, len(m.named)+1)
	places := make(map[string]int, len(backlog))
	others := -1
	for _, b := range backlog {
		switch {
		case m.named[b.Queue]:
			places[b.Queue] = len(numbers)
			numbers = append(numbers, queueNumbers{Backlog: b, paused: int(truth(b.Paused))})
			continue
		case others < 0:
			others = len(numbers)
			numbers = append(numbers, queueNumbers{Backlog: daybook.Backlog{Queue: otherQueues,
				Reasons: map[daybook.Reason]int64{}}})
		}
		places[b.Queue] = others
		numbers[others].add(b)
	}
	countWorkers(numbers, places, sessions, now)
	return numbers, len(backlog), nil
}

// sessionsMost bounds the workers that are counted.
const sessionsMost = 10_000

// countWorkers counts who takes from each queue. Of a session that didn't say what it
// takes nobody knows, so it is taken to take all.
func countWorkers(numbers []queueNumbers, places map[string]int, sessions []daybook.Session, now daybook.Time) {
	for _, s := range sessions {
		switch {
		case s.Quiet || s.ExpiresAt < now:
		case len(s.Queues) == 0:
			for i := range numbers {
				numbers[i].workers++
			}
		default:
			for _, q := range s.Queues {
				if i, known := places[q]; known {
					numbers[i].workers++
				}
			}
		}
	}
}

// name gives queues their names, as far as there is room: first those that have had
// most jobs.
func (m *metrics) name(backlog []daybook.Backlog) {
	if len(m.named) >= m.queues {
		return
	}
	var fresh []daybook.Backlog
	for _, b := range backlog {
		if !m.named[b.Queue] {
			fresh = append(fresh, b)
		}
	}
	slices.SortStableFunc(fresh, func(a, b daybook.Backlog) int {
		return cmp.Or(cmp.Compare(b.Accepted+b.MovedIn, a.Accepted+a.MovedIn), cmp.Compare(a.Queue, b.Queue))
	})
	for _, b := range fresh[:min(len(fresh), m.queues-len(m.named))] {
		m.named[b.Queue] = true
	}
}

// add adds a queue to the others.
func (n *queueNumbers) add(b daybook.Backlog) {
	n.Eligible += b.Eligible
	n.Later += b.Later
	n.Held += b.Held
	n.Oldest = max(n.Oldest, b.Oldest)
	n.Open += b.Open
	n.Doubled += b.Doubled
	n.paused += int(truth(b.Paused))
	for reason, count := range b.Reasons {
		n.Reasons[reason] += count
	}
	from := b.Counts.Fields()
	for i, to := range n.Counts.Fields() {
		*to += *from[i]
	}
}

func (n *queueNumbers) collect(to chan<- prometheus.Metric) {
	q := n.Queue
	for state, count := range map[string]int64{"eligible": n.Eligible, "later": n.Later, "held": n.Held,
		"running": n.Running, "set_aside": n.SetAside} {
		gauge(to, descJobs, float64(count), q, state)
	}
	for _, reason := range daybook.Reasons {
		if count, had := n.Reasons[reason]; had || reason == daybook.ReasonFailures {
			gauge(to, descAside, float64(count), q, string(reason))
		}
	}
	for what, count := range map[string]int64{"accepted": n.Accepted, "moved_in": n.MovedIn, "revived": n.Revived,
		"succeeded": n.Succeeded, "set_aside": n.EverSetAside, "cancelled": n.EverCancelled,
		"expired": n.EverExpired, "moved_out": n.MovedOut} {
		counter(to, descRequests, count, q, what)
	}
	gauge(to, descOldest, n.Oldest, q)
	gauge(to, descPaused, float64(n.paused), q)
	counter(to, descAttempts, n.Attempts, q)
	gauge(to, descOpen, float64(n.Open), q)
	gauge(to, descDoubled, float64(n.Doubled), q)
	gauge(to, descTakers, float64(n.workers), q)
}
