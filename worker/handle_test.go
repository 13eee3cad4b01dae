package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

type welcome struct {
	To    string `json:"to"`
	Count int64  `json:"count"`
}

func TestHandlerGetsTypedArgsAndSetsItsResult(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{Kind: "welcome", Args: raw(`{"to":"ada","count":9007199254740993}`)})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		var got welcome
		worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[welcome]) error {
			got = c.Args
			if c.Job().ID != id || c.Generation() != 1 || c.Attempt() != 1 {
				t.Errorf("claim of job %s, generation %d, attempt %d; want %s, 1, 1",
					c.Job().ID, c.Generation(), c.Attempt(), id)
			}
			if want := daybook.EffectKey(id, "mail", 0); c.EffectKey("mail") != want {
				t.Errorf("EffectKey = %s, want %s", c.EffectKey("mail"), want)
			}
			if err := c.Progress(ctx, map[string]int{"sent": 1}); err != nil {
				t.Errorf("Progress: %v", err)
			}
			if j := book.RequireState(id, daybook.Running); string(j.Progress) != `{"sent":1}` {
				t.Errorf("progress is %s", j.Progress)
			}
			return c.SetResult("<sent & done>")
		})
		book.RunUntilIdle(t.Context(), w)
		if want := (welcome{"ada", 9007199254740993}); got != want {
			t.Errorf("args %v, want %v", got, want)
		}
		if j := book.RequireState(id, daybook.Succeeded); string(j.Result) != `"<sent & done>"` {
			t.Errorf("result is %s", j.Result)
		}
	})
}

func TestHowAHandlerEndsDecides(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name     string
		err      error
		state    daybook.State
		reason   daybook.Reason
		failures int
		wait     time.Duration // until the next attempt
		text     string
	}{
		{"success", nil, daybook.Succeeded, "", 0, 0, ""},
		{"failure", boom, daybook.Waiting, "", 1, time.Second, "boom"},
		{"permanent", worker.Permanent(boom), daybook.SetAside, daybook.ReasonPermanent, 1, 0, "boom"},
		{"wrapped permanent", fmt.Errorf("in vain: %w", worker.Permanent(boom)),
			daybook.SetAside, daybook.ReasonPermanent, 1, 0, "boom"},
		{"permanent nil", worker.Permanent(nil), daybook.Succeeded, "", 0, 0, ""},
		{"snooze", worker.Snooze(time.Hour), daybook.Waiting, "", 0, time.Hour, ""},
		{"snooze for ever", worker.Snooze(math.MaxInt64), daybook.Waiting, "", 0, daybook.DelayMax, ""},
		{"wrapped snooze", fmt.Errorf("busy: %w", worker.Snooze(time.Hour)), daybook.Waiting, "", 0, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
				worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return c.err })
				begun := time.Now()
				book.RunUntilIdle(t.Context(), w)
				j := book.RequireState(id, c.state)
				if j.Reason != c.reason || j.Failures != c.failures {
					t.Errorf("reason %q, %d failures; want %q, %d", j.Reason, j.Failures, c.reason, c.failures)
				}
				if wait := j.RunAt.Std().Sub(begun); j.State == daybook.Waiting && (wait-c.wait).Abs() > c.wait/9 {
					t.Errorf("next attempt after %s, want about %s", wait, c.wait)
				}
				if c.text != "" && (j.LastError == nil || j.LastError.Text != c.text) {
					t.Errorf("last error %+v, want %q", j.LastError, c.text)
				}
			})
		})
	}
}

func TestReleaseIsEligibleAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		runs := 0
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error {
			if runs++; runs < 3 {
				return worker.Release()
			}
			return nil
		})
		begun := time.Now()
		book.RunUntilIdle(t.Context(), w)
		j := book.RequireState(id, daybook.Succeeded)
		if runs != 3 || j.Failures != 0 || j.Generation != 3 || time.Since(begun) != 0 {
			t.Errorf("%d runs, %d failures, generation %d after %s; want 3, 0, 3 at once",
				runs, j.Failures, j.Generation, time.Since(begun))
		}
	})
}

