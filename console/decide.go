package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/daybookdev/daybook"
)

// Every change is a page of its own, which says what it would do and asks why, and
// a form on it that does it. So it works without JavaScript, and nobody decides by
// a slip of the finger.

// decidePage asks for a decision.
type decidePage struct {
	Head   string   // what would be done
	Button string   // the words of the button
	Lead   string   // what it does, in a sentence
	Facts  []string // what is known that speaks for or against it
	Grave  bool     // it ends something
	No     string   // why it can't be done now; then there is no form
	Action string   // where the form goes
	Back   string
	Error  string // why it was refused
	Reason string // as it was typed

	Force  bool        // offers to revoke a running claim at once
	Unsafe bool        // offers to revive what happened
	Settle *settleForm // asks what an effect did
	Fields [][2]string // hidden ones
}

func (p decidePage) title() string { return p.Head }

// settleForm is what a person says of an open effect.
type settleForm struct {
	Effect     effectRow
	Happened   bool
	Absent     bool
	Result     string
	Stay       bool
	Generation int64
}

// by is who decides, and why. A decision without a reason is none.
func (c *Console) by(a *ask) (daybook.By, error) {
	by := daybook.By{Actor: a.who.Name, Reason: strings.TrimSpace(a.r.PostFormValue("reason"))}
	if by.Reason == "" {
		return by, daybook.Invalid("reason", "is missing; say why, for whoever reads the timeline")
	}
	by.Reason = strings.Join(strings.Fields(by.Reason), " ") // one line
	return by, daybook.CheckBy(by)
}

// decide asks: the page of a decision, to those who may decide.
func (c *Console) decide(a *ask, status int, p decidePage) error {
	if !a.who.Operate && p.No == "" {
		p.No = "Only a token with scope operate may decide; this one may look."
	}
	a.page = bare("decide", p.Head)
	return c.show(a, status, p)
}

// decided tells the log and everybody who looks, and goes on.
func (c *Console) decided(a *ask, what string, by daybook.By, to string) error {
	c.log.Info("decided in the console", "what", what, "actor", by.Actor, "reason", by.Reason)
	c.forget()
	http.Redirect(a.w, a.r, to, http.StatusSeeOther)
	return nil
}

// again shows the page of a decision that was refused, with what was typed.
func (c *Console) again(a *ask, p decidePage, err error) error {
	p.Error, p.Reason = sayable(err), a.r.PostFormValue("reason")
	return c.decide(a, statusOf(err), p)
}

func (c *Console) jobOf(a *ask) (story, error) {
	id, err := daybook.ParseID(a.r.PathValue("id"))
	if err != nil {
		return story{}, daybook.Fail(daybook.CodeNotFound, "a job's id is a UUID; this isn't one")
	}
	return c.story(a.ctx, id)
}

// askMove asks about one job; or it answers with a document of the job's.
func (c *Console) askMove(a *ask) error {
	switch what := a.r.PathValue("move"); what {
	case "args", "result":
		return c.raw(a, what)
	case "cancel", "revive", "unhold":
		s, err := c.jobOf(a)
		if err != nil {
			return err
		}
		return c.decide(a, http.StatusOK, c.movePage(s, what))
	}
	return daybook.Fail(daybook.CodeNotFound, "there is no such page")
}

// movePage says what a decision about a job would do.
func (c *Console) movePage(s story, move string) decidePage {
	j := s.Job
	at := "/job/" + j.ID.String()
	p := decidePage{Action: c.url(at + "/" + move), Back: c.url(at), Facts: []string{s.Why.Fact}}
	switch move {
	case "cancel":
		p.Head, p.Button, p.Grave = "Cancel job "+j.ID.String(), "Cancel the job", true
		p.Lead = "It ends now and never runs; its args and history stay. A cancelled job can be revived."
		if j.State == daybook.Running {
			p.Lead, p.Force = "Its owner is asked to stop. What it does outside until then has happened.", true
			p.Button = "Ask it to stop"
		}
	case "revive":
		p.Head, p.Button = "Revive job "+j.ID.String(), "Revive the job"
		p.Lead = "It waits to run again: the same job, its failures forgiven, its history kept."
		safe := daybook.SafeToRetry(j, s.History.Effects, s.Now)
		word := "Not safe to retry: "
		if safe.Yes {
			word = "Safe to retry: "
		}
		p.Facts = append(p.Facts, word+safe.Grounds+".")
		p.Unsafe = j.Happened
		if j.OpenEffect != "" {
			p.No = "Effect " + j.OpenEffect + " is open. Settle it first: then it goes on by itself."
		}
	case "unhold":
		p.Head, p.Button = "Let job "+j.ID.String()+" go", "Let it go"
		p.Lead = "Claims see it again."
		if j.HeldBy != "" {
			p.Lead += " It is held by " + safe(j.HeldBy) + "."
		}
	}
	for _, m := range movesOf(j) {
		if m.Move == move {
			return p
		}
	}
	p.No = fmt.Sprintf("The job is %s; this can't be done to it now.", words(j.State))
	return p
}

