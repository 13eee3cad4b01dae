package check

import (
	"context"

	"github.com/daybookdev/daybook"
)

// BellReport says what lies in the bell. Rings decide nothing, so none of these
// numbers is a violation: a claim that a ring had caused wrongly would be one of
// the book's own invariants.
type BellReport struct {
	Read          int    `json:"read"`           // rings that were read
	Bounded       bool   `json:"bounded"`        // there may be more
	Work          int    `json:"work"`           // their queue has eligible work, or their job is to run
	NoWork        int    `json:"no_work"`        // nothing is eligible in their queue
	UnknownQueues int    `json:"unknown_queues"` // the book has no such queue
	UnknownJobs   int    `json:"unknown_jobs"`   // the book has no such job
	Finished      int    `json:"finished"`       // their job has ended
	Owned         int    `json:"owned"`          // their job runs already
	Foreign       int    `json:"foreign"`        // their job is in another queue
	Sentence      string `json:"sentence"`
}

// BellSentence says what a BellReport is good for.
const BellSentence = "Rings decide nothing: who hears one asks the book, and finds work or none. These are notes."

// BellMax is how many rings Bell reads at most.
const BellMax = 10_000

// lookups is how many jobs are looked up on one snapshot.
const lookups = 200

// Bell reads the rings that lie in the book's bell, at most BellMax, leaves them
// there, and holds them to the book. A bell that keeps no rings has none. The
// error is for a bell or a book that can't be read.
func Bell(ctx context.Context, book *daybook.Book) (BellReport, error) {
	report := BellReport{Sentence: BellSentence}
	rings, err := book.PeekRings(ctx, BellMax)
	if err != nil {
		return report, err
	}
	report.Read, report.Bounded = len(rings), len(rings) == BellMax
	queues := map[string]daybook.Queue{}
	list, err := book.Queues(ctx, false)
	for _, q := range list {
		queues[q.Name] = q
	}
	for err == nil && len(rings) > 0 {
		part := rings[:min(lookups, len(rings))]
		rings = rings[len(part):]
		var sorted BellReport
		err = book.Store().Read(ctx, "holding rings to the book", func(v daybook.View) error {
			sorted = BellReport{}
			for _, r := range part {
				if err := sorted.sort(ctx, v, r, queues); err != nil {
					return err
				}
			}
			return nil
		})
		report.add(sorted)
	}
	return report, err
}

// sort counts one ring.
func (r *BellReport) sort(ctx context.Context, v daybook.View, ring daybook.Ring,
	queues map[string]daybook.Queue) error {
	q, known := queues[ring.Queue]
	if !known {
		r.UnknownQueues++
		return nil
	}
	if ring.Job.IsZero() {
		if q.Ready {
			r.Work++
		} else {
			r.NoWork++
		}
		return nil
	}
	j, found, err := v.Job(ctx, ring.Job)
	switch {
	case err != nil:
		return err
	case !found:
		r.UnknownJobs++
	case j.Queue != ring.Queue:
		r.Foreign++
	case j.State == daybook.Running:
		r.Owned++
	case j.State == daybook.Waiting:
		r.Work++
	default:
		r.Finished++
	}
	return nil
}

func (r *BellReport) add(o BellReport) {
	r.Work += o.Work
	r.NoWork += o.NoWork
	r.UnknownQueues += o.UnknownQueues
	r.UnknownJobs += o.UnknownJobs
	r.Finished += o.Finished
	r.Owned += o.Owned
	r.Foreign += o.Foreign
}
