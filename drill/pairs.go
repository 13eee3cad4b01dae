package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// A pair is a decision and a move of ownership that meet on one job. Each is made
// while the other one's transaction is open, in both orders, and what comes of it
// must be what comes of one of the two orders without the other in between.

// meeting is one job on which two moves meet.
type meeting struct {
	l       *lane
	queue   string
	job     daybook.Job     // as its owner, or its last owner, has it
	session daybook.Session // which claims, and which owns
	soon    time.Duration   // until a job that is to expire does
}

// move is one of the two.
type move struct {
	name string
	// held makes it in a transaction that stays open behind it, call as programs do.
	held func(ctx context.Context, m *meeting, tx daybook.Tx) error
	call func(ctx context.Context, m *meeting) (said string, err error)
	skip bool // it passes by a row that somebody holds, and would come again
}

// decision is a move of a person or of time, with the job that it is about.
type decision struct {
	move
	ready func(ctx context.Context, m *meeting, o move) error
}

var person = daybook.By{Actor: "drill", Reason: "a decision while an owner writes"}

// owned says whether a move is made by an owner, or a late one; claim isn't.
func owned(o move) bool { return o.name != "claim" }

// decisions in the order of the table.
var decisions = []decision{
	{move: move{name: "cancel", held: heldMove(func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
		return j.Cancel(person, false, now)
	}), call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Cancel(ctx, m.job.ID, person, false)
		return "", err
	}}, ready: func(ctx context.Context, m *meeting, o move) error { return m.want(ctx, owned(o)) }},
	{move: move{name: "revive", held: heldMove(func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
		return j.Revive(person, now)
	}), call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Revive(ctx, m.job.ID, person)
		return "", err
	}}, ready: func(ctx context.Context, m *meeting, o move) error {
		return errors.Join(m.want(ctx, true), m.aside(ctx, false))
	}},
	{move: move{name: "pause-queue", held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		return tx.SaveQueue(ctx, daybook.Queue{Name: m.queue, Paused: true, PausedAt: tx.Now(), PausedBy: person.Actor,
			PausedReason: person.Reason})
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		return "", m.l.book.Pause(ctx, m.queue, person)
	}}, ready: func(ctx context.Context, m *meeting, o move) error { return m.want(ctx, owned(o)) }},
	{move: move{name: "expire", skip: true, held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		m.past(ctx)
		return heldMove(func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
			return j.Expire(now)
		})(ctx, m, tx)
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		m.past(ctx)
		_, err := m.l.book.ExpireWaiting(ctx)
		return "", err
	}}, ready: func(ctx context.Context, m *meeting, o move) error {
		// A job that should run, and on a busy machine expired before, isn't the one.
		for ; ; m.soon *= 2 {
			err := m.enqueue(ctx, daybook.Request{ExpiresAt: time.Now().Add(m.soon)}, owned(o))
			if !refused(err) || m.soon > time.Minute {
				return err
			}
		}
	}},
	{move: move{name: "settle", held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		jobs, err := tx.Lock(ctx, []daybook.ID{m.job.ID})
		if err != nil {
			return err
		}
		effect, _, err := tx.Effect(ctx, jobs[0], pairEffect)
		if err != nil {
			return err
		}
		c, err := jobs[0].Settle(effect, daybook.Verdict{}, person, tx.Now())
		if err != nil {
			return err
		}
		return tx.Save(ctx, []daybook.Change{c})
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Settle(ctx, m.job.ID, pairEffect, daybook.Verdict{}, person)
		return "", err
	}}, ready: func(ctx context.Context, m *meeting, o move) error {
		return errors.Join(m.want(ctx, true), m.aside(ctx, true))
	}},
	{move: move{name: "prune", held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		jobs, err := tx.Lock(ctx, []daybook.ID{m.job.ID})
		if err != nil || jobs[0].ID.IsZero() || !jobs[0].Prunable(tx.Now()) {
			return err
		}
		return tx.Prune(ctx, jobs)
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		return "", m.l.book.Store().Write(ctx, "pruning", func(tx daybook.Tx) error {
			jobs, err := tx.Lock(ctx, []daybook.ID{m.job.ID})
			if err != nil || jobs[0].ID.IsZero() || !jobs[0].Prunable(tx.Now()) {
				return err
			}
			return tx.Prune(ctx, jobs)
		})
	}}, ready: func(ctx context.Context, m *meeting, o move) error {
		if err := m.want(ctx, true); err != nil {
			return err
		}
		_, err := m.l.book.Cancel(ctx, m.job.ID, person, true)
		return err
	}},
}

