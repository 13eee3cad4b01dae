package daybook

import (
	"context"
	"errors"
	"fmt"
)

// Enqueue accepts one job. When it returns nil the job is in the book, durably.
// With a key or a chosen id the call may be repeated by anyone: the same input
// gives the same job, marked as a replay; other input gives ErrKeyConflict and
// stores nothing.
func (b *Book) Enqueue(ctx context.Context, r Request) (Receipt, error) {
	receipts, err := b.EnqueueMany(ctx, []Request{r})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// EnqueueMany accepts up to EnqueueMax jobs in one transaction: all or none. A
// refusal names the request by its index; see [BatchError].
func (b *Book) EnqueueMany(ctx context.Context, requests []Request) (receipts []Receipt, err error) {
	jobs, err := PrepareMany(requests)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if b.opts.Tracer != nil {
		in, end := b.opts.Tracer.Enqueue(ctx, jobs)
		ctx = in
		defer func() { end(err) }()
	}
	FillTrace(ctx, jobs)
	standing := b.standingFor(jobs)
	defer func() { standing.tell(err) }()
	again := false
	accept := func(tx Tx) error {
		send := jobs
		if again { // the first answer was lost: the ids made here may be in
			send = make([]NewJob, len(jobs))
			for i, n := range jobs {
				if send[i] = n; !n.Known && n.Job.Key == "" {
					send[i].Known = true
					if send[i].Fingerprint, err = FingerprintOf(n.Job.Queue, n.Job.Kind, n.Job.Args); err != nil {
						return err
					}
				}
			}
		}
		again = true
		b.Reached(GapAccept, jobs[0].Job.ID)
		if receipts, err = tx.Enqueue(ctx, send); err != nil {
			return err
		}
		return standing.ask(ctx, tx)
	}
	if err = b.write(ctx, "enqueueing", accept); standing.spoilt(err) {
		err = b.write(ctx, "enqueueing", accept)
	}
	if err != nil {
		return nil, err
	}
	rings := ringer{}
	for i, n := range jobs {
		if !n.Known && receipts[i].ID == n.Job.ID {
			receipts[i].Replayed = false // this call's own id: it was new to the book
		}
		rings.add(n.Job.Queue)
	}
	if standing.gave(receipts[0].ID) {
		standing.tell(nil)
		return receipts, nil
	}
	b.Reached(GapPublish, jobs[0].Job.ID)
	b.ring(ctx, rings) // before the standing call is answered: who left it still waits for rings
	return receipts, nil
}

// BatchError says which request of a batch was refused.
type BatchError struct {
	Index int
	Err   error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// PrepareMany checks a batch: each request, the number of them, and their
// bytes together. A single request's refusal comes back bare; in a batch it is
// a [BatchError].
func PrepareMany(requests []Request) ([]NewJob, error) {
	if len(requests) > EnqueueMax {
		return nil, &Error{Code: CodeTooLarge, Field: "jobs",
			Text: fmt.Sprintf("at most %d in one call, got %d", EnqueueMax, len(requests))}
	}
	jobs := make([]NewJob, len(requests))
	total := 0
	for i, r := range requests {
		n, err := r.Prepare()
		if err != nil {
			if len(requests) == 1 {
				return nil, err
			}
			return nil, &BatchError{Index: i, Err: err}
		}
		if total += len(n.Job.Args); total > EnqueueBytesMax {
			return nil, tooLarge("jobs", EnqueueBytesMax, total)
		}
		jobs[i] = n
	}
	return jobs, nil
}

// BatchIndex is the index of the refused request in a batch, or -1.
func BatchIndex(err error) int {
	if e, ok := errors.AsType[*BatchError](err); ok {
		return e.Index
	}
	return -1
}
