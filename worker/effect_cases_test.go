package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// The faults from the field, with an effect in play.

// charging is a handler that charges once, whose call waits for its context when
// hang says so.
func charging(out *world, policy worker.EffectPolicy, hang func(n int) bool) func(
	context.Context, *worker.Claim[none]) error {
	return func(ctx context.Context, c *worker.Claim[none]) error {
		n, err := worker.Effect(ctx, "charge", policy, func(ctx context.Context, key string) (int, error) {
			n := out.call(key)
			if hang(n) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return n, nil
		})
		return errors.Join(err, c.SetResult(n))
	}
}

func first(n int) bool { return n == 1 }

// A job that kills its worker inside an effect is set aside alone, with the effect
// open; the others finish with theirs.
func TestL19_PoisonInAnEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		poison := enqueue(t, book, daybook.Request{Kind: "poison"})
		ids := make([]daybook.ID, 10)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		hang := make(chan struct{})
		defer close(hang)
		var bad, good world
		for kills := 0; stateOf(t, book, poison) != daybook.SetAside && kills < 20; kills++ {
			p := newProcess(t, book, worker.Config{Concurrency: 20, NoLoops: true})
			worker.Handle(p.Worker, "job", charging(&good, worker.Repeatable, func(int) bool { return false }))
			worker.Handle(p.Worker, "poison", func(ctx context.Context, _ *worker.Claim[none]) error {
				_, err := worker.Effect(ctx, "charge", worker.Repeatable, func(_ context.Context, key string) (int, error) {
					bad.call(key)
					p.cut() // dead for the world, with all that it holds
					<-hang
					return 0, nil
				})
				return err
			})
			p.start(t)
			after(10 * time.Minute)
			p.Stop()
			p.end(t)
		}
		if j := book.RequireState(poison, daybook.SetAside); j.Reason != daybook.ReasonCrashes {
			t.Errorf("set aside for %s", j.Reason)
		}
		if e := effectOf(t, book, poison, "charge"); e.State != daybook.EffectIsOpen {
			t.Errorf("the poison's effect is %s", e.State)
		}
		for _, id := range ids {
			book.RequireState(id, daybook.Succeeded)
		}
		if keys := bad.keys(); strings.Trim(keys, "a") != "" || len(keys) != daybook.CrashesMax {
			t.Errorf("the poison called %q", keys)
		}
	})
}

// An effect's error text that no database takes is cleaned, and the attempt ends.
func TestL21_HostileErrorOfAnEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := newProcess(t, book, worker.Config{})
		worker.Handle(w.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			_, err := worker.Effect(ctx, "charge", worker.Ask, func(context.Context, string) (int, error) {
				return 0, worker.NotHappened(errors.New("boom\x00\xff" + strings.Repeat("é", 10<<20)))
			})
			return err
		})
		id := enqueue(t, book, daybook.Request{MaxFailures: 1})
		w.start(t)
		after(time.Minute)
		j := book.RequireState(id, daybook.SetAside)
		if j.LastError == nil || !j.LastError.Cut || !strings.HasPrefix(j.LastError.Text, "boom\uFFFD\uFFFDé") {
			t.Errorf("the error is kept as %.40q", j.LastError.Text)
		}
		if e := effectOf(t, book, id, "charge"); e.State != daybook.EffectAbsent {
			t.Errorf("the effect is %s", e.State)
		}
	})
}

// A result that the book can't keep is none, and the effect is done all the same:
// nothing calls again.
func TestL22_ResultOfAnEffectThatCannotBeKept(t *testing.T) {
	for _, result := range []string{`"\u0000"`, `{"a":1,"a":2}`, `{`, `"` + strings.Repeat("x", daybook.ResultMax) + `"`} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			w, out := newProcess(t, book, worker.Config{}), world{}
			worker.Handle(w.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
				_, err := worker.Effect(ctx, "charge", worker.Ask, func(_ context.Context, key string) (json.RawMessage, error) {
					out.call(key)
					return json.RawMessage(result), nil
				})
				return err
			})
			id := enqueue(t, book, daybook.Request{})
			w.start(t)
			after(time.Minute)
			if j := book.RequireState(id, daybook.SetAside); j.Reason != daybook.ReasonPermanent {
				t.Errorf("set aside for %s", j.Reason)
			}
			if e := effectOf(t, book, id, "charge"); e.State != daybook.EffectDone || out.keys() != "a" {
				t.Errorf("%.20s: the effect is %s after calls %s", result, e.State, out.keys())
			}
			if _, err := book.Revive(t.Context(), id, person); err != nil {
				t.Error(err)
			}
			after(time.Minute)
			if out.keys() != "a" {
				t.Errorf("%.20s: called again: %s", result, out.keys())
			}
		})
	}
}

