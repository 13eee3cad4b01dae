package storetest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/daybookdev/daybook"
)

var faultyRequests = []operation{
	{name: "enqueue with a key", prepare: enqueueWith(func(r *daybook.Request) {
		r.Key = daybook.NewID().String()
	})},
	{name: "enqueue with an id", prepare: enqueueWith(func(r *daybook.Request) { r.ID = daybook.NewID() })},
	{name: "enqueue", once: true, prepare: enqueueWith(func(*daybook.Request) {})},
	{name: "enqueue with a standing call", once: true, prepare: enqueueStanding},
	{name: "enqueue many", prepare: enqueueBatch},
	{name: "replay", prepare: replay},
	{name: "read", prepare: readAll},
}

func enqueueWith(dress func(*daybook.Request)) func(w *world) (func() error, func()) {
	return func(w *world) (func() error, func()) {
		r := request(daybook.Request{Queue: w.fresh(), Args: json.RawMessage(`{"n":1}`)})
		dress(&r)
		var receipt daybook.Receipt
		do := func() (err error) {
			receipt, err = w.book.Enqueue(w.ctx, r)
			return err
		}
		return do, func() {
			w.ended(receipt.ID, daybook.Waiting, 0)
			if r.Key != "" {
				k, err := w.book.Key(w.ctx, r.Key)
				w.ok(err)
				same(w, "the key's job", k.Job, receipt.ID)
			}
			if !r.ID.IsZero() {
				same(w, "id", receipt.ID, r.ID)
			}
			if r.Key == "" && r.ID.IsZero() {
				same(w, "replayed", receipt.Replayed, false)
			}
		}
	}
}

// enqueueStanding has an enqueue make a worker's claim call, and who left the call
// repeat it where the answer says no more.
func enqueueStanding(w *world) (func() error, func()) {
	queue := w.fresh()
	call := daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{queue}, Limit: 9, Call: daybook.NewID()}
	var receipt daybook.Receipt
	var claimed daybook.Claimed
	do := func() (err error) {
		standing := w.book.Stand(call, func() {})
		if receipt, err = w.book.Enqueue(w.ctx, request(daybook.Request{Queue: queue})); err != nil {
			return err
		}
		stood := <-standing.Answer()
		if claimed = stood.Claimed; stood.Made {
			return nil
		}
		if stood.Err == nil { // the call wasn't made
			call.Call = daybook.NewID()
		}
		claimed, err = w.book.Claim(w.ctx, call)
		return err
	}
	return do, func() {
		same(w, "replayed", receipt.Replayed, false)
		same(w, "claims", len(claimed.Jobs), 1)
		same(w, "claimed", claimed.Jobs[0].ID, receipt.ID)
		same(w, "generation", w.stands(receipt.ID, daybook.Running).Generation, 1)
		w.complete(claimed.Jobs[0])
		w.ended(receipt.ID, daybook.Succeeded, 1)
	}
}

func enqueueBatch(w *world) (func() error, func()) {
	queue := w.fresh()
	var requests []daybook.Request
	for range 3 {
		requests = append(requests, request(daybook.Request{Queue: queue, Key: daybook.NewID().String()}),
			request(daybook.Request{Queue: queue, ID: daybook.NewID()}))
	}
	var first, last []daybook.Receipt
	do := func() (err error) {
		last, err = w.book.EnqueueMany(w.ctx, requests)
		if first == nil {
			first = last
		}
		return err
	}
	return do, func() {
		c := w.counted(queue)
		same(w, "accepted", c.Accepted, 6)
		same(w, "waiting", c.Waiting, 6)
		for i, r := range requests {
			w.stands(last[i].ID, daybook.Waiting)
			if r.Key != "" {
				k, err := w.book.Key(w.ctx, r.Key)
				w.ok(err)
				same(w, "the key's job", k.Job, last[i].ID)
			}
		}
	}
}

