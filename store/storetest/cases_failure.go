package storetest

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

var casesOfFailure = []test{
	{"L8", lastAttemptCrashes}, {"L19", poisonJob}, {"L21", hostileErrors}, {"L24", retryCurve},
	{"L26", endlessSnooze}, {"L37", keyedRetry}, {"L52", longDelay},
}

// lastAttemptCrashes (graphile/worker #254): a crash on the only attempt. The
// job is set aside with a reason, and what waits behind it runs.
func lastAttemptCrashes(w *world) {
	id := w.enqueue(daybook.Request{MaxFailures: 1})
	next := w.enqueue(daybook.Request{})
	w.claimed(w.session("dies"))
	same(w, "revoked", w.lapse().revoked, 1)
	same(w, "reason", w.stands(id, daybook.SetAside).Reason, daybook.ReasonCrashes)
	w.complete(w.claimed(w.session("w")))
	w.stands(next, daybook.Succeeded)
}

// poisonJob (contribsys/faktory #99): one job of fifty kills every process that
// runs it. It alone is set aside, counted on its own row; the others finish.
func poisonJob(w *world) {
	ids := w.many(50)
	poison := ids[17]
	rounds := 0
	for left := true; left; rounds++ {
		if rounds == 200 {
			w.Fatal("the queue doesn't empty")
		}
		jobs := w.claim(w.session("w"), 10)
		left = len(jobs) > 0
		dies := false
		for _, j := range jobs {
			dies = dies || j.ID == poison
		}
		if dies {
			w.lapse()
			continue
		}
		for _, j := range jobs {
			w.complete(j)
		}
	}
	for _, id := range ids {
		if id == poison {
			j := w.stands(id, daybook.SetAside)
			same(w, "reason", j.Reason, daybook.ReasonCrashes)
			same(w, "crashes", j.Crashes, daybook.CrashesMax)
		} else {
			w.stands(id, daybook.Succeeded)
		}
	}
	w.Logf("%d sessions", rounds)
}

// hostileErrors (fazer-ai/agents #243): an error text that a database refuses
// must not keep the failure from being recorded.
func hostileErrors(w *world) {
	for _, c := range []struct {
		name, text string
		cut        bool
	}{
		{"NUL", "boom\x00bang", false},
		{"invalid UTF-8", "boom\xff\xfe\xc3", false},
		{"a lone surrogate's bytes", "boom\xed\xa0\x80", false},
		{"ten megabytes", strings.Repeat("é", 5<<20), true},
		{"ten megabytes of garbage", strings.Repeat("\xff\x00", 5<<20), true},
		{"nothing", "", false},
	} {
		j := w.running(daybook.Request{})
		problem := daybook.NewProblem(c.text, c.text, c.text)
		_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Problem: problem, Permanent: true}, nil)
		w.ok(err)
		got := w.stands(j.ID, daybook.SetAside).LastError
		if got == nil {
			w.Fatalf("%s: no error was kept", c.name)
		}
		same(w, c.name+": as cleaned", *got, *problem)
		same(w, c.name+": valid", utf8.ValidString(got.Text) && !strings.Contains(got.Text, "\x00"), true)
		same(w, c.name+": bounded", len(got.Text) <= daybook.ErrorMax && len(got.Trace) <= daybook.ErrorMax, true)
		same(w, c.name+": marked as cut", got.Cut, c.cut)
	}
}

// retryCurve (riverqueue/river #698): the delay after very many failures is the
// cap, never in the past and never a burst.
func retryCurve(w *world) {
	for _, failures := range []int{40, 310, daybook.MaxFailuresMax - 2} {
		id := w.enqueue(daybook.Request{MaxFailures: daybook.MaxFailuresMax})
		w.write(func(tx daybook.Tx) error {
			jobs, err := tx.Lock(w.ctx, []daybook.ID{id})
			if err != nil {
				return err
			}
			old := jobs[0]
			old.Failures = failures
			return tx.Save(w.ctx, []daybook.Change{{Move: daybook.MoveUnhold, Was: jobs[0], Now: old}})
		})
		j := w.claimed(w.session("w"))
		_, err := w.book.Fail(w.ctx, id, owner(j), daybook.Failure{}, nil)
		w.ok(err)
		delay := w.job(id).RunAt.Sub(w.clock.time())
		if delay > daybook.BackoffDefault.Cap || delay < daybook.BackoffDefault.Cap*8/10 {
			w.Errorf("after %d failures: got a delay of %s, want about %s", failures, delay,
				daybook.BackoffDefault.Cap)
		}
		same(w, "failures", w.job(id).Failures, failures+1)
	}
}

