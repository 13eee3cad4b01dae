package storetest

import (
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// What a scenario shows. Only what differs from an untouched job is printed,
// so that a story's point isn't drowned.

func (s *stage) jobLine(j daybook.Job) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s", s.names[j.ID], j.State)
	show := func(what string, value any, really bool) {
		if really {
			fmt.Fprintf(&out, " %s=%v", what, value)
		}
	}
	show("reason", j.Reason, j.Reason != "")
	show("generation", j.Generation, j.Generation > 0)
	show("failures", j.Failures, j.Failures > 0)
	show("crashes", j.Crashes, j.Crashes > 0)
	show("due", since(j.RunAt), j.State == daybook.Waiting && j.RunAt > s.w.clock.time())
	show("expires", since(j.ExpiresAt), j.ExpiresAt != 0)
	show("held", j.HeldBy, j.HeldBy != "")
	show("owner", s.names[j.Session], !j.Session.IsZero())
	show("asked-to-cancel", since(j.CancelRequestedAt), j.CancelRequestedAt != 0)
	show("progress", string(j.Progress), len(j.Progress) > 0)
	show("result", string(j.Result), len(j.Result) > 0)
	if j.LastError != nil {
		show("error", fmt.Sprintf("%q", j.LastError.Text), true)
	}
	return out.String()
}

func (s *stage) showJob(l *line) string {
	j, err := s.w.book.Job(s.w.ctx, s.job(l.name()))
	if err != nil {
		return s.answer("", err)
	}
	out := s.jobLine(j)
	if l.flag("args") {
		out += "\n" + string(j.Args)
	}
	return out
}

// jobs [queue kind state reason key limit]: in the order of the list.
func (s *stage) showJobs(l *line) string {
	f := daybook.Filter{Queue: l.text("queue", ""), Kind: l.text("kind", ""),
		State:  daybook.State(l.text("state", "")),
		Reason: daybook.Reason(l.text("reason", "")), Key: l.text("key", ""), Limit: l.number("limit", 0)}
	page, err := s.w.book.Jobs(s.w.ctx, f)
	var out strings.Builder
	for _, j := range page.Items {
		out.WriteString(s.jobLine(j) + "\n")
	}
	if len(page.Items) == 0 {
		out.WriteString("none")
	}
	return s.answer(out.String(), err)
}

func (s *stage) showAttempts(l *line) string {
	attempts, err := s.w.book.Attempts(s.w.ctx, s.job(l.name()))
	var out strings.Builder
	for _, a := range attempts {
		if a.Count > 1 {
			fmt.Fprintf(&out, "%d…%d %s %d times", a.First, a.Generation, a.Outcome, a.Count)
		} else {
			fmt.Fprintf(&out, "%d %s by %s", a.Generation, a.Outcome, a.Worker)
		}
		if a.Why != "" {
			fmt.Fprintf(&out, " (%s)", a.Why)
		}
		if a.Error != nil {
			fmt.Fprintf(&out, " error=%q", a.Error.Text)
		}
		fmt.Fprintf(&out, " %s to %s\n", since(a.ClaimedAt), since(a.EndedAt))
	}
	if len(attempts) == 0 {
		out.WriteString("none")
	}
	return s.answer(out.String(), err)
}

func (s *stage) showTimeline(l *line) string {
	events, err := s.w.book.Timeline(s.w.ctx, s.job(l.name()))
	var out strings.Builder
	for _, e := range events {
		fmt.Fprintf(&out, "%s %s", since(e.At), e.What)
		if e.Generation != 0 {
			fmt.Fprintf(&out, " generation=%d", e.Generation)
		}
		if e.Actor != "" {
			fmt.Fprintf(&out, " by %s", e.Actor)
		}
		if e.Reason != "" {
			fmt.Fprintf(&out, " because %q", e.Reason)
		}
		if e.Detail != "" {
			fmt.Fprintf(&out, ": %s", e.Detail)
		}
		out.WriteByte('\n')
	}
	return s.answer(out.String(), err)
}