const pairEffect = "call"

// ownerMoves in the order of the table.
var ownerMoves = []move{
	{name: "claim", skip: true, held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		_, err := tx.Claim(ctx, daybook.Claiming{Session: m.session, Queues: []string{m.queue}, Limit: 1})
		return err
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Claim(ctx, daybook.ClaimRequest{Session: m.session.ID, Queues: []string{m.queue}, Limit: 1})
		return "", err
	}},
	{name: "renew", held: func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		s, _, _, err := tx.Claims(ctx, daybook.ClaimsOf{Session: m.session.ID})
		if err != nil {
			return err
		}
		if s, err = s.Renew(tx.Now(), true); err != nil {
			return err
		}
		_, err = tx.SaveSession(ctx, s)
		return err
	}, call: func(ctx context.Context, m *meeting) (string, error) {
		r, err := m.l.book.Renew(ctx, m.session.ID, []daybook.ClaimRef{refOf(m.job)})
		return fmt.Sprintf("lost %d, to cancel %d", len(r.Lost), len(r.Cancel)), err
	}},
	{name: "complete", held: heldMove(func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
		return j.Complete(ownerOf(m.job), []byte(`"done"`), now)
	}), call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Complete(ctx, m.job.ID, ownerOf(m.job), []byte(`"done"`))
		return "", err
	}},
	{name: "fail", held: heldMove(func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
		return j.Fail(ownerOf(m.job), failure, now)
	}), call: func(ctx context.Context, m *meeting) (string, error) {
		_, err := m.l.book.Fail(ctx, m.job.ID, ownerOf(m.job), failure, &failure.Delay)
		return "", err
	}},
	{name: "lose", held: heldMove(lose), call: func(ctx context.Context, m *meeting) (string, error) {
		return "", m.l.book.Store().Write(ctx, "revoking", func(tx daybook.Tx) error {
			return heldMove(lose)(ctx, m, tx)
		})
	}},
}

var failure = daybook.Failure{Problem: daybook.NewProblem("failed", "", ""), Delay: time.Hour}

// lose revokes a claim as the reconciler does: by generation and session as read.
func lose(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error) {
	return j.Lose(daybook.Loss{Cause: daybook.LossUnlisted, Owner: ownerOf(m.job)}, now)
}

// heldMove is a pure move in an open transaction.
func heldMove(pure func(j daybook.Job, m *meeting, now daybook.Time) (daybook.Change, error)) func(
	context.Context, *meeting, daybook.Tx) error {
	return func(ctx context.Context, m *meeting, tx daybook.Tx) error {
		jobs, err := tx.Lock(ctx, []daybook.ID{m.job.ID})
		if err != nil {
			return err
		}
		if jobs[0].ID.IsZero() {
			return daybook.Fail(daybook.CodeNotFound, "no job %s", m.job.ID)
		}
		c, err := pure(jobs[0], m, tx.Now())
		if err != nil {
			return err
		}
		return tx.Save(ctx, []daybook.Change{c})
	}
}

// want puts the job in, and has the session claim it, if it should run.
func (m *meeting) want(ctx context.Context, running bool) error {
	return m.enqueue(ctx, daybook.Request{}, running)
}

func (m *meeting) enqueue(ctx context.Context, r daybook.Request, running bool) error {
	r.ID, r.Queue, r.Kind = daybook.NewID(), m.queue, "pair"
	if _, err := m.l.book.Enqueue(ctx, r); err != nil {
		return err
	}
	var err error
	if running {
		_, err = m.l.book.Claim(ctx, daybook.ClaimRequest{Session: m.session.ID, Job: r.ID})
	}
	if err != nil {
		return err
	}
	m.job, err = m.l.book.Job(ctx, r.ID)
	return err
}

// aside has the owner's job set aside, with or without an effect that is open;
// the owner, who is late now, keeps its claim in mind.
func (m *meeting) aside(ctx context.Context, open bool) error {
	f := failure
	f.Permanent = true
	if !open {
		_, err := m.l.book.Fail(ctx, m.job.ID, ownerOf(m.job), f, nil)
		return err
	}
	begin := daybook.Begin{Name: pairEffect, Policy: daybook.PolicyAsk}
	if _, err := m.l.book.BeginEffect(ctx, m.job.ID, ownerOf(m.job), begin); err != nil {
		return err
	}
	_, err := m.l.book.Fail(ctx, m.job.ID, ownerOf(m.job), f, nil)
	return err
}

