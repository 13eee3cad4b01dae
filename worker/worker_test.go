package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
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
				t.Errorf("claim of job %s, generation %d, attempt %d; want %s, 1, 1", c.Job().ID, c.Generation(), c.Attempt(), id)
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
		{"wrapped permanent", fmt.Errorf("in vain: %w", worker.Permanent(boom)), daybook.SetAside, daybook.ReasonPermanent, 1, 0, "boom"},
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
			t.Errorf("%d runs, %d failures, generation %d after %s; want 3, 0, 3 at once", runs, j.Failures, j.Generation, time.Since(begun))
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

// ring is a value that holds itself.
type ring []any

type grumpy struct{}

func (grumpy) Error() string { panic("no text for you") }

func TestPanicsAreFailures(t *testing.T) {
	self := ring{nil}
	self[0] = self
	for _, c := range []struct {
		name string
		end  func()
		kind string
		text string
	}{
		{"text", func() { panic("boom") }, "panic", "panic: boom"},
		{"error", func() { panic(errors.New("boom")) }, "panic", "panic: boom"},
		{"number", func() { panic(42) }, "panic", "panic: 42"},
		{"struct", func() { panic(struct{ Code int }{7}) }, "panic", "panic: {7}"},
		{"nil", func() { panic(nil) }, "panic", "panic: panic called with nil"},
		{"nil map", func() { var m map[string]int; m["a"] = 1 }, "panic", "panic: assignment to entry in nil map"},
		{"huge text", func() { panic(strings.Repeat("ä\x00", 8<<20)) }, "panic", "panic: ä"},
		{"huge bytes", func() { panic(make([]byte, 64<<20)) }, "panic", "panic: \uFFFD"},
		{"huge slice", func() { panic(make([]int, 8<<20)) }, "panic", "panic: a large []int"},
		{"holds itself", func() { panic(self) }, "panic", "panic: a large worker_test.ring"},
		{"error that panics", func() { panic(grumpy{}) }, "panic", "panic: an error of type worker_test.grumpy"},
		{"goexit", func() { runtime.Goexit() }, "goexit", "the handler ended its goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				next := enqueue(t, book, daybook.Request{Kind: "next"})
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Concurrency: 1})
				worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { c.end(); return nil })
				worker.Handle(w, "next", func(context.Context, *worker.Claim[none]) error { return nil })
				book.RunUntilIdle(t.Context(), w)
				j := book.RequireState(id, daybook.Waiting)
				book.RequireState(next, daybook.Succeeded) // the slot goes on
				p := j.LastError
				if p == nil || p.Kind != c.kind || !strings.HasPrefix(p.Text, c.text) {
					t.Fatalf("problem %+v, want kind %s and text %q", p, c.kind, c.text)
				}
				if len(p.Text) > daybook.ErrorMax || !strings.Contains(p.Trace, "worker_test") {
					t.Errorf("text of %d bytes; trace %q", len(p.Text), p.Trace)
				}
				if j.Failures != 1 {
					t.Errorf("%d failures, want 1", j.Failures)
				}
			})
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
			t.Errorf("job has timeout %s, max_failures %d, on_lost %s; want the kind's", j.Timeout, j.MaxFailures, j.OnLost)
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
			Result: raw(`"` + strings.Repeat("x", daybook.ResultMax) + `"`)}, daybook.SetAside, daybook.ReasonPermanent},
		{"result no JSON", daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: raw(`{`)}, daybook.SetAside, daybook.ReasonPermanent},
		{"no such outcome", daybook.Outcome{Kind: "fine"}, daybook.Waiting, ""},
		{"no outcome", daybook.Outcome{}, daybook.Waiting, ""},
		{"snooze into the past", daybook.Outcome{Kind: daybook.OutcomeReleased, In: -time.Hour}, daybook.Waiting, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
				w.HandleRaw("job", func(context.Context, daybook.Job) daybook.Outcome { return c.out })
				book.RunUntilIdle(t.Context(), w)
				j := book.RequireState(id, c.state)
				if j.Reason != c.reason || j.Failures != 1 || j.LastError == nil {
					t.Errorf("reason %q, %d failures, error %+v; want %q, 1 and an error", j.Reason, j.Failures, j.LastError, c.reason)
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

func TestWrongConfigIsTold(t *testing.T) {
	handle := func(w *worker.Worker) {
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return nil })
	}
	q := []string{"q"}
	for _, c := range []struct {
		name  string
		cfg   worker.Config
		setup func(*worker.Worker)
		field string
	}{
		{"no queues", worker.Config{}, handle, "queues"},
		{"bad queue", worker.Config{Queues: []string{"a b"}}, handle, "queue"},
		{"queue twice", worker.Config{Queues: []string{"q", "q"}}, handle, "queues"},
		{"weight of nothing", worker.Config{Queues: q, Weights: map[string]int{"r": 1}}, handle, "weights"},
		{"weight 0", worker.Config{Queues: q, Weights: map[string]int{"q": 0}}, handle, "weights"},
		{"concurrency", worker.Config{Queues: q, Concurrency: -1}, handle, "concurrency"},
		{"lease", worker.Config{Queues: q, Lease: time.Millisecond}, handle, "lease"},
		{"timeout", worker.Config{Queues: q, Timeout: -1}, handle, "timeout"},
		{"no handlers", worker.Config{Queues: q}, func(*worker.Worker) {}, "handlers"},
		{"two handlers", worker.Config{Queues: q}, func(w *worker.Worker) { handle(w); handle(w) }, "kind"},
		{"bad kind", worker.Config{Queues: q}, func(w *worker.Worker) { w.HandleRaw("a b", nil) }, "kind"},
		{"bad options", worker.Config{Queues: q}, func(w *worker.Worker) {
			w.HandleRaw("job", nil, worker.KindOptions{MaxFailures: -1})
		}, "max_failures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			book := daybooktest.New(t)
			w := worker.New(book.Book, c.cfg)
			c.setup(w)
			err := w.Run(t.Context())
			e, ok := errors.AsType[*daybook.Error](err)
			if !ok || e.Code != daybook.CodeInvalid || e.Field != c.field {
				t.Errorf("Run: %v, want invalid %s", err, c.field)
			}
		})
	}
}

func TestQuietClaimsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 2, Name: "w1"})
		begun := make(chan daybook.ID, 10)
		finish := make(chan struct{})
		worker.Handle(p.Worker, "job", func(_ context.Context, c *worker.Claim[none]) error {
			begun <- c.Job().ID
			<-finish
			return nil
		})
		first := enqueue(t, book, daybook.Request{})
		p.start(t)
		<-begun
		if n, err := book.Quiet(t.Context(), "w1"); n != 1 || err != nil {
			t.Fatalf("Quiet asked %d sessions, %v", n, err)
		}
		after(daybook.LeaseDefault / 3) // the next renewal says it
		second := enqueue(t, book, daybook.Request{})
		close(finish)
		after(time.Minute)
		book.RequireState(first, daybook.Succeeded)
		book.RequireState(second, daybook.Waiting)
		if s := p.Stats(); !s.Quiet || !s.Healthy {
			t.Errorf("stats %+v, want quiet and healthy", s)
		}
	})
}

func TestDrainReturnsWhenNothingIsEligible(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Concurrency: 3, Drain: true})
		var runs atomic.Int32
		worker.Handle(w, "job", func(ctx context.Context, c *worker.Claim[int]) error {
			time.Sleep(time.Second)
			runs.Add(1)
			if c.Args > 0 { // a job that makes another one
				_, err := book.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "job",
					Args: json.RawMessage(fmt.Sprint(c.Args - 1))})
				return err
			}
			return nil
		})
		for range 10 {
			enqueue(t, book, daybook.Request{Args: raw("2")})
		}
		later := enqueue(t, book, daybook.Request{Args: raw("0"), In: time.Hour})
		if err := w.Run(t.Context()); err != nil {
			t.Fatalf("Run: %v", err)
		}
		if runs.Load() != 30 {
			t.Errorf("%d runs, want 30", runs.Load())
		}
		book.RequireState(later, daybook.Waiting)
		if s := w.Stats(); s.Claimed != 30 || s.Succeeded != 30 || s.Running != 0 || s.Unrecorded != 0 {
			t.Errorf("stats after draining: %+v", s)
		}
	})
}

func TestRunTwiceAtOnceIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.start(t)
		after(time.Second)
		if err := p.Run(t.Context()); !errors.Is(err, daybook.ErrRefused) {
			t.Errorf("a second Run: %v, want refused", err)
		}
		p.end(t)
		if err := p.Drain(t.Context()); err != nil {
			t.Errorf("Run again after it returned: %v", err)
		}
	})
}

func TestStatsOfAFreshWorkerAreZero(t *testing.T) {
	book := daybooktest.New(t)
	w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
	if got := w.Stats(); !reflect.DeepEqual(got, worker.Stats{}) {
		t.Errorf("stats %+v, want zero", got)
	}
}
