package storetest

import (
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfRows = []test{
	{"SaveSession makes a session and gives it a Ref", saveSessionMakes},
	{"SaveSession refuses one that has ended", saveSessionEnded},
	{"SaveCall gives a repeated call the same", saveCallRepeats},
	{"SaveCall is gone with its session", saveCallGoes},
	{"SaveRefusals keeps each once", saveRefusalsOnce},
	{"SaveQueue makes the queue", saveQueueMakes},
	{"SaveSetting compares and sets", saveSettingCompares},
	{"Key and Job answer not found", notFound},
}

// sessionRow loads one session, ended or not.
func (w *world) sessionRow(id daybook.ID) (s daybook.Session) {
	w.Helper()
	w.read(func(v daybook.View) error {
		found, err := v.Sessions(w.ctx, daybook.SessionFilter{ID: id})
		if err == nil {
			same(w, "sessions of that id", len(found), 1)
			s = found[0]
		}
		return err
	})
	return s
}

func saveSessionMakes(w *world) {
	now := w.clock.time()
	want := daybook.Session{ID: daybook.NewID(), Worker: "mailer", Lease: 10 * time.Second, StartedAt: now,
		RenewedAt: now, ExpiresAt: now.Add(10 * time.Second), Starts: true,
		Queues: []string{"q", "r"}, Kinds: []string{"k"}}
	w.write(func(tx daybook.Tx) error {
		made, err := tx.SaveSession(w.ctx, want)
		same(w, "has a Ref", made.Ref != 0, true)
		want.Ref = made.Ref
		return err
	})
	compareSessions(w, "made", w.sessionRow(want.ID), want)
	want.ExpiresAt, want.RenewedAt = want.ExpiresAt.Add(time.Minute), now.Add(time.Minute)
	want.MarkedAt, want.Renewals, want.Quiet = now.Add(1), 7, true
	w.write(func(tx daybook.Tx) error {
		saved, err := tx.SaveSession(w.ctx, want)
		same(w, "Ref", saved.Ref, want.Ref)
		return err
	})
	compareSessions(w, "updated", w.sessionRow(want.ID), want)
	// The test's own session has a lease longer than its length.
	want.ExpiresAt = want.RenewedAt.Add(want.Lease)
	w.write(func(tx daybook.Tx) error {
		_, err := tx.SaveSession(w.ctx, want)
		return err
	})
}

// compareSessions ends the test when two sessions differ in what is stored.
func compareSessions(t tb, what string, got, want daybook.Session) {
	t.Helper()
	type row struct {
		id                                   daybook.ID
		worker                               string
		lease                                time.Duration
		started, renewed, until, end, marked daybook.Time
		renewals                             int64
		starts, quiet                        bool
	}
	of := func(s daybook.Session) row {
		return row{s.ID, s.Worker, s.Lease, s.StartedAt, s.RenewedAt, s.ExpiresAt, s.EndedAt, s.MarkedAt,
			s.Renewals, s.Starts, s.Quiet}
	}
	if of(got) != of(want) {
		t.Fatalf("%s: session\n got %+v\nwant %+v", what, of(got), of(want))
	}
	if len(got.Queues) != len(want.Queues) || len(got.Kinds) != len(want.Kinds) {
		t.Fatalf("%s: got queues %v and kinds %v, want %v and %v", what, got.Queues, got.Kinds, want.Queues,
			want.Kinds)
	}
}

// saveSessionEnded is the renewal that comes after the end: ended is final.
func saveSessionEnded(w *world) {
	s := w.session("w")
	w.ok(w.book.EndSession(w.ctx, s.ID))
	ended := w.sessionRow(s.ID)
	renewed, err := s.Renew(w.clock.time().Add(time.Second), true) // as read before the end
	w.ok(err)
	err = w.try(func(tx daybook.Tx) error {
		_, err := tx.SaveSession(w.ctx, renewed)
		return err
	})
	w.refused(err, daybook.CodeFenced)
	compareSessions(w, "after the refusal", w.sessionRow(s.ID), ended)
}

func saveCallRepeats(w *world) {
	w.many(5)
	s := w.session("w")
	r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 3, Call: daybook.NewID()}
	first, err := w.book.Claim(w.ctx, r)
	w.ok(err)
	same(w, "first", len(first.Jobs), 3)
	w.complete(first.Jobs[1])
	again, err := w.book.Claim(w.ctx, r)
	w.ok(err)
	same(w, "again", len(again.Jobs), 2)
	for i, j := range again.Jobs {
		was := first.Jobs[2*i]
		compareJobs(w, "again", j, was)
		same(w, "args", string(j.Args), string(was.Args))
		same(w, "session", again.Session.ID, s.ID)
	}
	// Given to the same session by another call, it isn't this call's.
	_, err = w.book.Release(w.ctx, first.Jobs[0].ID, owner(first.Jobs[0]), 0)
	w.ok(err)
	_, err = w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Job: first.Jobs[0].ID})
	w.ok(err)
	again, err = w.book.Claim(w.ctx, r)
	w.ok(err)
	same(w, "after a release and a new claim", len(again.Jobs), 1)
	same(w, "the one that stayed", again.Jobs[0].ID, first.Jobs[2].ID)
}

