package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// What callers and workers do in a scenario.

// enqueue NAME [queue kind key in expires priority max_failures on_lost
// timeout id=NAME], with args on the lines below.
func (s *stage) enqueue(l *line) string {
	name := l.name()
	r := s.request(l)
	if like, found := l.given("id"); found {
		if _, known := s.jobs[like]; !known {
			s.jobs[like] = daybook.NewID()
			s.called(like, s.jobs[like])
		}
		r.ID = s.jobs[like]
	}
	receipt, err := s.w.book.Enqueue(s.w.ctx, r)
	if err != nil {
		return s.answer("", err)
	}
	s.called(name, receipt.ID)
	s.jobs[name] = receipt.ID
	if receipt.Replayed {
		return "replay of " + s.names[receipt.ID]
	}
	return "accepted"
}

func (s *stage) request(l *line) daybook.Request {
	r := daybook.Request{Queue: l.text("queue", "q"), Kind: l.text("kind", "mail"), Key: l.text("key", ""),
		In: l.duration("in"), Priority: l.number("priority", 0), MaxFailures: l.number("max_failures", 0),
		OnLost: daybook.OnLost(l.text("on_lost", "")), Timeout: l.duration("timeout")}
	if d := l.duration("expires"); d != 0 {
		r.ExpiresAt = s.w.clock.now().Add(d)
	}
	if l.td.Input != "" {
		r.Args = json.RawMessage(l.td.Input)
	}
	return r
}

// hold JOB by=WHO: what a cutover does, so that claims don't see the job.
func (s *stage) hold(l *line) string {
	id, by := s.job(l.name()), l.text("by", "cutover")
	s.w.hold(id, by)
	return "held by " + by
}

// import NAME id=OLD [held=WHO] [died]: a job that moves in from another system.
func (s *stage) imported(l *line) string {
	name := l.name()
	a := daybook.Arrival{HeldBy: l.text("held", "")}
	a.Origin = daybook.Origin{System: "old", ID: l.text("id", name)}
	if a.OwnerDied = l.flag("died"); a.OwnerDied {
		a.Aside = daybook.ReasonEffectOpen
	}
	n, err := s.request(l).Prepare()
	if err != nil {
		return s.answer("", err)
	}
	var j daybook.Job
	err = s.w.try(func(tx daybook.Tx) error {
		c := n.Import(a, tx.Now())
		j = c.Now
		return tx.Save(s.w.ctx, []daybook.Change{c})
	})
	if err != nil {
		return string(daybook.CodeOf(err)) // the words are the store's own
	}
	s.called(name, n.Job.ID)
	s.jobs[name] = n.Job.ID
	return s.jobLine(j)
}

// session NAME [worker lease starts].
func (s *stage) session(l *line) string {
	name := l.name()
	opened, err := s.start(l, name)
	return s.answer("lease until "+since(opened.ExpiresAt), err)
}

func (s *stage) start(l *line, name string) (daybook.Session, error) {
	r := daybook.SessionRequest{Worker: l.text("worker", name), Lease: l.duration("lease"), Starts: l.flag("starts")}
	if queue := l.text("queue", ""); queue != "" {
		r.Queues = []string{queue}
	}
	opened, err := s.w.book.StartSession(s.w.ctx, r)
	if err == nil {
		s.sessions[name] = opened.ID
		s.called(name, opened.ID)
	}
	return opened, err
}

// of finds a session by name; the first mention of a name starts one.
func (s *stage) of(l *line, name string) daybook.ID {
	if _, found := s.sessions[name]; !found {
		if _, err := s.start(l, name); err != nil {
			l.fail("session %s: %v", name, err)
		}
	}
	return s.sessions[name]
}

func (s *stage) endSession(l *line) string {
	return s.answer("ended", s.w.book.EndSession(s.w.ctx, s.of(l, l.name())))
}

func (s *stage) quiet(l *line) string {
	q, err := s.w.book.Quiet(s.w.ctx, l.name(), daybook.By{Actor: "ada"})
	return s.answer(fmt.Sprintf("asked %d", q.Sessions), err)
}

func (s *stage) listSessions(l *line) string {
	sessions, err := s.w.book.Sessions(s.w.ctx, daybook.SessionFilter{WithEnded: l.flag("ended")})
	var out strings.Builder
	for _, v := range sessions {
		fmt.Fprintf(&out, "%s running=%d lease=%s", s.names[v.ID], v.Running, since(v.ExpiresAt))
		if v.EndedAt != 0 {
			fmt.Fprintf(&out, " ended=%s", since(v.EndedAt))
		}
		out.WriteByte('\n')
	}
	return s.answer(out.String(), err)
}

