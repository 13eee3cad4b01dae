package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// hit notes that the fault has happened.
func (e *evidence) hit() { e.injected, e.since = true, time.Now() }

// say notes what is wrong.
func (e *evidence) say(format string, args ...any) {
	e.stuck = append(e.stuck, fmt.Sprintf(format, args...))
}

// kill ends the process where it stands, and waits until others have made up for
// it.
func (l *lane) kill(ctx context.Context, victim *process, e *evidence) error {
	if !victim.kill() {
		e.void = fmt.Sprintf("process %d was not killed: it %s", victim.cmd.Process.Pid, victim.cmd.ProcessState)
		return nil
	}
	e.hit()
	if err := l.fill(); err != nil {
		return err
	}
	return l.made(ctx, e)
}

// made waits until the job has come to rest, and notes how long that took since
// the fault.
func (l *lane) made(ctx context.Context, e *evidence) error {
	err := l.rests(ctx, e)
	e.recovered = max(e.recovered, time.Since(e.since))
	return err
}

// goOn lets a process that was stopped in a gap go on.
func (l *lane) goOn(p *process, e *evidence) error {
	err := procs.Continue(p.cmd.Process)
	p.order(order{Go: e.run})
	return err
}

// stop stops the worker where it stands until its lease is past, and lets it go
// on: as soon as its job is somebody else's, or when the other has done it. Then
// it waits for what the worker says, and settles what is left to a person.
func (l *lane) stop(ctx context.Context, victim *process, e *evidence) error {
	before, err := l.book.Job(ctx, e.job.ID)
	if err != nil {
		return err
	}
	sessions, err := l.book.Sessions(ctx, daybook.SessionFilter{Worker: victim.Name})
	if err != nil {
		return err
	}
	if err := l.freeze(ctx, victim); err != nil {
		return err
	}
	e.since = time.Now()
	if err := l.replaced(ctx, before, sessions, e); err != nil {
		_ = l.goOn(victim, e) // what failed is told
		return err
	}
	if !e.early {
		err = l.made(ctx, e)
	}
	if err := errorsOf(err, l.goOn(victim, e)); err != nil {
		return err
	}
	if err := victim.await(ctx, victim.on, e.run); err != nil {
		return err
	}
	e.injected = e.void == ""
	if e.early {
		if err := l.made(ctx, e); err != nil {
			return err
		}
	}
	if e.gap == daybook.GapReply || !slices.Contains(Gaps, e.gap) { // there is nothing to be said late
		return nil
	}
	return l.fenced(ctx, before, e)
}

func errorsOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// freeze stops the process, at a moment at which it holds no lock under which
// the book is written: on SQLite nobody else could write then.
func (l *lane) freeze(ctx context.Context, victim *process) error {
	for {
		if err := procs.Stop(victim.cmd.Process); err != nil {
			return err
		}
		probe, stop := context.WithTimeout(ctx, lull)
		err := l.book.Store().Write(probe, "probing", func(daybook.Tx) error { return nil })
		stop()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		l.log.Info("the stopped worker may hold a lock; once more", "process", victim.Name, "err", err)
		if err := procs.Continue(victim.cmd.Process); err != nil {
			return err
		}
	}
}

// replaced waits until the stopped worker's lease is past: the book ended its
// session, which a process that runs would have renewed, and revoked its claim.
func (l *lane) replaced(ctx context.Context, before daybook.Job, sessions []daybook.Session, e *evidence) error {
	late := time.Now().Add(l.patience)
	for ctx.Err() == nil {
		live := 0
		for _, s := range sessions {
			now, err := l.book.Sessions(ctx, daybook.SessionFilter{ID: s.ID})
			if err != nil {
				return err
			}
			live += len(slices.DeleteFunc(now, func(s daybook.Session) bool { return !s.Live() }))
		}
		now, err := l.book.Job(ctx, before.ID)
		if err != nil {
			return err
		}
		if live == 0 && (now.Generation > before.Generation || now.State == daybook.Succeeded) {
			return nil
		}
		if time.Now().After(late) {
			e.void = fmt.Sprintf("the stopped worker's lease didn't end: %d of its %d sessions live; job %s, generation %d, "+
				"then %d", live, len(sessions), now.State, before.Generation, now.Generation)
			return nil
		}
		pause(ctx, passes/4)
	}
	return ctx.Err()
}

// pause waits a little, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// fenced waits until the book keeps what the replaced worker said: of its effect
// where that was open, and else of its job.
func (l *lane) fenced(ctx context.Context, before daybook.Job, e *evidence) error {
	return l.until(ctx, e, "the late worker's word", func() (bool, error) {
		said, err := l.refusals(ctx, e.job.ID, before.Generation)
		return slices.ContainsFunc(said, func(r daybook.Refusal) bool {
			return !leavesOpen(e.gap) || speaksOf(r, e.policy.kind)
		}), err
	})
}

// settle is the person: for a job that was set aside because of its effect, it
// looks into the destination's ledger and says what it finds. By now the worker
// that began the call is dead, or has gone on and said what it had to say. It
// reports whether there was something to settle.
func (l *lane) settle(ctx context.Context, e *evidence) (bool, error) {
	if e.job.State != daybook.SetAside || e.job.Reason != daybook.ReasonEffectOpen {
		return false, nil
	}
	e.aside++
	verdict := daybook.Verdict{}
	if acts := l.to[e.policy.kind].Acts(e.order); len(acts) > 0 {
		verdict.Happened = true
		verdict.Result = fmt.Appendf(json.RawMessage{}, `{"receipt":%d}`, acts[0].Receipt)
	}
	by := daybook.By{Actor: "drill", Reason: "as the destination's ledger says"}
	_, err := l.book.Settle(ctx, e.job.ID, e.policy.kind, verdict, by)
	return true, err
}