func saveCallGoes(w *world) {
	w.many(1)
	s := w.session("w")
	call := daybook.NewID()
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Call: call})
	w.ok(err)
	w.complete(got.Jobs[0])
	w.ok(w.book.EndSession(w.ctx, s.ID))
	w.clock.advance(daybook.RetentionMin + time.Second)
	_, err = w.book.Sweep(w.ctx)
	w.ok(err)
	w.read(func(v daybook.View) error {
		_, _, found, err := v.Claims(w.ctx, daybook.ClaimsOf{Call: call})
		same(w, "the call is known", found, false)
		if err != nil {
			return err
		}
		_, _, found, err = v.Claims(w.ctx, daybook.ClaimsOf{Session: s.ID})
		same(w, "the session is known", found, false)
		return err
	})
}

func saveRefusalsOnce(w *world) {
	j := w.running(daybook.Request{})
	w.lapse()
	refusal := daybook.Refusal{Job: j.ID, Generation: 1, Session: j.Session, Operation: "complete",
		Said: "first", At: w.clock.time()}
	save := func(rs ...daybook.Refusal) {
		w.write(func(tx daybook.Tx) error { return tx.SaveRefusals(w.ctx, rs) })
	}
	save(refusal)
	second := refusal
	second.Said, second.At = "second", second.At.Add(time.Second)
	save(second, second)
	other := refusal
	other.Operation = "fail"
	unknown := refusal
	unknown.Job = daybook.NewID() // pruned meanwhile: nothing to keep it beside
	save(other, unknown)
	w.read(func(v daybook.View) error {
		job, _, err := v.Job(w.ctx, j.ID)
		if err != nil {
			return err
		}
		h, err := v.History(w.ctx, job)
		same(w, "refusals", len(h.Refusals), 2)
		said := map[string]string{}
		for _, r := range h.Refusals {
			said[r.Operation] = r.Said
			same(w, "session", r.Session, j.Session)
			same(w, "generation", r.Generation, 1)
			same(w, "at", r.At, refusal.At)
		}
		same(w, "what complete said", said["complete"], "first")
		return err
	})
}

func saveQueueMakes(w *world) {
	q := daybook.Queue{Name: "fresh", Paused: true, PausedAt: w.clock.time(), PausedBy: "ada",
		PausedReason: "why not"}
	w.write(func(tx daybook.Tx) error { return tx.SaveQueue(w.ctx, q) })
	check := func(want daybook.Queue) {
		w.Helper()
		queues, err := w.book.Queues(w.ctx, false)
		w.ok(err)
		same(w, "queues", len(queues), 1)
		got := queues[0]
		same(w, "name", got.Name, want.Name)
		same(w, "paused", got.Paused, want.Paused)
		same(w, "since", got.PausedAt, want.PausedAt)
		same(w, "by", got.PausedBy, want.PausedBy)
		same(w, "reason", got.PausedReason, want.PausedReason)
	}
	check(q)
	w.enqueue(daybook.Request{Queue: "fresh"})
	w.write(func(tx daybook.Tx) error { return tx.SaveQueue(w.ctx, daybook.Queue{Name: "fresh"}) })
	check(daybook.Queue{Name: "fresh"})
}

func saveSettingCompares(w *world) {
	for _, c := range []struct {
		was, value string
		want       bool
		then       string
	}{
		{"x", "1", false, ""},
		{"", "1", true, "1"},
		{"", "2", false, "1"},
		{"2", "3", false, "1"},
		{"1", "2", true, "2"},
		{"2", "2", true, "2"},
		{"1", "", false, "2"},
		{"2", "", true, ""},
		{"2", "", false, ""},
		{"", "3", true, "3"},
	} {
		saved, err := w.book.SaveSetting(w.ctx, "storetest", c.was, c.value)
		w.ok(err)
		same(w, "saved "+c.value+" over "+c.was, saved, c.want)
		value, err := w.book.Setting(w.ctx, "storetest")
		w.ok(err)
		same(w, "value", value, c.then)
	}
}

func notFound(w *world) {
	w.read(func(v daybook.View) error {
		_, found, err := v.Job(w.ctx, daybook.NewID())
		w.ok(err)
		same(w, "job", found, false)
		_, found, err = v.Key(w.ctx, "nobody's")
		w.ok(err)
		same(w, "key", found, false)
		value, err := v.Setting(w.ctx, "nobody's")
		w.ok(err)
		same(w, "setting", value, "")
		for _, of := range []daybook.ClaimsOf{{Session: daybook.NewID()}, {Call: daybook.NewID()}} {
			_, _, found, err = v.Claims(w.ctx, of)
			w.ok(err)
			same(w, "claims", found, false)
		}
		return nil
	})
}