// past waits until the job is past its time.
func (m *meeting) past(ctx context.Context) {
	pause(ctx, time.Until(m.job.ExpiresAt.Std().Add(m.l.held)))
}

// outcome is what two moves came to.
type outcome struct {
	First, Second string // how each was answered
	State         daybook.State
	Reason        daybook.Reason
	Generation    int64
	Failures      int
	Asked         bool
	Attempts      int
}

// pairScene is one pair.
func pairScene(d decision, o move) scene {
	return scene{name: d.name + "-" + o.name,
		what: d.name + " while an owner's " + o.name + " is under way, and the other way",
		run: func(ctx context.Context, l *lane, e *evidence) error {
			e.since = time.Now()
			for _, decides := range []bool{true, false} {
				if err := l.meet(ctx, e, d, o, decides); err != nil {
					return err
				}
			}
			e.injected = e.void == ""
			return nil
		}}
}

// meet has the first move's transaction stay open while the second is made.
func (l *lane) meet(ctx context.Context, e *evidence, d decision, o move, decides bool) error {
	first, second := o, d.move
	if decides {
		first, second = d.move, o
	}
	var orders [2]outcome
	for i, turn := range [][2]move{{first, second}, {second, first}} {
		var err error
		if orders[i], err = l.inTurn(ctx, d, o, turn, i == 1); err != nil {
			return err
		}
	}
	m, err := l.meeting(ctx, d, o, soonest)
	if err != nil {
		return err
	}
	e.job.ID = m.job.ID
	got, overlapped, err := m.both(ctx, first, second)
	if err != nil {
		return err
	}
	if !overlapped {
		e.void = first.name + " was over before " + second.name + " began"
	}
	alike := func(o outcome) bool {
		got := got
		if second.name == "renew" || second.name == "expire" {
			o.Second, got.Second = "", "" // tells more than who came first
		}
		if first.name == "expire" || owned(first) && !decides {
			o.First, got.First = "", "" // a reconciler may have been faster; an owner may have said so before
		}
		return o == got
	}
	if !alike(orders[0]) && !alike(orders[1]) {
		e.say("%s in the middle of %s came to %+v; one after the other they come to %+v or %+v", second.name, first.name,
			got, orders[0], orders[1])
	}
	return m.clear(ctx)
}

// soonest is when a job that is to expire does, on a machine with time to spare.
const soonest = 5 * whileHeld

// inTurn makes two moves one after the other, and says what they came to; swapped
// is that the answers are told the other way round. A claim that a busy machine
// made after its job's time shows nothing of an order, and is made anew.
func (l *lane) inTurn(ctx context.Context, d decision, o move, turn [2]move, swapped bool) (outcome, error) {
	for soon := soonest; ; soon *= 2 {
		m, err := l.meeting(ctx, d, o, soon)
		if err != nil {
			return outcome{}, err
		}
		_, a := turn[0].call(ctx, m)
		late := turn[0].name == "claim" && m.job.ExpiresAt != 0 && time.Now().After(m.job.ExpiresAt.Std())
		said, b := turn[1].call(ctx, m)
		got, err := m.came(ctx, a, b, said)
		if err != nil {
			return got, err
		}
		if swapped {
			got.First, got.Second = answerOf(b, ""), answerOf(a, "")
		}
		if err := m.clear(ctx); err != nil || !late || soon > time.Minute {
			return got, err
		}
	}
}

// meeting makes the job that two moves meet on.
func (l *lane) meeting(ctx context.Context, d decision, o move, soon time.Duration) (*meeting, error) {
	m := &meeting{l: l, queue: "pairs-" + l.queue, soon: soon}
	var err error
	m.session, err = l.book.StartSession(ctx, daybook.SessionRequest{Worker: "pair", Lease: time.Hour})
	if err != nil {
		return nil, err
	}
	return m, d.ready(ctx, m, o)
}

// whileHeld is how long the second move gets to meet the first one's open
// transaction, and the same where that keeps everybody from writing. A shorter one
// makes the drill milder, and never wrong.
const whileHeld, whileHeldFile = 40 * time.Millisecond, 10 * time.Millisecond

