package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// world is what an effect's destination saw: how often each key came.
type world struct {
	mu    sync.Mutex
	calls []string
}

func (w *world) call(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, key)
	return len(w.calls)
}

// keys is the calls, with a letter for each key that differs.
func (w *world) keys() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	letters, all := map[string]string{}, ""
	for _, k := range w.calls {
		if letters[k] == "" {
			letters[k] = string(rune('a' + len(letters)))
		}
		all += letters[k]
	}
	return all
}

var errTimeout = errors.New("no answer")

// TestEffectPolicies: what each policy makes of what became of the calls. Each
// attempt of the handler makes one use of the effect, and its error is the
// handler's.
func TestEffectPolicies(t *testing.T) {
	lost := func(n int) error { return errTimeout }
	once := func(n int) error { // no answer the first time
		if n == 1 {
			return errTimeout
		}
		return nil
	}
	no := func(n int) error {
		if n == 1 {
			return worker.NotHappened(errors.New("connection refused"))
		}
		return nil
	}
	found := worker.Checked(func(context.Context, string) (int, bool, error) { return 41, true, nil }, 10*time.Second)
	missing := worker.Checked(func(context.Context, string) (int, bool, error) { return 0, false, nil }, 10*time.Second)
	unsure := worker.Checked(func(context.Context, string) (int, bool, error) { return 0, true, errTimeout }, 0)
	for _, tt := range []struct {
		name    string
		policy  worker.EffectPolicy
		options []worker.EffectOption
		fate    func(n int) error
		keys    string // of the calls
		state   string
		result  string
		effect  daybook.EffectState
	}{
		{"done", worker.Ask, nil, func(int) error { return nil }, "a", "succeeded", "1", daybook.EffectDone},
		{"absent, then done", worker.Ask, nil, no, "aa", "succeeded", "2", daybook.EffectDone},
		{"absent, then the next key", worker.Ask, []worker.EffectOption{worker.NextKey()}, no, "ab", "succeeded", "2",
			daybook.EffectDone},
		{"ask", worker.Ask, nil, once, "a", "set_aside effect_open", "", daybook.EffectIsOpen},
		{"repeatable", worker.Repeatable, nil, once, "aa", "succeeded", "2", daybook.EffectDone},
		{"keyed, inside the window", worker.Keyed(time.Hour), nil, once, "aa", "succeeded", "2", daybook.EffectDone},
		{"keyed, past the window", worker.Keyed(time.Second), nil, lost, "a", "set_aside effect_open", "",
			daybook.EffectIsOpen},
		{"checked, found", found, nil, once, "a", "succeeded", "41", daybook.EffectDone},
		{"checked, absent", missing, nil, once, "aa", "succeeded", "2", daybook.EffectDone},
		{"checked, can't tell", unsure, nil, once, "a", "set_aside effect_open", "", daybook.EffectIsOpen},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				w, out := newProcess(t, book, worker.Config{}), world{}
				worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
					n, err := worker.Effect(ctx, "charge", tt.policy, func(_ context.Context, key string) (int, error) {
						n := out.call(key)
						return n, tt.fate(n)
					}, tt.options...)
					if err != nil {
						return err
					}
					return c.SetResult(n)
				})
				id := enqueue(t, book, daybook.Request{})
				w.start(t)
				after(time.Hour)
				j := jobOf(t, book, id)
				if got := strings.TrimSpace(string(j.State) + " " + string(j.Reason)); got != tt.state {
					t.Errorf("job is %s, want %s; last error %v", got, tt.state, j.LastError)
				}
				if out.keys() != tt.keys || string(j.Result) != tt.result {
					t.Errorf("calls %s with result %s, want %s with %s", out.keys(), j.Result, tt.keys, tt.result)
				}
				if e := effectOf(t, book, id, "charge"); e.State != tt.effect || e.Doubled {
					t.Errorf("effect is %s, doubled %t; want %s", e.State, e.Doubled, tt.effect)
				}
			})
		})
	}
}

func effectOf(t *testing.T, book *daybooktest.Book, id daybook.ID, name string) daybook.Effect {
	t.Helper()
	page, err := book.Effects(t.Context(), daybook.EffectFilter{Job: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("job %s has no effect %s", id, name)
	return daybook.Effect{}
}

// TestEffectReplays: an effect that is done is not called again, whatever became
// of the attempt that did it, and numbers come back as they were.
func TestEffectReplays(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w, out := newProcess(t, book, worker.Config{}), world{}
		worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
			doc, err := worker.Effect(ctx, "charge", worker.Ask, func(_ context.Context, key string) (json.RawMessage, error) {
				out.call(key)
				return json.RawMessage(`{"id": 9007199254740993, "n": 1.0}`), nil
			}, worker.Input("5 EUR"))
			if err == nil && c.Attempt() < 4 {
				err = errors.New("afterwards")
			}
			if err != nil {
				return err
			}
			return c.SetResult(doc)
		})
		id := enqueue(t, book, daybook.Request{})
		w.start(t)
		after(time.Minute)
		if j := jobOf(t, book, id); string(j.Result) != `{"id": 9007199254740993, "n": 1.0}` || out.keys() != "a" {
			t.Errorf("%s with result %s after calls %q", j.State, j.Result, out.keys())
		}
	})
}