func (c *Console) doMove(a *ask) error {
	move := a.r.PathValue("move")
	s, err := c.jobOf(a)
	if err != nil {
		return err
	}
	by, err := c.by(a)
	if err != nil {
		return c.again(a, c.movePage(s, move), err)
	}
	id, done := s.Job.ID, move
	switch move {
	case "cancel":
		var j daybook.Job
		j, err = c.book.Cancel(a.ctx, id, by, a.r.PostFormValue("force") != "")
		if j.State == daybook.Running {
			done = "asked"
		}
	case "revive":
		if a.r.PostFormValue("unsafe") != "" {
			_, err = c.book.ReviveUnsafe(a.ctx, id, by)
		} else {
			_, err = c.book.Revive(a.ctx, id, by)
		}
	case "unhold":
		_, err = c.book.Unhold(a.ctx, id, by)
	default:
		return daybook.Fail(daybook.CodeNotFound, "there is no such page")
	}
	if err != nil {
		return c.again(a, c.movePage(s, move), err)
	}
	return c.decided(a, move+" job "+id.String(), by, c.url("/job/"+id.String(), "done", done))
}

// settlePage asks what an open effect did.
func (c *Console) settlePage(a *ask, s story) (decidePage, error) {
	name := a.r.PathValue("effect")
	at := "/job/" + s.Job.ID.String()
	p := decidePage{Head: "Settle effect " + name, Button: "Settle it", Back: c.url(at),
		Action: c.url(at + "/settle/" + name), Facts: []string{"Job " + s.Job.ID.String() + ": " + s.Why.Fact},
		Lead: "Say what you found out at the destination. It is recorded as the truth: a job that waited only for this " +
			"goes on, and does not repeat what happened."}
	for _, e := range s.History.Effects {
		if e.Name != name {
			continue
		}
		p.Settle = &settleForm{Effect: c.effectSeen(e, s.Job, a.who), Generation: e.Generation}
		switch {
		case e.State != daybook.EffectIsOpen:
			p.No = fmt.Sprintf("Effect %s is %s already.", e.Name, e.State)
		case s.Job.State == daybook.Running:
			p.No = "The job is running; its owner decides about the effect."
		}
		return p, nil
	}
	return p, daybook.Fail(daybook.CodeNotFound, "the job has no such effect")
}

func (c *Console) askSettle(a *ask) error {
	s, err := c.jobOf(a)
	if err != nil {
		return err
	}
	p, err := c.settlePage(a, s)
	if err != nil {
		return err
	}
	return c.decide(a, http.StatusOK, p)
}

func (c *Console) doSettle(a *ask) error {
	s, err := c.jobOf(a)
	if err != nil {
		return err
	}
	p, err := c.settlePage(a, s)
	if err != nil {
		return err
	}
	form, outcome := a.r.PostForm, a.r.PostForm.Get("outcome")
	f := p.Settle
	f.Happened, f.Absent, f.Result, f.Stay = outcome == "happened", outcome == "absent", form.Get("result"),
		form.Get("stay") != ""
	by, err := c.by(a)
	v := daybook.Verdict{Happened: f.Happened, Stay: f.Stay}
	if _, scan := fmt.Sscan(form.Get("generation"), &v.Generation); scan != nil && err == nil {
		err = daybook.Invalid("generation", "is missing; load the page again")
	}
	if !f.Happened && !f.Absent && err == nil {
		err = daybook.Invalid("outcome", "is missing; say whether it happened")
	}
	if result := strings.TrimSpace(f.Result); result != "" && err == nil {
		if v.Result = json.RawMessage(result); !f.Happened {
			err = daybook.Invalid("result", "belongs to what happened; leave it empty")
		}
	}
	if err == nil {
		_, err = c.book.Settle(a.ctx, s.Job.ID, f.Effect.Name, v, by)
	}
	if err != nil {
		return c.again(a, p, err)
	}
	return c.decided(a, "settle effect "+f.Effect.Name+" of job "+s.Job.ID.String(), by,
		c.url("/job/"+s.Job.ID.String(), "done", "settle"))
}

