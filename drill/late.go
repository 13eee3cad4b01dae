package drill

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// ownerWrites is every kind of write that an owner makes.
var ownerWrites = []struct {
	name string
	do   func(ctx context.Context, b *daybook.Book, j daybook.Job) error
}{
	{"complete", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		_, err := b.Complete(ctx, j.ID, ownerOf(j), []byte(`"late"`))
		return err
	}},
	{"fail", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		_, err := b.Fail(ctx, j.ID, ownerOf(j), daybook.Failure{Problem: daybook.NewProblem("late", "", "")}, nil)
		return err
	}},
	{"release", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		_, err := b.Release(ctx, j.ID, ownerOf(j), time.Hour)
		return err
	}},
	{"progress", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		return b.Progress(ctx, j.ID, ownerOf(j), []byte(`"late"`))
	}},
	{"begin of an effect", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		_, err := b.BeginEffect(ctx, j.ID, ownerOf(j), daybook.Begin{Name: "late", Policy: daybook.PolicyAsk})
		return err
	}},
	{"start", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		lost, err := b.Started(ctx, j.Session, []daybook.ClaimRef{refOf(j)})
		if err == nil && slices.Contains(lost, refOf(j)) {
			err = daybook.ErrFenced
		}
		return err
	}},
	{"renewal", func(ctx context.Context, b *daybook.Book, j daybook.Job) error {
		_, err := b.Renew(ctx, j.Session, []daybook.ClaimRef{refOf(j)})
		return err
	}},
}

func ownerOf(j daybook.Job) daybook.Owner {
	return daybook.Owner{Session: j.Session, Generation: j.Generation}
}

func refOf(j daybook.Job) daybook.ClaimRef {
	return daybook.ClaimRef{Job: j.ID, Generation: j.Generation}
}

// lateOwner has an owner say everything that an owner can say, after a new
// attempt began: nothing of it may land, its sender is told, and it is kept.
func lateOwner(ctx context.Context, l *lane, e *evidence) error {
	queue := "late-" + l.queue
	e.job.ID = daybook.NewID()
	_, err := l.book.Enqueue(ctx, daybook.Request{ID: e.job.ID, Queue: queue, Kind: "late"})
	if err != nil {
		return err
	}
	first, err := l.claims(ctx, e, queue, daybook.LeaseMin) // and is never renewed
	if err != nil {
		return err
	}
	since := time.Now()
	second, err := l.claims(ctx, e, queue, time.Hour)
	if err != nil || len(e.stuck) > 0 {
		return err
	}
	e.injected, e.since, e.recovered = second.Generation > first.Generation, since, time.Since(since)
	if !e.injected {
		e.say("the second claim has generation %d, behind %d", second.Generation, first.Generation)
	}
	for _, w := range ownerWrites {
		if err := w.do(ctx, l.book, first); !errors.Is(err, daybook.ErrFenced) {
			e.say("a late %s was answered %v, want fenced", w.name, err)
		}
	}
	said, err := l.refusals(ctx, e.job.ID, first.Generation)
	if err != nil {
		return err
	}
	if len(said) < len(ownerWrites)-1 { // a renewal is of a session, not of a job
		e.say("the book keeps %d of %d late writes", len(said), len(ownerWrites)-1)
	}
	if _, err := l.book.Complete(ctx, e.job.ID, ownerOf(second), []byte(`"mine"`)); err != nil {
		e.say("the owner was answered %v", err)
	}
	job, err := l.book.Job(ctx, e.job.ID)
	if err == nil && string(job.Result) != `"mine"` {
		e.say("the result is %s", job.Result)
	}
	return errors.Join(err, l.book.EndSession(ctx, second.Session))
}

// claims claims the scene's job with a session of its own, as soon as it can be
// had.
func (l *lane) claims(ctx context.Context, e *evidence, queue string, lease time.Duration) (
	got daybook.Job, err error) {
	s, err := l.book.StartSession(ctx, daybook.SessionRequest{Worker: "late", Lease: lease})
	if err != nil {
		return got, err
	}
	err = l.until(ctx, e, "the job to be claimed", func() (bool, error) {
		c, err := l.book.Claim(ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{queue}})
		if len(c.Jobs) > 0 {
			got = c.Jobs[0]
		}
		return len(c.Jobs) > 0, err
	})
	return got, err
}
