package daybook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Answer says what became of one outcome.
type Answer struct {
	Job     ID
	State   State // of the job now; "" when refused
	Already bool  // it was recorded before: the first result stays
	Err     error // ErrFenced, ErrEffectOpen, ErrNotFound, ErrInvalid; nil when recorded
}

// Complete, Fail and Release report one attempt; see [Book.Finish].
func (b *Book) Complete(ctx context.Context, job ID, o Owner, result json.RawMessage) (Answer, error) {
	return b.finishOne(ctx, Outcome{Job: job, Owner: o, Kind: OutcomeSucceeded, Result: result})
}

// Fail reports a failed attempt.
func (b *Book) Fail(ctx context.Context, job ID, o Owner, f Failure, retryIn *time.Duration) (Answer, error) {
	return b.finishOne(ctx, Outcome{Job: job, Owner: o, Kind: OutcomeFailed, Problem: f.Problem,
		Permanent: f.Permanent, Reason: f.Reason, RetryIn: retryIn})
}

// Release gives a claim back without blame, now or after a delay.
func (b *Book) Release(ctx context.Context, job ID, o Owner, in time.Duration) (Answer, error) {
	return b.finishOne(ctx, Outcome{Job: job, Owner: o, Kind: OutcomeReleased, In: in})
}

func (b *Book) finishOne(ctx context.Context, o Outcome) (Answer, error) {
	answers, err := b.Finish(ctx, []Outcome{o})
	if err != nil {
		return Answer{}, err
	}
	return answers[0], answers[0].Err
}

// check holds an outcome to its limits. A result that can't be kept isn't the
// caller's error but the attempt's: see settle.
func (o Outcome) check() error {
	switch o.Kind {
	case OutcomeSucceeded, OutcomeFailed, OutcomeReleased:
	default:
		return Invalid("outcome", "wants succeeded, failed or released, got %s", quote(string(o.Kind)))
	}
	if err := checkDuration("in", o.In, 0, DelayMax); err != nil {
		return err
	}
	if o.RetryIn != nil {
		return checkDuration("retry_in", *o.RetryIn, 0, DelayMax)
	}
	return nil
}

// Normal turns a success whose result can't be kept into a permanent failure:
// running again would make the same result. Any other outcome is as it was.
func (o Outcome) Normal() Outcome {
	if o.Kind != OutcomeSucceeded || len(o.Result) == 0 {
		return o
	}
	err := CheckJSON("result", o.Result)
	if len(o.Result) > ResultMax {
		err = tooLarge("result", ResultMax, len(o.Result))
	}
	if err == nil {
		return o
	}
	return Outcome{Job: o.Job, Owner: o.Owner, Kind: OutcomeFailed, Permanent: true,
		Problem: NewProblem(err.Error(), "result", "")}
}

// move is the pure move that the outcome asks for.
func (o Outcome) move(j Job, now Time, random float64) (Change, error) {
	switch o.Kind {
	case OutcomeSucceeded:
		return j.Complete(o.Owner, o.Result, now)
	case OutcomeReleased:
		return j.Release(o.Owner, o.In, now)
	}
	f := Failure{Problem: o.Problem, Permanent: o.Permanent, Reason: o.Reason}
	if o.RetryIn != nil {
		f.Delay = *o.RetryIn
	} else {
		f.Delay = BackoffDefault.Delay(int64(j.Failures)+1, random)
	}
	return j.Fail(o.Owner, f, now)
}

// said is the evidence that a fenced outcome leaves.
func (o Outcome) said() Refusal {
	operation, said := "complete", string(o.Result)
	switch o.Kind {
	case OutcomeFailed:
		operation, said = "fail", ""
		if o.Problem != nil {
			said = o.Problem.Text
		}
	case OutcomeReleased:
		operation, said = "release", ""
	}
	said, _ = cleanText(said, ProgressMax)
	return Refusal{Job: o.Job, Generation: o.Owner.Generation, Session: o.Owner.Session, Operation: operation,
		Said: said}
}

// Repeated decides about an outcome whose attempt has ended already: the same
// owner saying the same is answered "already", anything else is fenced.
func (o Outcome) Repeated(past Attempt) bool {
	if past.Session != o.Owner.Session || past.Generation != o.Owner.Generation {
		return false
	}
	if past.Outcome == o.Kind {
		return true
	}
	ended := past.Outcome == OutcomeCancelled && past.Through == past.Generation || past.Outcome == OutcomeAsked
	return ended && o.Kind != OutcomeSucceeded
}