// both makes the second move while the first one's transaction is open.
func (m *meeting) both(ctx context.Context, first, second move) (o outcome, overlapped bool, err error) {
	var began sync.Once
	var a, b error
	var said string
	over := make(chan struct{})
	err = m.l.book.Store().Write(ctx, "holding "+first.name, func(tx daybook.Tx) error {
		a = first.held(ctx, m, tx)
		if a != nil && !refused(a) {
			return a
		}
		began.Do(func() {
			overlapped = true
			go func() {
				defer close(over)
				said, b = second.call(ctx, m)
			}()
		})
		select {
		case <-over:
		case <-time.After(m.hold(first)):
		case <-ctx.Done():
		}
		return nil
	})
	if !overlapped {
		return o, false, err
	}
	<-over
	if refused(err) { // at its commit
		a, err = err, nil
	}
	if err == nil && second.skip && b == nil {
		said, b = second.call(ctx, m) // what passed a row by comes again
	}
	if err != nil {
		return o, overlapped, err
	}
	o, err = m.came(ctx, a, b, said)
	return o, overlapped, err
}

// hold is how long the first move's transaction stays open: past the time of a
// job that expires.
func (m *meeting) hold(first move) time.Duration {
	if first.name == "claim" && m.job.ExpiresAt != 0 {
		return 8 * m.l.held
	}
	return m.l.held
}

// refused reports whether a move was answered rather than broken.
func refused(err error) bool {
	switch daybook.CodeOf(err) {
	case daybook.CodeRefused, daybook.CodeFenced, daybook.CodeEffectOpen, daybook.CodeNotFound:
		return true
	}
	return false
}

// answerOf is how a move was answered. That a job isn't there any more, and that
// it is no longer one's own, is the same to an owner.
func answerOf(err error, said string) string {
	switch code := daybook.CodeOf(err); {
	case err == nil:
		return said
	case code == daybook.CodeNotFound || code == daybook.CodeRefused:
		return string(daybook.CodeFenced)
	default:
		return string(code)
	}
}

// came reads what two moves came to.
func (m *meeting) came(ctx context.Context, a, b error, said string) (outcome, error) {
	if err := errors.Join(broken(a), broken(b)); err != nil {
		return outcome{}, err
	}
	o := outcome{First: answerOf(a, ""), Second: answerOf(b, said)}
	if m.job.ExpiresAt != 0 { // what waits again is past its time: a reconciler would end it any moment
		if err := m.expired(ctx); err != nil {
			return o, err
		}
	}
	j, err := m.l.book.Job(ctx, m.job.ID)
	if errors.Is(err, daybook.ErrNotFound) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.State, o.Reason, o.Generation, o.Failures = j.State, j.Reason, j.Generation, j.Failures
	o.Asked = j.CancelRequestedAt != 0
	attempts, err := m.l.book.Attempts(ctx, m.job.ID)
	o.Attempts = len(attempts)
	return o, err
}

// expired has a job that waits past its time expire. One that another reconciler
// has in hand is passed by, and looked at again.
func (m *meeting) expired(ctx context.Context) error {
	m.past(ctx)
	for range 50 {
		_, err := m.l.book.ExpireWaiting(ctx)
		if err != nil {
			return err
		}
		j, err := m.l.book.Job(ctx, m.job.ID)
		if err != nil || j.State != daybook.Waiting {
			return err
		}
		pause(ctx, whileHeld)
	}
	return nil
}

func broken(err error) error {
	if err == nil || refused(err) {
		return nil
	}
	return err
}

// clear leaves nothing that the next meeting could meet.
func (m *meeting) clear(ctx context.Context) error {
	b := m.l.book
	var decided error
	if err := b.Resume(ctx, m.queue, person); err != nil && !refused(err) {
		return err
	}
	j, err := b.Job(ctx, m.job.ID)
	switch {
	case errors.Is(err, daybook.ErrNotFound):
		return b.EndSession(ctx, m.session.ID)
	case err != nil:
		return err
	case j.OpenEffect != "":
		_, decided = b.Settle(ctx, j.ID, pairEffect, daybook.Verdict{Stay: true}, person)
	}
	if decided == nil && !j.State.Final() {
		_, decided = b.Cancel(ctx, j.ID, person, true)
	}
	if decided != nil && !refused(decided) {
		return decided
	}
	return b.EndSession(ctx, m.session.ID)
}