func replay(w *world) (func() error, func()) {
	r := request(daybook.Request{Queue: w.fresh(), Key: daybook.NewID().String()})
	id := w.enqueue(r)
	var receipt daybook.Receipt
	do := func() (err error) {
		receipt, err = w.book.Enqueue(w.ctx, r)
		return err
	}
	return do, func() {
		same(w, "receipt", receipt, daybook.Receipt{ID: id, Replayed: true})
		w.ended(id, daybook.Waiting, 0)
	}
}

// readAll reads what people read; it changes nothing.
func readAll(w *world) (func() error, func()) {
	j := w.running(daybook.Request{Key: daybook.NewID().String()})
	w.complete(j)
	var lines int
	do := func() error {
		events, err := w.book.Timeline(w.ctx, j.ID)
		lines = len(events)
		_, e1 := w.book.Job(w.ctx, j.ID)
		_, e2 := w.book.Jobs(w.ctx, daybook.Filter{Queue: j.Queue, Limit: 1})
		_, _, e3 := w.book.Backlog(w.ctx)
		_, e4 := w.book.Why(w.ctx, j.ID)
		for _, e := range []error{e1, e2, e3, e4} {
			if err == nil {
				err = e
			}
		}
		return err
	}
	return do, func() { same(w, "lines of the timeline", lines, 3) }
}

var faultyClaims = []operation{
	{name: "start a session", once: true, prepare: func(w *world) (func() error, func()) {
		name := daybook.NewID().String()
		do := func() error {
			_, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Worker: name})
			return err
		}
		return do, func() {
			sessions, err := w.book.Sessions(w.ctx, daybook.SessionFilter{Worker: name})
			w.ok(err)
			same(w, "sessions", len(sessions), 1)
		}
	}},
	{name: "claim", prepare: claimBatch},
	{name: "claim a job", prepare: claimNamed},
	{name: "renew", prepare: renewListed},
	{name: "started", prepare: func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{})
		do := func() error {
			lost, err := w.book.Started(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
			same(w, "lost", len(lost), 0)
			return err
		}
		return do, func() { same(w, "start", w.locked(j.ID).StartedAt, w.clock.time()) }
	}},
	{name: "progress", prepare: func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{})
		do := func() error { return w.book.Progress(w.ctx, j.ID, owner(j), []byte(`7`)) }
		return do, func() { same(w, "progress", string(w.job(j.ID).Progress), "7") }
	}},
	{name: "end a session", prepare: func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{})
		do := func() error { return w.book.EndSession(w.ctx, j.Session) }
		return do, func() {
			w.ended(j.ID, daybook.Waiting, 1)
			same(w, "live", w.sessionRow(j.Session).Live(), false)
		}
	}},
}

func claimBatch(w *world) (func() error, func()) {
	queue := w.fresh()
	for range 3 {
		w.enqueue(daybook.Request{Queue: queue})
	}
	r := daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{queue}, Limit: 2,
		Call: daybook.NewID()}
	var got daybook.Claimed
	do := func() (err error) {
		got, err = w.book.Claim(w.ctx, r)
		return err
	}
	return do, func() {
		same(w, "claims", len(got.Jobs), 2)
		for _, j := range got.Jobs {
			same(w, "generation", j.Generation, 1)
			same(w, "session", w.stands(j.ID, daybook.Running).Session, r.Session)
			w.complete(j)
		}
		c := w.counted(queue)
		same(w, "attempts", c.Attempts, 2)
		same(w, "waiting", c.Waiting, 1)
	}
}

func claimNamed(w *world) (func() error, func()) {
	id := w.enqueue(daybook.Request{}) // naming a job may look at every queue there is
	r := daybook.ClaimRequest{Session: w.session("w").ID, Job: id, Call: daybook.NewID()}
	var got daybook.Claimed
	do := func() (err error) {
		got, err = w.book.Claim(w.ctx, r)
		return err
	}
	return do, func() {
		same(w, "claims", len(got.Jobs), 1)
		same(w, "generation", got.Jobs[0].Generation, 1)
		w.complete(got.Jobs[0])
		w.stands(id, daybook.Succeeded)
		same(w, "attempts", len(w.attempts(id)), 1)
	}
}