// queuePage asks about a queue.
func (c *Console) queuePage(a *ask) (p decidePage, queue, move string, err error) {
	queue, move = a.r.PathValue("queue"), a.r.PathValue("move")
	if err := daybook.CheckName("queue", queue); err != nil || move != "pause" && move != "resume" {
		return p, queue, move, daybook.Fail(daybook.CodeNotFound, "there is no such page")
	}
	p = decidePage{Head: "Pause queue " + queue, Button: "Pause the queue", Back: c.url("/queues"),
		Action: c.url("/queue/" + queue + "/" + move),
		Lead: "Nothing is claimed from it any more, until somebody resumes it. What runs runs on, and what comes in " +
			"is accepted and waits."}
	if move == "resume" {
		p.Head, p.Button, p.Lead = "Resume queue "+queue, "Resume the queue", "Workers take from it again, at once."
	}
	now, known, err := c.queueNow(a.ctx, queue)
	switch {
	case err != nil:
		return p, queue, move, err
	case !known:
		p.Facts = append(p.Facts, "The book knows no queue of this name; a job that comes later would be in it.")
	case now.Paused:
		p.Facts = append(p.Facts, fmt.Sprintf("It is paused since %s, by %s%s.", now.PausedAt, safe(now.PausedBy),
			because(now.PausedReason)))
	}
	if now.Paused == (move == "pause") {
		p.No = map[bool]string{true: "It is paused already.", false: "It isn’t paused."}[now.Paused]
	}
	b, err := c.backlog(a.ctx)
	for _, q := range b.Queues {
		if q.Queue == queue {
			p.Facts = append(p.Facts, fmt.Sprintf("%s ready, %s later, %s running.", num(q.Eligible), num(q.Later),
				num(q.Running)))
		}
	}
	return p, queue, move, err
}

// queueNow reads a queue as it is at this moment, and not as others saw it a moment ago.
func (c *Console) queueNow(ctx context.Context, name string) (q daybook.Queue, known bool, err error) {
	err = c.book.Store().Read(ctx, "reading a queue", func(v daybook.View) (err error) {
		q, known, err = v.Queue(ctx, name)
		return err
	})
	return q, known, err
}

func (c *Console) askQueue(a *ask) error {
	p, _, _, err := c.queuePage(a)
	if err != nil {
		return err
	}
	return c.decide(a, http.StatusOK, p)
}

func (c *Console) doQueue(a *ask) error {
	p, queue, move, err := c.queuePage(a)
	if err != nil {
		return err
	}
	by, err := c.by(a)
	if err == nil && p.No != "" { // the book takes it as done, and would keep neither this name nor this reason
		err = daybook.Fail(daybook.CodeRefused, "nothing was done, and the reason is not recorded")
	}
	if err != nil {
		return c.again(a, p, err)
	}
	do := map[string]func(context.Context, string, daybook.By) error{"pause": c.book.Pause, "resume": c.book.Resume}[move]
	if err := do(a.ctx, queue, by); err != nil {
		return c.again(a, p, err)
	}
	return c.decided(a, move+" queue "+queue, by, c.url("/queues", "done", move, "queue", queue))
}

// quietPage asks about a worker. Its name may be any text, so it travels as a
// value and not in a path.
func (c *Console) quietPage(a *ask) decidePage {
	name := a.r.FormValue("worker")
	p := decidePage{Head: "Quiet worker " + cut(80, name), Button: "Ask it to claim no more", Back: c.url("/workers"),
		Action: c.url("/quiet"), Fields: [][2]string{{"worker", name}},
		Lead: "Every live session of this worker is asked to claim no more; what runs runs on. The book keeps no record of " +
			"who asked; this program's log does. A restarted worker claims again."}
	if name == "" {
		p.No = "No worker is named. Choose one on the page of workers."
	}
	return p
}

func (c *Console) askQuiet(a *ask) error { return c.decide(a, http.StatusOK, c.quietPage(a)) }

func (c *Console) doQuiet(a *ask) error {
	by, err := c.by(a)
	name := a.r.PostFormValue("worker")
	if err == nil && name == "" {
		err = daybook.Invalid("worker", "is missing") // an empty filter would mean all of them
	}
	if err == nil {
		_, err = c.book.Quiet(a.ctx, name, by)
	}
	if err != nil {
		return c.again(a, c.quietPage(a), err)
	}
	return c.decided(a, "quiet worker "+name, by, c.url("/workers", "done", "quiet"))
}
