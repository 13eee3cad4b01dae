package storetest

import (
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

func names(w *world) {
	for _, bad := range []string{"é", "名前", "a b", "a/b", "a\x00", "a\n", "😀", "ａ", "a'", `a"`, "a%", "*",
		"a,b"} {
		for _, r := range []daybook.Request{{Queue: bad}, {Kind: bad}} {
			_, err := w.book.Enqueue(w.ctx, request(r))
			if daybook.CodeOf(err) != daybook.CodeInvalid {
				w.Errorf("name %q: got %v, want invalid", bad, err)
			}
		}
	}
	// What is allowed is kept apart by every letter and its case.
	good := []string{"a", "A", "a_b", "a.b", "a-b", "a:b", "axb", "0", "00", "select", "NULL",
		strings.Repeat("q", daybook.NameMax)}
	s := w.session("w")
	for _, name := range good {
		id := w.enqueue(daybook.Request{Queue: name, Kind: name})
		got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{name},
			Kinds: []string{name}, Limit: 9})
		w.ok(err)
		same(w, "jobs of queue "+name, len(got.Jobs), 1)
		same(w, "the job of queue "+name, got.Jobs[0].ID, id)
		same(w, "its queue", got.Jobs[0].Queue, name)
	}
	queues, err := w.book.Queues(w.ctx, false)
	w.ok(err)
	same(w, "queues", len(queues), len(good))
}

// keysExact wants keys that only a collation or a normal form calls equal to be
// different keys.
func keysExact(w *world) {
	keys := []string{"a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "İ", "i", "😀", "%", "_", "'", `\`, `"a"`,
		"null", "0", "00",
		strings.Repeat("é", 127), strings.Repeat("é", 126) + "e"}
	ids := map[daybook.ID]string{}
	for _, key := range keys {
		id := w.enqueue(daybook.Request{Key: key})
		if other, taken := ids[id]; taken {
			w.Errorf("keys %q and %q are one", other, key)
		}
		ids[id] = key
	}
	for id, key := range ids {
		same(w, "replay", w.enqueue(daybook.Request{Key: key}), id)
		k, err := w.book.Key(w.ctx, key)
		w.ok(err)
		same(w, "key", k.Key, key)
		same(w, "the key's job", k.Job, id)
		page, err := w.book.Jobs(w.ctx, daybook.Filter{Key: key})
		w.ok(err)
		same(w, "jobs of the key", len(page.Items), 1)
	}
}

// letters are what people write.
func letters(w *world) {
	by := daybook.By{Actor: "Zoë 😀 O'Neil", Reason: strings.Repeat("für 漢字 \U0010FFFF ", 30) + "'; --"}
	id := w.enqueue(daybook.Request{})
	_, err := w.book.Cancel(w.ctx, id, by, false)
	w.ok(err)
	events, err := w.book.Timeline(w.ctx, id)
	w.ok(err)
	last := events[len(events)-1]
	same(w, "actor", last.Actor, by.Actor)
	same(w, "reason", last.Reason, by.Reason)
	for _, bad := range []daybook.By{{Actor: "a\x00"}, {Reason: "\xff"}, {Reason: strings.Repeat("x",
		daybook.ReasonMax+1)}} {
		_, err := w.book.Revive(w.ctx, id, bad)
		w.refused(err, daybook.CodeInvalid)
	}
	j := w.running(daybook.Request{})
	problem := daybook.NewProblem("für 漢字 \U0010FFFF \r\n\t'; --", "panic", "main.go:1\n\tmain.main()")
	_, err = w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Problem: problem}, new(time.Duration))
	w.ok(err)
	same(w, "error", *w.job(j.ID).LastError, *problem)
}

func priorityLimits(w *world) {
	var want []daybook.ID
	for _, p := range []int{daybook.PriorityMax, 1, 0, -1, daybook.PriorityMin} {
		id := w.enqueue(daybook.Request{Priority: p})
		same(w, "priority", w.job(id).Priority, p)
		want = append(want, id)
	}
	for i, j := range w.claim(w.session("w"), 10) {
		same(w, "order", j.ID, want[i])
	}
}

func timePrecision(w *world) {
	w.clock.advance(123456 * time.Microsecond)
	first := w.enqueue(daybook.Request{In: 2 * time.Microsecond})
	second := w.enqueue(daybook.Request{In: time.Microsecond})
	same(w, "enqueued_at", w.job(first).EnqueuedAt, w.clock.time())
	same(w, "run_at", w.job(first).RunAt, w.clock.time()+2)
	s := w.session("w")
	w.clock.advance(time.Microsecond)
	same(w, "due after one microsecond", w.claimed(s).ID, second)
	same(w, "not due yet", len(w.claim(s, 1)), 0)
	w.clock.advance(time.Microsecond)
	same(w, "due after two", w.claimed(s).ID, first)
	same(w, "written in full", w.job(first).ClaimedAt.String(), "2026-01-01T00:00:00.123458Z")
}

func timeLimits(w *world) {
	end := daybook.TimeMax.Std()
	id := w.enqueue(daybook.Request{RunAt: end})
	same(w, "the end of year 9999", w.job(id).RunAt, daybook.TimeMax)
	id = w.enqueue(daybook.Request{In: daybook.DelayMax, ExpiresAt: end})
	same(w, "the longest delay", w.job(id).RunAt, w.clock.time().Add(daybook.DelayMax))
	same(w, "expires_at", w.job(id).ExpiresAt, daybook.TimeMax)
	id = w.enqueue(daybook.Request{RunAt: epoch.Add(-time.Hour)})
	same(w, "a time in the past is now", w.job(id).RunAt, w.clock.time())
	_, err := w.book.Enqueue(w.ctx, request(daybook.Request{RunAt: end.Add(time.Microsecond)}))
	w.refused(err, daybook.CodeInvalid)
	s := w.session("w")
	j := w.claimed(s)
	delay := daybook.DelayMax
	_, err = w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{}, &delay)
	w.ok(err)
	same(w, "the longest retry", w.job(id).RunAt, w.clock.time().Add(daybook.DelayMax))
}

// bigGenerations are above what a float or a JavaScript number keeps apart.
func bigGenerations(w *world) {
	const incarnation = 1 << 22
	saved, err := w.book.SaveSetting(w.ctx, daybook.SettingIncarnation, "", daybook.Counter(incarnation))
	w.ok(err)
	same(w, "saved", saved, true)
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	want := incarnation*daybook.GenerationStep - 1
	for range 3 {
		want++
		j := w.claimed(s)
		same(w, "generation", j.Generation, want)
		_, err := w.book.Release(w.ctx, id, daybook.Owner{Session: s.ID, Generation: want + 1}, 0)
		w.refused(err, daybook.CodeFenced)
		_, err = w.book.Release(w.ctx, id, owner(j), 0)
		w.ok(err)
		same(w, "stored", w.job(id).Generation, want)
	}
}