func renewListed(w *world) (func() error, func()) {
	j := w.owned(daybook.Request{})
	w.clock.advance(time.Second)
	var got daybook.Renewal
	do := func() (err error) {
		got, err = w.book.Renew(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
		return err
	}
	return do, func() {
		same(w, "lost", len(got.Lost), 0)
		same(w, "lease", got.LeaseUntil, w.clock.time().Add(daybook.LeaseDefault))
		same(w, "stored", w.job(j.ID).LeaseUntil, got.LeaseUntil)
		w.complete(j)
	}
}

var faultyOutcomes = []operation{
	{name: "complete", prepare: outcome(daybook.Succeeded, complete)},
	{name: "fail", prepare: outcome(daybook.Waiting, func(w *world, j daybook.Job) (daybook.Answer, error) {
		return w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Problem: daybook.NewProblem("boom", "", "")}, nil)
	})},
	{name: "fail for good", prepare: outcome(daybook.SetAside, failForGood)},
	{name: "release", prepare: outcome(daybook.Waiting, func(w *world, j daybook.Job) (daybook.Answer, error) {
		return w.book.Release(w.ctx, j.ID, owner(j), time.Minute)
	})},
	{name: "a late completion", prepare: lateCompletion},
	{name: "many outcomes", prepare: manyOutcomes},
}

func complete(w *world, j daybook.Job) (daybook.Answer, error) {
	return w.book.Complete(w.ctx, j.ID, owner(j), json.RawMessage(`1.0`))
}

func failForGood(w *world, j daybook.Job) (daybook.Answer, error) {
	return w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Permanent: true}, nil)
}

// reporting says how an attempt ended.
type reporting func(*world, daybook.Job) (daybook.Answer, error)

func outcome(state daybook.State, report reporting) func(*world) (func() error, func()) {
	return func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{})
		do := func() error {
			a, err := report(w, j)
			if err == nil {
				same(w, "answer", a.State, state)
			}
			return err
		}
		return do, func() {
			got := w.ended(j.ID, state, 1)
			same(w, "failures", got.Failures <= 1, true)
			a, err := report(w, j)
			w.ok(err)
			same(w, "already", a.Already, true)
		}
	}
}

// lateCompletion is refused, and what it said is kept once.
func lateCompletion(w *world) (func() error, func()) {
	j := w.owned(daybook.Request{})
	again := w.replace(j, w.session("next"), nil)
	do := func() error {
		_, err := w.book.Complete(w.ctx, j.ID, owner(j), nil)
		if errors.Is(err, daybook.ErrFenced) {
			return nil
		}
		if err == nil {
			w.Fatal("a late completion was accepted")
		}
		return err
	}
	return do, func() {
		w.undisturbed("after a late completion", again)
		w.read(func(v daybook.View) error {
			h, err := v.History(w.ctx, w.jobIn(v, j.ID))
			same(w, "refusals", len(h.Refusals), 1)
			return err
		})
		w.complete(again)
	}
}

func manyOutcomes(w *world) (func() error, func()) {
	done, failed := w.owned(daybook.Request{}), w.owned(daybook.Request{})
	late := w.owned(daybook.Request{})
	again := w.replace(late, w.session("next"), nil)
	outcomes := []daybook.Outcome{
		{Job: done.ID, Owner: owner(done), Kind: daybook.OutcomeSucceeded},
		{Job: late.ID, Owner: owner(late), Kind: daybook.OutcomeSucceeded},
		{Job: failed.ID, Owner: owner(failed), Kind: daybook.OutcomeFailed},
	}
	var answers []daybook.Answer
	do := func() (err error) {
		answers, err = w.book.Finish(w.ctx, outcomes)
		return err
	}
	return do, func() {
		w.ok(answers[0].Err)
		w.refused(answers[1].Err, daybook.CodeFenced)
		w.ok(answers[2].Err)
		w.ended(done.ID, daybook.Succeeded, 1)
		w.ended(failed.ID, daybook.Waiting, 1)
		w.undisturbed("after many outcomes", again)
		w.complete(again)
	}
}
