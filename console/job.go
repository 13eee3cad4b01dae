package console

import (
	"context"
	"html/template"
	"net/http"
	"slices"

	"github.com/daybookdev/daybook"
)

// jobPage is all that a person needs to know of one job.
type jobPage struct {
	Job      daybook.Job
	Now      daybook.Time
	Why      daybook.Why
	Timeline []daybook.Event // the newest
	Before   int             // older lines that aren't shown
	Attempts []daybook.Attempt
	Older    int // attempts that aren't shown
	Tries    int64
	Effects  []effectRow
	Key      *daybook.KeyRecord
	Picture  template.HTML
	Docs     []document
	Moves    []moveLink
	Said     string // what was just done
	Settle   []string
}

func (p jobPage) title() string { return p.Job.Kind + " " + p.Job.ID.String()[:8] }

// moveLink is a decision that the job's state allows.
type moveLink struct {
	Move  string
	Words string
	Main  bool
}

// effectRow is an effect with what a page shows of it.
type effectRow struct {
	daybook.Effect
	Kind, Queue string
	State2      daybook.State // of its job
	Doc         document
}

const (
	// timelineShown and attemptsShown bound what one page shows of a long life.
	timelineShown, attemptsShown = 300, 24
)

// story is a job with all that is known of it, in one snapshot.
type story struct {
	Job      daybook.Job
	Now      daybook.Time
	Why      daybook.Why
	History  daybook.History
	Timeline []daybook.Event
}

// story reads it, with everybody who looks at this job now.
func (c *Console) story(ctx context.Context, id daybook.ID) (story, error) {
	return see(ctx, c, "job "+id.String(), func(ctx context.Context) (s story, err error) {
		err = c.book.Store().Read(ctx, "reading a job", func(v daybook.View) error {
			s.Now = v.Now()
			found := false
			if s.Job, found, err = v.Job(ctx, id); err != nil {
				return err
			}
			if !found {
				return daybook.Fail(daybook.CodeNotFound, "no job %s; finished jobs are kept for a while only", id)
			}
			queue, _, err := v.Queue(ctx, s.Job.Queue)
			if err != nil {
				return err
			}
			sessions, err := v.Sessions(ctx, daybook.SessionFilter{})
			if err != nil {
				return err
			}
			live := slices.DeleteFunc(sessions, func(x daybook.Session) bool { return x.ExpiresAt <= s.Now })
			if s.History, err = v.History(ctx, s.Job); err != nil {
				return err
			}
			s.Why = daybook.WhyOf(s.Job, queue, live, s.History.Effects, s.Now)
			s.Timeline = daybook.TimelineOf(s.Job, s.History)
			return nil
		})
		return s, err
	})
}

func (c *Console) loadJob(a *ask) (any, error) {
	id, err := daybook.ParseID(a.r.PathValue("id"))
	if err != nil {
		return nil, daybook.Fail(daybook.CodeNotFound, "a job's id is a UUID; this isn't one")
	}
	s, err := c.story(a.ctx, id)
	if err != nil {
		return nil, err
	}
	s = c.seen(s, a.who)
	hide := s.Job.Hidden
	p := jobPage{Job: s.Job, Now: s.Now, Why: s.Why, Timeline: s.Timeline, Key: s.History.Key, Moves: movesOf(s.Job),
		Said: saidOf(a.query.Get("done"), s)}
	if p.Before = max(0, len(p.Timeline)-timelineShown); p.Before > 0 {
		p.Timeline = p.Timeline[p.Before:]
	}
	for _, at := range s.History.Attempts {
		p.Tries += at.Attempts()
	}
	p.Picture = life(s.Job, s.History.Attempts, s.Timeline, s.Now)
	p.Attempts = slices.Clone(s.History.Attempts)
	slices.Reverse(p.Attempts) // the newest first
	if p.Older = max(0, len(p.Attempts)-attemptsShown); p.Older > 0 {
		p.Attempts = p.Attempts[:attemptsShown]
	}
	for _, e := range s.History.Effects {
		p.Effects = append(p.Effects, c.effectSeen(e, s.Job, a.who))
		if e.State == daybook.EffectIsOpen && s.Job.State != daybook.Running {
			p.Settle = append(p.Settle, e.Name)
		}
	}
	path := "/job/" + id.String() + "/"
	p.Docs = append(p.Docs, documentOf("args", s.Job.Args, path+"args", hide))
	if s.Job.Result != nil {
		p.Docs = append(p.Docs, documentOf("result", s.Job.Result, path+"result", hide))
	}
	if s.Job.Progress != nil {
		p.Docs = append(p.Docs, documentOf("progress", s.Job.Progress, "", hide))
	}
	return p, nil
}

// movesOf lists the decisions that a job's state allows. The book decides.
func movesOf(j daybook.Job) (all []moveLink) {
	switch j.State {
	case daybook.SetAside, daybook.Cancelled, daybook.Expired:
		all = append(all, moveLink{"revive", "Revive", j.OpenEffect == ""})
	}
	if j.State == daybook.Waiting && j.HeldBy != "" {
		all = append(all, moveLink{"unhold", "Let go", true})
	}
	switch j.State {
	case daybook.Waiting, daybook.SetAside, daybook.Running:
		all = append(all, moveLink{"cancel", "Cancel", false})
	}
	return all
}

// saidOf is what was just done to a job, while it still holds: the address that says it
// can be loaded again, long after somebody else decided otherwise.
func saidOf(done string, s story) string {
	j := s.Job
	ended := slices.Contains([]daybook.State{daybook.SetAside, daybook.Cancelled, daybook.Expired}, j.State)
	holds := map[string]bool{
		"revive": !ended,
		"cancel": j.State == daybook.Cancelled,
		"asked":  j.State == daybook.Running && j.CancelRequestedAt != 0,
		"unhold": j.State == daybook.Waiting && j.HeldBy == "",
		"settle": slices.ContainsFunc(s.History.Effects, func(e daybook.Effect) bool { return e.SettledBy != "" }),
	}
	if !holds[done] {
		return ""
	}
	return said(done)
}

// said is what was just done, in words: only what is listed here can be said.
func said(done string) string {
	return map[string]string{
		"revive":  "Revived: sent back to run again.",
		"cancel":  "Cancelled.",
		"asked":   "Asked to cancel: its owner is told when it renews next.",
		"unhold":  "Let go: claims see it again.",
		"settle":  "Settled. What you said is in the timeline.",
		"quiet":   "Asked to claim no more. It learns so when it renews next.",
		"check":   "The check runs.",
		"running": "A check runs already; one at a time.",
	}[done]
}

// raw answers with args or result, byte for byte.
func (c *Console) raw(a *ask, what string) error {
	id, err := daybook.ParseID(a.r.PathValue("id"))
	if err != nil {
		return daybook.Fail(daybook.CodeNotFound, "a job's id is a UUID; this isn't one")
	}
	j, err := c.book.Job(a.ctx, id)
	if err != nil {
		return err
	}
	if c.sight(a.who).Hides(j.Kind) {
		return daybook.Fail(codeForbidden, "what jobs of this kind hold is shown to tokens with scope sensitive only")
	}
	doc := j.Args
	if what == "result" {
		doc = j.Result
	}
	h := a.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8") // a browser must not read it as anything else
	h.Set("Content-Disposition", `attachment; filename="`+id.String()+"-"+what+`.json"`)
	if a.r.Method != http.MethodHead {
		_, _ = a.w.Write(doc)
	}
	return nil
}
