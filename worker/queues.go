package worker

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// weightMax bounds a queue's weight.
const weightMax = 1000

// rota says in which order a claim call tries the queues. Without weights each
// is first in turn, beginning anywhere; with weights a queue of weight 5 is
// first five times as often as one of weight 1, spread evenly.
type rota struct {
	queues []lane
	total  int // of all weights
	at     int // next first one, without weights
	even   bool
}

type lane struct {
	name   string
	weight int
	credit int // grows by the weight each turn, and pays for being first
}

func newRota(queues []string, weights map[string]int) *rota {
	r := &rota{even: true, at: rand.IntN(len(queues))}
	for _, name := range queues {
		weight := max(1, weights[name])
		r.queues = append(r.queues, lane{name: name, weight: weight})
		r.total += weight
		r.even = r.even && weight == max(1, weights[queues[0]])
	}
	return r
}

// order is the order of the next call.
func (r *rota) order() []string {
	out := make([]string, 0, len(r.queues))
	if r.even {
		for i := range r.queues {
			out = append(out, r.queues[(r.at+i)%len(r.queues)].name)
		}
		r.at = (r.at + 1) % len(r.queues)
		return out
	}
	for i := range r.queues {
		r.queues[i].credit += r.queues[i].weight
	}
	slices.SortStableFunc(r.queues, func(a, b lane) int { return cmp.Compare(b.credit, a.credit) })
	r.queues[0].credit -= r.total
	for _, q := range r.queues {
		out = append(out, q.name)
	}
	return out
}