// A job that waits for an earlier call to show grows by nothing but its attempts.
func TestL26_SettlingGrowsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w, out := newProcess(t, book, worker.Config{}), world{}
		probe := func(context.Context, string) (int, bool, error) { return 7, true, nil }
		worker.Handle(w.Worker, "job", charging(&out, worker.Checked(probe, time.Hour), first))
		id := enqueue(t, book, daybook.Request{})
		w.start(t)
		after(2 * time.Hour)
		if j := book.RequireState(id, daybook.Succeeded); string(j.Result) != "7" || j.Failures != 1 {
			t.Errorf("result %s after %d failures", j.Result, j.Failures)
		}
		h := historyOf(t, book, id)
		if len(h.Attempts) > 4 || len(h.Events) > 4 || out.keys() != "a" {
			t.Errorf("%d attempts, %d events, calls %s", len(h.Attempts), len(h.Events), out.keys())
		}
	})
}

// A job with a request key doesn't meet itself when it is tried again.
func TestL37_KeyedRequestRetriesItsEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w, out := newProcess(t, book, worker.Config{}), world{}
		worker.Handle(w.Worker, "job", charging(&out, worker.Keyed(time.Hour), first))
		id := enqueue(t, book, daybook.Request{Key: "order 7"})
		w.start(t)
		after(time.Second)
		if again := enqueue(t, book, daybook.Request{Key: "order 7"}); again != id {
			t.Errorf("the same key is job %s and job %s", id, again)
		}
		after(10 * time.Minute)
		if j := book.RequireState(id, daybook.Succeeded); string(j.Result) != "2" || out.keys() != "aa" {
			t.Errorf("result %s after calls %s", j.Result, out.keys())
		}
	})
}

// Stopping a worker inside an effect costs no attempt; the policy decides about
// what was begun.
func TestL55_StoppingInsideAnEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var out world
		p := newProcess(t, book, worker.Config{Grace: time.Second})
		worker.Handle(p.Worker, "job", charging(&out, worker.Keyed(time.Hour), first))
		id := enqueue(t, book, daybook.Request{})
		p.start(t)
		after(time.Second)
		p.end(t)
		if j := book.RequireState(id, daybook.Waiting); j.Failures+j.Crashes != 0 {
			t.Errorf("stopping counted %d failures and %d crashes", j.Failures, j.Crashes)
		}
		next := newProcess(t, book, worker.Config{})
		worker.Handle(next.Worker, "job", charging(&out, worker.Keyed(time.Hour), first))
		next.start(t)
		after(time.Minute)
		if j := book.RequireState(id, daybook.Succeeded); out.keys() != "aa" || j.Failures != 0 {
			t.Errorf("calls %s, %d failures", out.keys(), j.Failures)
		}
	})
}

// A cancel that reaches a handler inside an effect is for good; the effect stays
// open for a person, and settling it moves nothing.
func TestL56_CancelInsideAnEffect(t *testing.T) { cancelInsideEffect(t, 1) }

// The same when every slot is busy and no bell rings.
func TestL58_CancelInsideAnEffectWithoutABell(t *testing.T) { cancelInsideEffect(t, 3) }

func cancelInsideEffect(t *testing.T, jobs int) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var out world
		p := newProcess(t, book, worker.Config{Concurrency: jobs, Lease: time.Minute})
		worker.Handle(p.Worker, "job", charging(&out, worker.Ask, func(int) bool { return true }))
		ids := make([]daybook.ID, jobs)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{Key: fmt.Sprint(i)})
		}
		p.start(t)
		after(time.Second)
		if _, err := book.Cancel(t.Context(), ids[0], person, false); err != nil {
			t.Fatal(err)
		}
		after(25 * time.Second)
		book.RequireState(ids[0], daybook.Cancelled)
		requireAttempts(t, book, ids[0], daybook.OutcomeCancelled)
		if e := effectOf(t, book, ids[0], "charge"); e.State != daybook.EffectIsOpen {
			t.Errorf("the effect is %s", e.State)
		}
		if _, err := book.Settle(t.Context(), ids[0], "charge", daybook.Verdict{Happened: true}, person); err != nil {
			t.Error(err)
		}
		book.RequireState(ids[0], daybook.Cancelled)
	})
}

func historyOf(t *testing.T, book *daybooktest.Book, id daybook.ID) (h daybook.History) {
	t.Helper()
	err := book.Store().Read(t.Context(), "a test", func(v daybook.View) error {
		j, _, err := v.Job(t.Context(), id)
		if err == nil {
			h, err = v.History(t.Context(), j)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
