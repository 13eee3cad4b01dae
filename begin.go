package daybook

import (
	"context"
	"errors"
)

// BeginEffect asks the ledger's leave to make one outside call in an owner's
// name, and records that it begins before it answers. Repeating a begin by its
// Call gives the same answer; another begin of the same name in one attempt is
// refused (CodeEffectNameReused). An owner that was replaced gets ErrFenced,
// and that it tried is kept.
func (b *Book) BeginEffect(ctx context.Context, job ID, o Owner, r Begin) (Begun, error) {
	if err := r.check(); err != nil {
		return Begun{}, err
	}
	var out Begun
	var refused error
	err := b.write(ctx, "beginning an effect", func(tx Tx) error {
		out, refused = Begun{}, nil
		j, e, err := lockEffect(ctx, tx, job, r.Name)
		if err != nil {
			return err
		}
		begun, w, err := j.BeginEffect(o, e, r, tx.Now())
		if errors.Is(err, ErrFenced) {
			// The answer of a begin that set the job aside may have been lost.
			past, ended := attemptOf(ctx, tx, j, o)
			asked := past.Outcome == OutcomeAsked && e.Used == o.Generation && e.Call == r.Call
			changed := past.Error != nil && past.Error.Text == changedProblem(r.Name).Text
			if ended == nil && (asked || changed) {
				out = Begun{Decision: DecisionAsk, Key: e.Key, Reason: ReasonEffectOpen}
				if changed {
					out.Reason = ReasonEffectChanged
				}
				return nil
			}
			refused = err
			return errors.Join(ended, noteAbove(ctx, tx, j, o))
		}
		if err != nil {
			return err
		}
		out = begun
		return saveEffect(ctx, tx, j, w)
	})
	if err == nil && refused != nil {
		return Begun{}, b.keepEvidence(ctx, refused, Refusal{Job: job, Generation: o.Generation, Session: o.Session,
			Operation: operationBegin + r.Name, Said: string(r.Policy)})
	}
	if err == nil && out.Decision == DecisionCall {
		b.Reached(GapBegin, job)
	}
	return out, err
}

// EffectEnded answers a finish.
type EffectEnded struct {
	State   EffectState `json:"state"` // of the effect now
	Job     State       `json:"job"`   // set_aside (or cancelled) when a probe could not tell
	Doubled bool        `json:"doubled,omitempty"`
	Already bool        `json:"already,omitempty"` // it was recorded before; what was said first stays
}

// FinishEffect records what an owner's call, or the probe that it was told to
// make, came to. Saying the same twice is harmless. An owner that was replaced
// gets ErrFenced: it changes nothing, but what it says is kept beside the effect,
// for whoever judges it.
func (b *Book) FinishEffect(ctx context.Context, job ID, o Owner, f EffectEnd) (EffectEnded, error) {
	if err := f.check(); err != nil {
		return EffectEnded{}, err
	}
	b.Reached(GapRecord, job)
	var out EffectEnded
	var refused error
	err := b.write(ctx, "recording how an effect ended", func(tx Tx) error {
		out, refused = EffectEnded{}, nil
		j, e, err := lockEffect(ctx, tx, job, f.Name)
		if err != nil {
			return err
		}
		w, err := j.FinishEffect(o, e, f, tx.Now())
		if errors.Is(err, ErrFenced) {
			past, ended := attemptOf(ctx, tx, j, o)
			asked := past.Outcome == OutcomeAsked && e.Used == o.Generation
			if ended == nil && asked && f.Outcome == OutcomeUnknown {
				out = EffectEnded{State: e.State, Job: j.State, Doubled: e.Doubled}
				return nil
			}
			refused = err
			return errors.Join(ended, noteAbove(ctx, tx, j, o))
		}
		if err != nil {
			return err
		}
		out = EffectEnded{State: e.State, Job: j.State, Doubled: e.Doubled}
		if w.Effect.Name != "" {
			out.State, out.Doubled = w.Effect.State, w.Effect.Doubled
		}
		out.Already = w.Effect.Name == "" && w.Event == nil && w.Change == nil
		if w.Change != nil {
			out.Job = w.Change.Now.State
		}
		return saveEffect(ctx, tx, j, w)
	})
	if err == nil && refused != nil {
		return EffectEnded{}, b.keepEvidence(ctx, refused, Refusal{Job: job, Generation: o.Generation, Session: o.Session,
			Operation: operationFinish + f.Name, Said: lateSaid(f.Outcome, f.Result)})
	}
	return out, err
}

// lockEffect locks a job and reads one effect of it; an effect that nobody began
// has no name.
func lockEffect(ctx context.Context, tx Tx, job ID, name string) (Job, Effect, error) {
	jobs, err := tx.Lock(ctx, []ID{job})
	if err != nil {
		return Job{}, Effect{}, err
	}
	if jobs[0].ID.IsZero() {
		return Job{}, Effect{}, Fail(CodeNotFound, "no job %s; finished jobs are kept for the retention only", job)
	}
	e, _, err := tx.Effect(ctx, jobs[0], name)
	return jobs[0], e, err
}

func saveEffect(ctx context.Context, tx Tx, j Job, w EffectWrite) error {
	if err := tx.SaveEffect(ctx, j, w); err != nil || w.Change == nil {
		return err
	}
	return tx.Save(ctx, []Change{*w.Change})
}

// attemptOf is how the owner's own attempt ended, and nothing for anybody else.
func attemptOf(ctx context.Context, v View, j Job, o Owner) (Attempt, error) {
	past, found, err := v.AttemptOf(ctx, j, o.Generation)
	if err != nil || !found || past.Session != o.Session || past.Generation != o.Generation {
		return Attempt{}, err
	}
	return past, nil
}

// noteAbove records a generation above the row's: see noteBehind.
func noteAbove(ctx context.Context, tx Tx, j Job, o Owner) error {
	if o.Generation <= j.Generation {
		return nil
	}
	return noteBehind(ctx, tx, Outcome{Job: j.ID, Owner: o}, j)
}

// keepEvidence keeps what a fenced owner said of an effect, and marks the effect
// doubled when that shows it. It returns the refusal itself.
func (b *Book) keepEvidence(ctx context.Context, refused error, r Refusal) error {
	err := b.write(ctx, "keeping what a fenced owner said", func(tx Tx) error {
		r.At = tx.Now()
		if err := tx.SaveRefusals(ctx, []Refusal{r}); err != nil {
			return err
		}
		late := LateOf(nameIn(r.Operation), []Refusal{r})
		if len(late) == 0 || late[0].Outcome != OutcomeDone {
			return nil
		}
		j, e, err := lockEffect(ctx, tx, r.Job, nameIn(r.Operation))
		if err != nil || e.Name == "" {
			return err
		}
		return saveEffect(ctx, tx, j, e.Evidence(late[0], tx.Now()))
	})
	if err != nil {
		return err
	}
	return refused
}
