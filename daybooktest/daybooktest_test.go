package daybooktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type welcome struct {
	To string `json:"to"`
}

// signUp is what a user's program might do.
func signUp(ctx context.Context, book *daybook.Book, to string) error {
	args, err := json.Marshal(welcome{To: to})
	if err != nil {
		return err
	}
	_, err = book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome", Args: args, Key: "signup-" + to})
	return err
}

func mailer(book *daybooktest.Book, send func(to string) error) *worker.Worker {
	w := worker.New(book.Book, worker.Config{Queues: []string{"mail"}, NoLoops: true})
	worker.Handle(w, "welcome", func(_ context.Context, c *worker.Claim[welcome]) error { return send(c.Args.To) })
	return w
}

func TestRequireEnqueued(t *testing.T) {
	book := daybooktest.New(t)
	for _, to := range []string{"ada@example.org", "bob@example.org", "ada@example.org"} {
		if err := signUp(t.Context(), book.Book, to); err != nil {
			t.Fatal(err)
		}
	}
	j := book.RequireEnqueued("welcome", daybooktest.MatchArgs(welcome{To: "ada@example.org"}))
	if got := daybooktest.Args[welcome](t, j); got.To != "ada@example.org" {
		t.Errorf("args %+v", got)
	}
	book.RequireNone("welcome", daybooktest.MatchArgs(map[string]string{"to": "eve@example.org"}))
	book.RequireNone("goodbye", nil)
	if got := len(book.Enqueued("")); got != 2 {
		t.Errorf("%d jobs enqueued, want 2", got)
	}
}

// A day's retries in no time, in a bubble.
func TestRunUntilIdleInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := daybooktest.New(t)
		if err := signUp(t.Context(), book.Book, "ada@example.org"); err != nil {
			t.Fatal(err)
		}
		tries := 0
		w := mailer(book, func(string) error {
			if tries++; tries < 3 {
				return errors.New("mailbox busy")
			}
			return nil
		})
		for n := 1; n <= 3; n++ {
			book.RunUntilIdle(t.Context(), w)
			if tries != n {
				t.Fatalf("%d tries after %d runs", tries, n)
			}
			time.Sleep(time.Hour)
		}
		id := book.RequireEnqueued("welcome", nil).ID
		if j := book.RequireState(id, daybook.Succeeded); j.Failures != 2 {
			t.Errorf("%d failures, want 2", j.Failures)
		}
	})
}

// Workers feed each other; all of it runs.
func TestRunUntilIdleFollowsWhatHandlersEnqueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := daybooktest.New(t)
		step := func(queue, next string) *worker.Worker {
			w := worker.New(book.Book, worker.Config{Queues: []string{queue}, NoLoops: true})
			worker.Handle(w, "step", func(ctx context.Context, c *worker.Claim[int]) error {
				if c.Args == 0 {
					return nil
				}
				_, err := book.Enqueue(ctx, daybook.Request{Queue: next, Kind: "step",
					Args: json.RawMessage(fmt.Sprint(c.Args - 1))})
				return err
			})
			return w
		}
		ping, pong := step("ping", "pong"), step("pong", "ping")
		if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "pong", Kind: "step",
			Args: json.RawMessage("9")}); err != nil {
			t.Fatal(err)
		}
		book.RunUntilIdle(t.Context(), ping, pong)
		if got := ping.Stats().Succeeded + pong.Stats().Succeeded; got != 10 {
			t.Errorf("%d steps ran, want 10", got)
		}
	})
}

// stage is a testing.TB that notes what would have failed the test.
type stage struct {
	testing.TB
	said []string
}

// ended is how stage leaves a test that failed for good.
type ended struct{}

func (s *stage) Errorf(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(ended{})
}

// on runs a test on a stage and returns what it said.
func on(t *testing.T, test func(s *stage, book *daybooktest.Book)) string {
	t.Helper()
	s := &stage{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (ended{}) {
				panic(p)
			}
		}()
		test(s, daybooktest.New(s))
	}()
	return strings.Join(s.said, "\n")
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s *stage, book *daybooktest.Book)
		want string
	}{
		{"none enqueued", func(_ *testing.T, _ *stage, book *daybooktest.Book) {
			book.RequireEnqueued("welcome", nil)
		}, `0 jobs of kind "welcome" match, want 1; enqueued are none`},
		{"other args", func(t *testing.T, _ *stage, book *daybooktest.Book) {
			signUp(t.Context(), book.Book, "ada")
			book.RequireEnqueued("welcome", daybooktest.MatchArgs(welcome{To: "bob"}))
		}, "0 jobs of kind \"welcome\" match, want 1; enqueued are\n\twelcome waiting {\"to\":\"ada\"}"},
		{"some", func(t *testing.T, _ *stage, book *daybooktest.Book) {
			signUp(t.Context(), book.Book, "ada")
			book.RequireNone("", nil)
		}, "1 jobs of kind \"\" match, want none:\n\twelcome waiting {\"to\":\"ada\"}"},
		{"another state", func(t *testing.T, _ *stage, book *daybooktest.Book) {
			signUp(t.Context(), book.Book, "ada")
			book.RequireState(book.Enqueued("")[0].ID, daybook.Succeeded)
		}, "of kind welcome is waiting, want succeeded; its last error: none"},
		{"other type", func(t *testing.T, s *stage, book *daybooktest.Book) {
			signUp(t.Context(), book.Book, "ada")
			daybooktest.Args[[]int](s, book.Enqueued("")[0])
		}, "don't decode into []int"},
		{"worker that can't run", func(t *testing.T, _ *stage, book *daybooktest.Book) {
			book.RunUntilIdle(t.Context(), worker.New(book.Book, worker.Config{}))
		}, "running until idle: queues: is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := on(t, func(s *stage, book *daybooktest.Book) { c.test(t, s, book) })
			if !strings.Contains(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
}

// A book that breaks an invariant fails its test.
func TestCheckFindsABrokenBook(t *testing.T) {
	s := &stage{TB: t}
	book := daybooktest.New(s)
	if err := signUp(t.Context(), book.Book, "ada"); err != nil {
		t.Fatal(err)
	}
	daybooktest.Check(s, book.Book)
	if len(s.said) != 0 {
		t.Fatalf("a healthy book: %v", s.said)
	}
	id := book.RequireEnqueued("welcome", nil).ID
	err := book.Store().Write(t.Context(), "breaking the book", func(tx daybook.Tx) error {
		jobs, err := tx.Lock(t.Context(), []daybook.ID{id})
		if err != nil {
			return err
		}
		now := jobs[0]
		now.Generation = 7 // which no attempt accounts for
		return tx.Save(t.Context(), []daybook.Change{{Move: daybook.MoveUnhold, Was: jobs[0], Now: now}})
	})
	if err != nil {
		t.Fatal(err)
	}
	daybooktest.Check(s, book.Book)
	if got := strings.Join(s.said, "\n"); !strings.Contains(got, "generation-history") {
		t.Errorf("a broken book: %q, want generation-history", got)
	}
}