// endlessSnooze (riverqueue/river #972): ten thousand snoozes, by several jobs
// side by side, leave rows of fixed size, and their number is kept.
func endlessSnooze(w *world) {
	const side, snoozes = 20, 500
	ids := w.many(side)
	s := w.session("w")
	for range snoozes {
		var outcomes []daybook.Outcome
		for _, j := range w.claim(s, side) {
			outcomes = append(outcomes, daybook.Outcome{Job: j.ID, Owner: owner(j), Kind: daybook.OutcomeReleased,
				In: time.Millisecond})
		}
		same(w, "claimed", len(outcomes), side)
		answers, err := w.book.Finish(w.ctx, outcomes)
		w.ok(err)
		for _, a := range answers {
			w.ok(a.Err)
		}
		w.clock.advance(time.Millisecond)
	}
	for _, id := range ids {
		attempts := w.attempts(id)
		same(w, "rows", len(attempts), 2)
		same(w, "attempts kept", attempts[0].Attempts()+attempts[1].Attempts(), snoozes)
		j := w.stands(id, daybook.Waiting)
		same(w, "generation", j.Generation, snoozes)
		same(w, "failures", j.Failures, 0)
		events, err := w.book.Timeline(w.ctx, id)
		w.ok(err)
		if len(events) > 10 {
			w.Errorf("the timeline has %d lines", len(events))
		}
	}
}

// keyedRetry (riverqueue/river 0.12.1, hyrex-labs/hyrex-python #130): a job with
// a key doesn't conflict with itself when it is retried or revoked, and a repeat
// of its request meanwhile is a replay that stops nobody else's repair.
func keyedRetry(w *world) {
	r := daybook.Request{Key: "only"}
	id := w.enqueue(r)
	others := w.many(5)
	jobs := w.claim(w.session("dies"), 10)
	same(w, "claimed", len(jobs), 6)
	same(w, "replay while it runs", w.enqueue(r), id)
	same(w, "revoked", w.lapse().revoked, 6)
	same(w, "replay while it waits", w.enqueue(r), id)
	jobs = w.claim(w.session("w"), 10)
	same(w, "claimed again", len(jobs), 6)
	for _, j := range jobs {
		if j.ID != id {
			w.complete(j)
			continue
		}
		_, err := w.book.Fail(w.ctx, id, owner(j), daybook.Failure{}, new(time.Duration))
		w.ok(err)
	}
	same(w, "replay after a failure", w.enqueue(r), id)
	w.complete(w.claimed(w.session("w")))
	same(w, "replay after the end", w.enqueue(r), id)
	w.stands(others[0], daybook.Succeeded)
	same(w, "accepted", w.counts().Accepted, 6)
}

// longDelay (celery/kombu #337): a delay of five leases is one claim, not one
// per lease.
func longDelay(w *world) {
	const lease = time.Second
	id := w.enqueue(daybook.Request{In: 5 * lease})
	s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Lease: lease})
	w.ok(err)
	for range 9 {
		same(w, "claimed early", len(w.claim(s, 10)), 0)
		w.clock.advance(lease / 2)
		_, err := w.book.Renew(w.ctx, s.ID, []daybook.ClaimRef{})
		w.ok(err)
		w.reconcile(daybook.Sure)
	}
	w.clock.advance(lease / 2)
	j := w.claimed(s)
	same(w, "claimed twice", len(w.claim(s, 10)), 0)
	w.complete(j)
	same(w, "attempts", len(w.attempts(id)), 1)
}