// Finish records how attempts ended, up to BatchMax in one transaction. Each
// gets its own answer; one that is refused doesn't stop the others. An outcome
// of an owner that was replaced is fenced: it changes nothing, is kept as
// evidence, and its sender is told. The error is only for the call as a whole.
func (b *Book) Finish(ctx context.Context, outcomes []Outcome) ([]Answer, error) {
	if len(outcomes) > BatchMax {
		return nil, &Error{Code: CodeTooLarge, Field: "outcomes",
			Text: fmt.Sprintf("at most %d in one call, got %d", BatchMax, len(outcomes))}
	}
	answers := make([]Answer, len(outcomes))
	var round []int
	rest := make([]int, 0, len(outcomes))
	for i := range outcomes {
		answers[i].Job = outcomes[i].Job
		if answers[i].Err = outcomes[i].check(); answers[i].Err == nil {
			rest = append(rest, i)
		}
	}
	for len(rest) > 0 { // a job named twice goes into a later round
		round, rest = distinct(outcomes, rest)
		if err := b.finish(ctx, outcomes, answers, round); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func distinct(outcomes []Outcome, of []int) (round, rest []int) {
	seen := make(map[ID]bool, len(of))
	for _, i := range of {
		if seen[outcomes[i].Job] {
			rest = append(rest, i)
			continue
		}
		seen[outcomes[i].Job] = true
		round = append(round, i)
	}
	return round, rest
}

func (b *Book) finish(ctx context.Context, outcomes []Outcome, answers []Answer, round []int) error {
	rings := ringer{}
	var refusals []Refusal
	err := b.write(ctx, "recording outcomes", func(tx Tx) error {
		refusals = refusals[:0]
		rest, err := completeSets(ctx, tx, outcomes, answers, round)
		if err != nil {
			return err
		}
		ids := make([]ID, len(rest))
		for n, i := range rest {
			ids[n] = outcomes[i].Job
		}
		jobs, err := tx.Lock(ctx, ids)
		if err != nil {
			return err
		}
		changes := make([]Change, 0, len(rest))
		for n, i := range rest {
			o := outcomes[i].Normal()
			c, err := o.move(jobs[n], tx.Now(), b.opts.Random())
			if err == nil {
				changes = append(changes, c)
				answers[i] = Answer{Job: o.Job, State: c.Now.State}
				continue
			}
			if answers[i], err = b.answer(ctx, tx, o, jobs[n], err); err != nil {
				return err
			}
			if errors.Is(answers[i].Err, ErrFenced) {
				refusals = append(refusals, o.said())
			}
		}
		rings.changes(changes, tx.Now())
		return tx.Save(ctx, changes)
	})
	if err != nil {
		return err
	}
	b.ring(ctx, rings)
	return b.keepRefusals(ctx, refusals)
}

// completeSets lets the store complete each session's successes as one set,
// if it can, and returns what is left to decide one by one.
func completeSets(
	ctx context.Context, tx Tx, outcomes []Outcome, answers []Answer, round []int,
) (rest []int, err error) {
	completer, ok := tx.(Completer)
	if !ok {
		return round, nil
	}
	sets := map[ID][]int{}
	for _, i := range round {
		if o := outcomes[i]; o.Kind == OutcomeSucceeded && o.Normal().Kind == OutcomeSucceeded {
			sets[o.Owner.Session] = append(sets[o.Owner.Session], i)
		} else {
			rest = append(rest, i)
		}
	}
	for session, set := range sets {
		successes := make([]Outcome, len(set))
		for n, i := range set {
			successes[n] = outcomes[i]
		}
		left, err := completer.Complete(ctx, session, successes)
		if err != nil {
			return nil, err
		}
		for _, i := range set {
			answers[i] = Answer{Job: outcomes[i].Job, State: Succeeded}
		}
		for _, n := range left {
			rest = append(rest, set[n])
		}
	}
	return rest, nil
}

// answer is for an outcome that the job's state refused.
func (b *Book) answer(ctx context.Context, tx Tx, o Outcome, j Job, refused error) (Answer, error) {
	a := Answer{Job: o.Job, Err: refused}
	switch {
	case j.ID.IsZero():
		a.Err = Fail(CodeNotFound, "no job %s; finished jobs are kept for the retention only", o.Job)
		return a, nil
	case !errors.Is(refused, ErrFenced):
		return a, nil
	case o.Owner.Generation > j.Generation:
		return a, noteBehind(ctx, tx, o, j)
	}
	past, found, err := tx.AttemptOf(ctx, j, o.Owner.Generation)
	if err != nil {
		return a, err
	}
	if found && o.Repeated(past) {
		return Answer{Job: o.Job, State: j.State, Already: true}, nil
	}
	return a, nil
}

// noteBehind records the proof that the database lost commits: somebody was
// given a generation that the row has not reached.
func noteBehind(ctx context.Context, tx Tx, o Outcome, j Job) error {
	was, err := tx.Setting(ctx, SettingBookBehind)
	if err != nil || was != "" {
		return err
	}
	_, err = tx.SaveSetting(ctx, SettingBookBehind, "", fmt.Sprintf("%s job %s generation %s above %s",
		tx.Now(), j.ID, strconv.FormatInt(o.Owner.Generation, 10), strconv.FormatInt(j.Generation, 10)))
	return err
}

// keepRefusals writes evidence in a transaction of its own, after the one that
// refused.
func (b *Book) keepRefusals(ctx context.Context, refusals []Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	return b.write(ctx, "keeping what a fenced owner said", func(tx Tx) error {
		for i := range refusals {
			refusals[i].At = tx.Now()
		}
		return tx.SaveRefusals(ctx, refusals)
	})
}