func (s *stage) showBacklog(*line) string {
	_, backlog, err := s.w.book.Backlog(s.w.ctx)
	var out strings.Builder
	for _, b := range backlog {
		paused := ""
		if b.Paused {
			paused = " (paused)"
		}
		fmt.Fprintf(&out, "queue %s%s\n", b.Queue, paused)
		fmt.Fprintf(&out, "  came in:   accepted=%d moved_in=%d\n", b.Accepted, b.MovedIn)
		fmt.Fprintf(&out, "  stands in: waiting=%d running=%d set_aside=%d succeeded=%d"+
			" cancelled=%d expired=%d moved_out=%d\n", b.Waiting, b.Running, b.SetAside, b.Succeeded,
			b.Cancelled, b.Expired, b.MovedOut)
		fmt.Fprintf(&out, "  waiting:   eligible=%d later=%d held=%d oldest=%gs\n", b.Eligible, b.Later, b.Held,
			b.Oldest)
		fmt.Fprintf(&out, "  flows:     attempts=%d set_aside=%d cancelled=%d expired=%d revived=%d\n",
			b.Attempts, b.EverSetAside, b.EverCancelled, b.EverExpired, b.Revived)
		for _, reason := range daybook.Reasons {
			if n := b.Reasons[reason]; n > 0 {
				fmt.Fprintf(&out, "  set aside: %s=%d\n", reason, n)
			}
		}
		if b.Open+b.Doubled > 0 {
			fmt.Fprintf(&out, "  effects:   open=%d doubled=%d\n", b.Open, b.Doubled)
		}
	}
	return s.answer(out.String(), err)
}

func (s *stage) showWhy(l *line) string {
	w, err := s.w.book.Why(s.w.ctx, s.job(l.name()))
	out := w.Because + ": " + w.Sentence
	if w.Safe != nil {
		out += fmt.Sprintf("\nsafe to retry: %v, %s", w.Safe.Yes, w.Safe.Grounds)
	}
	return s.answer(out, err)
}

// effects [open]: the ledger.
func (s *stage) showEffects(l *line) string {
	page, err := s.w.book.Effects(s.w.ctx, daybook.EffectFilter{Open: l.flag("open")})
	var out strings.Builder
	for _, e := range page.Items {
		fmt.Fprintf(&out, "%s %s %s generation=%d policy=%s begun=%s", s.names[e.Job], e.Name, e.State,
			e.Generation, e.Policy, since(e.BegunAt))
		if e.SettledBy != "" {
			fmt.Fprintf(&out, " settled by %s", e.SettledBy)
		}
		if len(e.Result) > 0 {
			fmt.Fprintf(&out, " result=%s", e.Result)
		}
		if e.Doubled {
			out.WriteString(" doubled")
		}
		out.WriteByte('\n')
	}
	if len(page.Items) == 0 {
		out.WriteString("none")
	}
	return s.answer(out.String(), err)
}

// late JOB EFFECT: what came too late, and the calls.
func (s *stage) showLate(l *line) string {
	id, name := s.job(l.name()), l.name()
	var e daybook.Effect
	err := s.w.book.Store().Read(s.w.ctx, "a test", func(v daybook.View) error {
		j, _, err := v.Job(s.w.ctx, id)
		if err == nil {
			e, _, err = v.Effect(s.w.ctx, j, name)
		}
		return err
	})
	var out strings.Builder
	for _, c := range e.Calls {
		fmt.Fprintf(&out, "called generation=%d %s at %s\n", c.Generation, s.keyName(id, name, c.Round), since(c.At))
	}
	for _, l := range e.Late {
		fmt.Fprintf(&out, "late generation=%d at %s: %s %s\n", l.Generation, since(l.At), l.Outcome, l.Said)
	}
	return s.answer(out.String(), err)
}

func (s *stage) showKey(l *line) string {
	k, err := s.w.book.Key(s.w.ctx, l.name())
	if err != nil {
		return s.answer("", err)
	}
	out := fmt.Sprintf("job=%s replays=%d", s.names[k.Job], k.Replays)
	if k.EndedAt != 0 {
		out += fmt.Sprintf(" ended=%s state=%s result=%s", since(k.EndedAt), k.State, k.Result)
	}
	return out
}

func (s *stage) showSetting(l *line) string {
	value, err := s.w.book.Setting(s.w.ctx, l.name())
	if err == nil && value == "" {
		return "not set"
	}
	return s.answer(value, err)
}
