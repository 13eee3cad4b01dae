package worker

import (
	"context"
	"errors"
	"slices"

	"github.com/daybookdev/daybook"
)

// flushMost bounds the outcomes of one call.
const flushMost = 1000

// recordOutcomes sends how attempts ended to the book, all that came up since
// the last call in one. An outcome is sent again, with the same generation,
// until the book records or refuses it; its claim stays listed for so long.
func (e *engine) recordOutcomes() {
	for {
		select {
		case <-e.hard.Done():
			return
		case <-e.flush:
		}
		for batch := e.take(); len(batch) > 0; batch = e.take() {
			e.record(batch)
		}
	}
}

// take empties the outbox, as far as one call holds.
func (e *engine) take() []ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.outbox), flushMost)
	e.sending = n
	batch := slices.Clone(e.outbox[:n])
	e.outbox = slices.Delete(e.outbox, 0, n)
	return batch
}

// triesMost is how often an outcome is sent that the book fails to record for
// another reason than being away.
const triesMost = 3

// record sends outcomes until the book answers. When it refuses the call as a
// whole, each is sent alone: one that can't be recorded holds up no other.
func (e *engine) record(batch []ending) {
	outcomes := make([]daybook.Outcome, len(batch))
	for i, b := range batch {
		outcomes[i] = b.out
	}
	again := retry{log: e.log, doing: "recording outcomes"}
	for {
		ctx, cancel := context.WithTimeout(e.hard, e.patience())
		answers, err := e.book.Finish(ctx, outcomes)
		// Who may not write, or may not ask the server, is told so about the call, and it
		// says nothing about the outcomes: those have answers of their own.
		away := ctx.Err() != nil || errors.Is(err, daybook.ErrUnavailable) || errors.Is(err, daybook.ErrBusy) ||
			errors.Is(err, daybook.ErrRefused)
		cancel()
		switch {
		case err == nil:
			again.healed()
			for _, b := range batch {
				e.book.Reached(daybook.GapReply, b.out.Job)
			}
			e.answered(batch, answers)
			return
		case !away && len(batch) > 1:
			for i := range batch {
				e.record(batch[i : i+1])
			}
			return
		case !away && again.tries >= triesMost:
			e.answered(batch, []daybook.Answer{{Job: batch[0].out.Job, Err: err}})
			return
		}
		pause := again.after(err)
		e.giveUp(again.since, err) // and goes on while Run ends
		if !sleep(e.hard, pause) {
			return
		}
	}
}

// answered lets go of what the book recorded or refused.
func (e *engine) answered(batch []ending, answers []daybook.Answer) {
	for i, b := range batch {
		e.tell(b, answers[i])
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending = 0
	for i, b := range batch {
		if again, ok := b.instead(answers[i].Err); ok {
			e.outbox = append(e.outbox, again)
			poke(e.flush)
			continue
		}
		if answers[i].State == daybook.Waiting {
			e.retries.Store(true)
			e.look()
		}
		if b.run.place == placeReturned {
			b.run.place = placeGone
		}
		if e.held[b.run.ref()] == b.run {
			delete(e.held, b.run.ref())
		}
	}
	e.tellRoom()
	e.tellIdle()
}

// instead is what to report when the book refused an outcome for what it says:
// a success with an open effect, a result that can't be kept. The attempt fails
// then; a failure that is refused too is left to the lease.
func (b ending) instead(refused error) (ending, bool) {
	if refused == nil || b.fallback || ended(refused) {
		return ending{}, false
	}
	out := b.run.failure(refused)
	out.Job, out.Owner = b.out.Job, b.out.Owner
	return ending{run: b.run, out: out, fallback: true}, true
}

// tell counts and logs what the book made of an outcome.
func (e *engine) tell(b ending, a daybook.Answer) {
	job, owner := b.run.job, b.out.Owner
	switch {
	case errors.Is(a.Err, daybook.ErrFenced):
		e.counters.fenced.Add(1)
		e.log.Warn("an outcome came too late and changed nothing", "job", job.ID, "kind", job.Kind,
			"generation", owner.Generation, "outcome", b.out.Kind, "err", a.Err)
	case a.Err != nil:
		e.log.Error("an outcome was refused", "job", job.ID, "kind", job.Kind,
			"generation", owner.Generation, "outcome", b.out.Kind, "err", a.Err)
	default:
		e.counters.count(b.out, a)
		if b.out.Kind == daybook.OutcomeFailed {
			e.tellFailure(b, a)
		}
	}
}

func (e *engine) tellFailure(b ending, a daybook.Answer) {
	args := []any{"job", b.run.job.ID, "kind", b.run.job.Kind, "generation", b.out.Owner.Generation,
		"now", a.State}
	if b.out.Problem != nil && !b.run.kind.opts.Sensitive {
		args = append(args, "err", b.out.Problem.Text)
	}
	e.log.Info("an attempt failed", args...)
}