func TestArgsThatDontDecodeAreSetAside(t *testing.T) {
	for _, sensitive := range []bool{false, true} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			id := enqueue(t, book, daybook.Request{Kind: "welcome", Args: raw(`{"count":"secret"}`)})
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
			worker.Handle(w, "welcome", func(context.Context, *worker.Claim[welcome]) error {
				t.Error("the handler ran")
				return nil
			}, worker.KindOptions{Sensitive: sensitive})
			book.RunUntilIdle(t.Context(), w)
			j := book.RequireState(id, daybook.SetAside)
			if j.Reason != daybook.ReasonUndecodable {
				t.Errorf("reason %q, want undecodable", j.Reason)
			}
			if told := strings.Contains(j.LastError.Text, "count"); told == sensitive {
				t.Errorf("sensitive %v: the error says %q", sensitive, j.LastError.Text)
			}
		})
	}
}

func TestKindOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return errors.New("boom") },
			worker.KindOptions{Timeout: time.Minute, MaxFailures: 2, OnLost: daybook.LostSetAside,
				Retry: daybook.Backoff{First: time.Hour, Cap: time.Hour}})
		receipt, err := w.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "job"})
		if err != nil {
			t.Fatal(err)
		}
		j := book.RequireState(receipt.ID, daybook.Waiting)
		if j.Timeout != time.Minute || j.MaxFailures != 2 || j.OnLost != daybook.LostSetAside {
			t.Errorf("job has timeout %s, max_failures %d, on_lost %s; want the kind's",
				j.Timeout, j.MaxFailures, j.OnLost)
		}
		begun := time.Now()
		book.RunUntilIdle(t.Context(), w)
		if j = book.RequireState(receipt.ID, daybook.Waiting); j.RunAt.Std().Sub(begun) != time.Hour {
			t.Errorf("tried again after %s, want the kind's hour", j.RunAt.Std().Sub(begun))
		}
		time.Sleep(time.Hour)
		book.RunUntilIdle(t.Context(), w)
		if j = book.RequireState(receipt.ID, daybook.SetAside); j.Reason != daybook.ReasonFailures {
			t.Errorf("reason %q, want failures", j.Reason)
		}
	})
}

func TestRawHandlerTakesEveryKind(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		doc := `{"b":1.0,"a":<>}`
		doc = strings.ReplaceAll(doc, "<>", `"<&>"`)
		id := enqueue(t, book, daybook.Request{Kind: "anything", Args: raw(doc)})
		own := enqueue(t, book, daybook.Request{Kind: "own"})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		w.HandleRaw("", func(_ context.Context, j daybook.Job) daybook.Outcome {
			if string(j.Args) != doc {
				t.Errorf("args %s, want %s", j.Args, doc)
			}
			return daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: j.Args}
		})
		w.HandleRaw("own", func(context.Context, daybook.Job) daybook.Outcome {
			return daybook.Outcome{Kind: daybook.OutcomeReleased, In: time.Hour}
		})
		book.RunUntilIdle(t.Context(), w)
		if j := book.RequireState(id, daybook.Succeeded); string(j.Result) != doc {
			t.Errorf("result %s, want %s", j.Result, doc)
		}
		book.RequireState(own, daybook.Waiting)
	})
}

func TestWhatTheBookRefusesFailsTheAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    daybook.Outcome
		state  daybook.State
		reason daybook.Reason
	}{
		{"result too large", daybook.Outcome{Kind: daybook.OutcomeSucceeded,
			Result: raw(`"` + strings.Repeat("x", daybook.ResultMax) + `"`)},
			daybook.SetAside, daybook.ReasonPermanent},
		{"result no JSON", daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: raw(`{`)},
			daybook.SetAside, daybook.ReasonPermanent},
		{"no such outcome", daybook.Outcome{Kind: "fine"}, daybook.Waiting, ""},
		{"no outcome", daybook.Outcome{}, daybook.Waiting, ""},
		{"snooze into the past", daybook.Outcome{Kind: daybook.OutcomeReleased, In: -time.Hour},
			daybook.Waiting, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
				w.HandleRaw("job", func(context.Context, daybook.Job) daybook.Outcome { return c.out })
				book.RunUntilIdle(t.Context(), w)
				j := book.RequireState(id, c.state)
				if j.Reason != c.reason || j.Failures != 1 || j.LastError == nil {
					t.Errorf("reason %q, %d failures, error %+v; want %q, 1 and an error",
						j.Reason, j.Failures, j.LastError, c.reason)
				}
			})
		})
	}
}

func TestResultThatIsNoJSONIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		enqueue(t, book, daybook.Request{})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		var err error
		worker.Handle(w, "job", func(_ context.Context, c *worker.Claim[none]) error {
			err = c.SetResult(math.NaN())
			return nil
		})
		book.RunUntilIdle(t.Context(), w)
		if !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("SetResult(NaN): %v, want invalid", err)
		}
	})
}
