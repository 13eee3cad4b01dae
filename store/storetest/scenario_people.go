package storetest

import (
	"encoding/json"
	"fmt"

	"github.com/daybookdev/daybook"
)

// What people and the reconciler do in a scenario.

func (s *stage) by(l *line) daybook.By {
	return daybook.By{Actor: l.text("by", "ada"), Reason: l.text("reason", "")}
}

// person shows how a job stands after somebody's decision.
func (s *stage) person(j daybook.Job, err error) string {
	if err != nil {
		return s.answer("", err)
	}
	return s.jobLine(j)
}

// cancel JOB [force by reason].
func (s *stage) cancel(l *line) string {
	return s.person(s.w.book.Cancel(s.w.ctx, s.job(l.name()), s.by(l), l.flag("force")))
}

// revive JOB [by reason].
func (s *stage) revive(l *line) string {
	return s.person(s.w.book.Revive(s.w.ctx, s.job(l.name()), s.by(l)))
}

// unhold JOB [by reason].
func (s *stage) unhold(l *line) string {
	return s.person(s.w.book.Unhold(s.w.ctx, s.job(l.name()), s.by(l)))
}

// settle JOB EFFECT happened|absent [generation=N stay by reason], with the
// result on the lines below.
func (s *stage) settle(l *line) string {
	id, effect := s.job(l.name()), l.name()
	v := daybook.Verdict{Generation: int64(l.number("generation", 0)), Happened: l.flag("happened"),
		Stay: l.flag("stay"), Result: json.RawMessage(l.td.Input)}
	if !v.Happened && !l.flag("absent") {
		l.fail("settle wants happened or absent")
	}
	return s.person(s.w.book.Settle(s.w.ctx, id, effect, v, s.by(l)))
}

// pause QUEUE [by reason].
func (s *stage) pause(l *line) string {
	return s.answer("paused", s.w.book.Pause(s.w.ctx, l.name(), s.by(l)))
}

// resume QUEUE [by reason].
func (s *stage) resume(l *line) string {
	return s.answer("resumed", s.w.book.Resume(s.w.ctx, l.name(), s.by(l)))
}

// restored [since=D ago]: the database lost what was committed since.
func (s *stage) restored(l *line) string {
	at := s.w.clock.time().Add(-l.duration("since"))
	n, err := s.w.book.Restored(s.w.ctx, at, s.by(l))
	return s.answer(fmt.Sprintf("incarnation %d", n), err)
}

// reconcile [unsure|sure|at-once]: one pass; sure unless said otherwise.
func (s *stage) reconcile(l *line) string {
	certainty := daybook.Sure
	switch {
	case l.flag("unsure"):
		certainty = daybook.Unsure
	case l.flag("at-once"):
		certainty = daybook.AtOnce
	default:
		l.flag("sure")
	}
	p := s.w.reconcile(certainty)
	out := ""
	for _, n := range []struct {
		what string
		n    int
	}{{"sessions marked", p.marked}, {"sessions ended", p.ended}, {"claims revoked", p.revoked},
		{"claims past their run limit", p.overdue}, {"jobs expired", p.expired}} {
		if n.n > 0 {
			out += fmt.Sprintf("%s: %d\n", n.what, n.n)
		}
	}
	if out == "" {
		return "nothing to do"
	}
	return out
}

func (s *stage) expire(*line) string {
	n, err := s.w.book.ExpireWaiting(s.w.ctx)
	return s.answer(fmt.Sprintf("expired %d", n), err)
}

// prune [keep=D dry-run].
func (s *stage) prune(l *line) string {
	o := daybook.PruneOptions{DryRun: l.flag("dry-run"), Keep: l.duration("keep")}
	n, err := s.w.book.Prune(s.w.ctx, o)
	return s.answer(fmt.Sprintf("%d jobs", n), err)
}

func (s *stage) sweep(*line) string {
	n, err := s.w.book.Sweep(s.w.ctx)
	if err == nil && n == 0 {
		return "nothing to do"
	}
	return s.answer("swept", err)
}