// TestEffectSettled: what a person says is what the next attempt goes on from.
func TestEffectSettled(t *testing.T) {
	for _, happened := range []bool{true, false} {
		t.Run(fmt.Sprint(happened), func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				w, out := newProcess(t, book, worker.Config{}), world{}
				worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
					n, err := worker.Effect(ctx, "charge", worker.Ask, func(_ context.Context, key string) (int, error) {
						if n := out.call(key); n > 1 {
							return n, nil
						}
						return 0, errTimeout
					})
					if err != nil {
						return err
					}
					return c.SetResult(n)
				})
				id := enqueue(t, book, daybook.Request{})
				w.start(t)
				after(time.Minute)
				verdict := daybook.Verdict{Happened: happened}
				want, calls := "2", "aa"
				if happened {
					verdict.Result, want, calls = json.RawMessage(`77`), "77", "a"
				}
				if _, err := book.Revive(t.Context(), id, person); !errors.Is(err, daybook.ErrEffectOpen) {
					t.Errorf("revived with an open effect: %v", err)
				}
				if _, err := book.Settle(t.Context(), id, "charge", verdict, person); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				if j := jobOf(t, book, id); string(j.Result) != want || out.keys() != calls || j.State != daybook.Succeeded {
					t.Errorf("%s with %s after %s; want %s after %s", j.State, j.Result, out.keys(), want, calls)
				}
			})
		})
	}
}

var person = daybook.By{Actor: "ada", Reason: "looked"}

// TestEffectNames: in one attempt a name stands for one action; several with names
// of their own may run side by side.
func TestEffectNames(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := newProcess(t, book, worker.Config{})
		worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
			call := func(context.Context, string) (int, error) { return 1, nil }
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					if _, err := worker.Effect(ctx, fmt.Sprint("item-", i), worker.Ask, call); err != nil {
						t.Errorf("item %d: %v", i, err)
					}
				})
			}
			all.Wait()
			_, err := worker.Effect(ctx, "item-3", worker.Ask, call)
			if !errors.Is(err, daybook.ErrEffectNameReused) {
				t.Errorf("a name used twice: %v", err)
			}
			for _, wrong := range []struct {
				name    string
				policy  worker.EffectPolicy
				options []worker.EffectOption
			}{
				{"handler", worker.Ask, nil}, {"no spaces", worker.Ask, nil}, {"nothing declared", worker.EffectPolicy{}, nil},
				{"x", worker.EffectPolicy{}, nil}, {"x", worker.Keyed(0), nil},
				{"x", worker.Ask, []worker.EffectOption{worker.CallLimit(16 * time.Second)}},
				{"x", worker.Keyed(time.Second), []worker.EffectOption{worker.CallLimit(2 * time.Second)}},
				{"x", worker.Ask, []worker.EffectOption{worker.Input(func() {})}},
			} {
				_, err := worker.Effect(ctx, wrong.name, wrong.policy, call, wrong.options...)
				if !errors.Is(err, daybook.ErrInvalid) {
					t.Errorf("%+v: %v, want invalid", wrong, err)
				}
			}
			return nil
		})
		id := enqueue(t, book, daybook.Request{})
		w.start(t)
		after(time.Minute)
		if j := jobOf(t, book, id); j.State != daybook.Succeeded {
			t.Errorf("job is %s", j.State)
		}
		_, err := worker.Effect(t.Context(), "x", worker.Ask, func(context.Context, string) (int, error) { return 1, nil })
		if !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("outside a handler: %v", err)
		}
	})
}

// TestEffectSwallowed: a handler that says nothing of its open effect doesn't
// succeed; its attempt fails, and the policy decides.
func TestEffectSwallowed(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w, out := newProcess(t, book, worker.Config{}), world{}
		worker.Handle(w.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			_, _ = worker.Effect(ctx, "charge", worker.Ask, func(_ context.Context, key string) (int, error) {
				out.call(key)
				return 0, errTimeout
			})
			return nil
		})
		id := enqueue(t, book, daybook.Request{})
		w.start(t)
		after(time.Minute)
		j := jobOf(t, book, id)
		if j.State != daybook.SetAside || j.Reason != daybook.ReasonEffectOpen || out.keys() != "a" || j.Failures != 1 {
			t.Errorf("job is %s (%s) after %d failures and calls %s", j.State, j.Reason, j.Failures, out.keys())
		}
	})
}

