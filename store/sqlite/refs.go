package sqlite

import (
	"sync"

	"github.com/daybookdev/daybook"
)

// ref is what never changes of a job's row: its number and its queue's.
type ref struct {
	seq, queue int64
}

// refs remembers the rows of jobs that this process has claimed, so that their
// completion need not look them up by id. A job keeps its row's number for
// life, and no other job gets it, so what was once committed stays true; who
// owns the job now is asked of the book all the same.
type refs struct {
	mu   sync.Mutex
	byID map[daybook.ID]ref
}

// refsMax bounds the memory. Claims that end elsewhere leave their rows here.
const refsMax = 1 << 15

func newRefs() *refs { return &refs{byID: map[daybook.ID]ref{}} }

// claimedRef is a row to be remembered when its claim is committed.
type claimedRef struct {
	id daybook.ID
	ref
}

func (r *refs) learn(claimed []claimedRef) {
	if len(claimed) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID)+len(claimed) > refsMax {
		clear(r.byID)
	}
	for _, c := range claimed {
		r.byID[c.id] = c.ref
	}
}

// take finds the rows of a set of jobs and forgets them: a claim ends once. It
// answers the places of those that it doesn't know.
func (r *refs) take(set []daybook.Outcome, into []ref) (unknown []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range set {
		known, ok := r.byID[set[i].Job]
		if !ok {
			unknown = append(unknown, i)
			continue
		}
		into[i] = known
		delete(r.byID, set[i].Job)
	}
	return unknown
}