// claim SESSION [limit queue=a,b kind=a,b call=NAME oldest job=NAME].
func (s *stage) claim(l *line) string {
	name := l.name()
	r := daybook.ClaimRequest{Session: s.of(l, name), Limit: l.number("limit", 1), Oldest: l.flag("oldest")}
	r.Queues = strings.Split(l.text("queue", "q"), ",")
	r.Kinds, _ = l.list("kind")
	if job, found := l.given("job"); found {
		r.Job, r.Queues = s.job(job), nil
	}
	if call, found := l.given("call"); found {
		if _, known := s.calls[call]; !known {
			s.calls[call] = daybook.NewID()
		}
		r.Call = s.calls[call]
	}
	got, err := s.w.book.Claim(s.w.ctx, r)
	if err != nil {
		return s.answer("", err)
	}
	var out strings.Builder
	for _, j := range got.Jobs {
		s.granted[[2]string{name, s.names[j.ID]}] = j.Generation
		fmt.Fprintf(&out, "%s generation=%d\n", s.names[j.ID], j.Generation)
	}
	if len(got.Jobs) == 0 {
		return "nothing"
	}
	return out.String()
}

// claims are the claims of a session that a command names.
func (s *stage) claims(session string, names []string) []daybook.ClaimRef {
	refs := make([]daybook.ClaimRef, len(names))
	for i, name := range names {
		id := s.job(name)
		refs[i] = daybook.ClaimRef{Job: id, Generation: s.granted[[2]string{session, s.names[id]}]}
	}
	return refs
}

func (s *stage) refs(word string, refs []daybook.ClaimRef) string {
	names := make([]string, len(refs))
	for i, r := range refs {
		names[i] = s.names[r.Job]
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return " " + word + "=" + strings.Join(names, ",")
}

// renew SESSION [listed=a,b].
func (s *stage) renew(l *line) string {
	name := l.name()
	var claims []daybook.ClaimRef
	if names, found := l.list("listed"); found {
		claims = s.claims(name, names)
	}
	got, err := s.w.book.Renew(s.w.ctx, s.of(l, name), claims)
	out := "lease until " + since(got.LeaseUntil) + s.refs("lost", got.Lost) + s.refs("cancel", got.Cancel)
	if got.Quiet {
		out += " quiet"
	}
	return s.answer(out, err)
}

func (s *stage) started(l *line) string {
	name := l.name()
	lost, err := s.w.book.Started(s.w.ctx, s.of(l, name), s.claims(name, l.names()))
	return s.answer("recorded"+s.refs("lost", lost), err)
}

// owned reads SESSION JOB [generation=N], by default the one it was given.
func (s *stage) owned(l *line) (daybook.ID, daybook.Owner) {
	session, job := l.name(), l.name()
	id := s.job(job)
	generation := l.number("generation", int(s.granted[[2]string{session, s.names[id]}]))
	return id, daybook.Owner{Session: s.of(l, session), Generation: int64(generation)}
}

func (s *stage) progress(l *line) string {
	id, o := s.owned(l)
	return s.answer("kept", s.w.book.Progress(s.w.ctx, id, o, []byte(l.td.Input)))
}

func (s *stage) ended(a daybook.Answer, err error) string {
	if err == nil && a.Already {
		return "already, it is " + string(a.State)
	}
	return s.answer(string(a.State), err)
}

// complete SESSION JOB, with the result on the lines below.
func (s *stage) complete(l *line) string {
	id, o := s.owned(l)
	return s.ended(s.w.book.Complete(s.w.ctx, id, o, json.RawMessage(l.td.Input)))
}

// fail SESSION JOB [error retry_in permanent].
func (s *stage) failed(l *line) string {
	id, o := s.owned(l)
	retry := l.duration("retry_in")
	problem := daybook.NewProblem(l.text("error", "boom"), "", "")
	f := daybook.Failure{Permanent: l.flag("permanent"), Problem: problem}
	return s.ended(s.w.book.Fail(s.w.ctx, id, o, f, &retry))
}

// release SESSION JOB [in].
func (s *stage) release(l *line) string {
	id, o := s.owned(l)
	return s.ended(s.w.book.Release(s.w.ctx, id, o, l.duration("in")))
}

// snooze SESSION JOB times=N in=D: claims and releases it so often.
func (s *stage) snooze(l *line) string {
	session, id := s.of(l, l.name()), s.job(l.name())
	in, times := l.duration("in"), l.number("times", 1)
	for range times {
		if _, err := s.w.book.Renew(s.w.ctx, session, nil); err != nil {
			return s.answer("", err)
		}
		got, err := s.w.book.Claim(s.w.ctx, daybook.ClaimRequest{Session: session, Job: id})
		if err != nil {
			return s.answer("", err)
		}
		a, err := s.w.book.Release(s.w.ctx, id, owner(got.Jobs[0]), in)
		if err != nil || a.State != daybook.Waiting {
			return s.ended(a, err)
		}
		s.w.clock.advance(in)
	}
	return fmt.Sprintf("%d times, each for %s", times, in.Round(time.Second))
}