// TestEffectChanged: another attempt that would do something else under the same
// name is stopped.
func TestEffectChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w, out := newProcess(t, book, worker.Config{}), world{}
		worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
			_, err := worker.Effect(ctx, "charge", worker.Repeatable, func(_ context.Context, key string) (int, error) {
				out.call(key)
				return 0, errTimeout
			}, worker.Input(map[string]int{"amount": c.Attempt()}))
			return err
		})
		id := enqueue(t, book, daybook.Request{})
		w.start(t)
		after(time.Minute)
		j := jobOf(t, book, id)
		if j.State != daybook.SetAside || j.Reason != daybook.ReasonEffectChanged || out.keys() != "a" {
			t.Errorf("job is %s (%s) after calls %s", j.State, j.Reason, out.keys())
		}
	})
}

// TestEffectStricter: a later attempt may declare a stricter policy, and no laxer.
func TestEffectStricter(t *testing.T) {
	for _, tt := range []struct {
		first, second worker.EffectPolicy
		state         daybook.State
		calls         string
	}{
		{worker.Repeatable, worker.Ask, daybook.SetAside, "a"},
		{worker.Ask, worker.Repeatable, daybook.Waiting, "a"},
		{worker.Keyed(time.Hour), worker.Keyed(24 * time.Hour), daybook.Succeeded, "aa"},
	} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			w, out := newProcess(t, book, worker.Config{}), world{}
			worker.Handle(w.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
				policy := tt.first
				if c.Attempt() > 1 {
					policy = tt.second
				}
				_, err := worker.Effect(ctx, "charge", policy, func(_ context.Context, key string) (int, error) {
					if n := out.call(key); n > 1 {
						return n, nil
					}
					return 0, errTimeout
				})
				return err
			})
			id := enqueue(t, book, daybook.Request{})
			w.start(t)
			after(5 * time.Minute)
			if j := jobOf(t, book, id); j.State != tt.state || out.keys() != tt.calls {
				t.Errorf("%v then %v: job is %s after %s", tt.first, tt.second, j.State, out.keys())
			}
		})
	}
}

// TestL12_PausedInAnEffect: a worker that is stopped in its call and goes on after another
// has done the work is fenced; what it says is kept, and shown.
func TestL12_PausedInAnEffect(t *testing.T) {
	absent := worker.Checked(func(context.Context, string) (int, bool, error) { return 0, false, nil }, 0)
	for _, tt := range []struct {
		name    string
		policy  worker.EffectPolicy
		doubled bool
	}{
		{"checked", absent, true}, {"keyed", worker.Keyed(time.Hour), false}, {"repeatable", worker.Repeatable, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				if tt.doubled {
					book.ExpectBroken("effect-doubled")
				}
				goOn, finished := make(chan struct{}), make(chan error, 1)
				var out world
				handle := func(ctx context.Context, c *worker.Claim[none]) error {
					n, err := worker.Effect(ctx, "charge", tt.policy, func(_ context.Context, key string) (int, error) {
						n := out.call(key)
						if n == 1 {
							<-goOn // as in a process that is stopped
						}
						return n, nil
					})
					if c.Generation() == 1 {
						finished <- err
					}
					return errors.Join(err, c.SetResult(n))
				}
				first := newProcess(t, book, worker.Config{Name: "first"})
				worker.Handle(first.Worker, "job", handle)
				id := enqueue(t, book, daybook.Request{})
				first.start(t)
				synctest.Wait()
				first.cut()
				second := newProcess(t, book, worker.Config{Name: "second"})
				worker.Handle(second.Worker, "job", handle)
				second.start(t)
				after(10 * time.Minute)
				if j := jobOf(t, book, id); j.State != daybook.Succeeded || string(j.Result) != "2" {
					t.Fatalf("job is %s with %s", j.State, j.Result)
				}
				first.mend()
				close(goOn)
				if err := <-finished; !errors.Is(err, daybook.ErrFenced) {
					t.Errorf("the late finish: %v, want fenced", err)
				}
				after(time.Minute)
				e := effectOf(t, book, id, "charge")
				if e.Doubled != tt.doubled || len(e.Late) != 1 || e.Late[0].Outcome != daybook.OutcomeDone ||
					e.Late[0].Said != "1" {
					t.Errorf("doubled %t with %+v, want %t", e.Doubled, e.Late, tt.doubled)
				}
				want := "fenced effect finish charge refused: not the owner any more. done 1"
				if all := timelineOf(t, book, id); !strings.Contains(all, want) {
					t.Errorf("timeline:\n%s", all)
				}
			})
		})
	}
}

func timelineOf(t *testing.T, book *daybooktest.Book, id daybook.ID) string {
	t.Helper()
	events, err := book.Timeline(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%d %s %s", e.Generation, e.What, e.Detail))
	}
	return strings.Join(all, "\n")
}

func jobOf(t *testing.T, book *daybooktest.Book, id daybook.ID) daybook.Job {
	t.Helper()
	j, err := book.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
