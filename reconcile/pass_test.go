package reconcile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
)

func TestPassRepairs(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, book *daybooktest.Book) daybook.ID
		want  reconcile.Report
		state daybook.State
	}{
		{"nothing", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{In: time.Hour})
		}, reconcile.Report{}, daybook.Waiting},
		{"lost claim", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{})
			claim(t, book.Book, time.Second)
			return id
		}, reconcile.Report{Ended: 1, Lost: 1, Rung: 1}, daybook.Waiting},
		{"lost for good", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{MaxFailures: 1})
			claim(t, book.Book, time.Second)
			return id
		}, reconcile.Report{Ended: 1, Lost: 1}, daybook.SetAside},
		{"past its run limit", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{Timeout: time.Second})
			claim(t, book.Book, time.Hour)
			return id
		}, reconcile.Report{Overdue: 1, Rung: 1}, daybook.Waiting},
		{"expired", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{ExpiresAt: time.Now().Add(time.Second)})
		}, reconcile.Report{Expired: 1}, daybook.Expired},
		{"eligible", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{})
		}, reconcile.Report{Rung: 1}, daybook.Waiting},
		{"eligible before the next poll", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{In: 10*time.Second + daybook.PollDefault})
		}, reconcile.Report{Rung: 1}, daybook.Waiting},
		{"eligible after the next poll", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{In: 11*time.Second + daybook.PollDefault})
		}, reconcile.Report{}, daybook.Waiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := c.setup(t, book)
				time.Sleep(10 * time.Second)
				got := pass(t, book.Book, daybook.AtOnce)
				c.want.Certainty, c.want.Swept = daybook.AtOnce, got.Swept
				if got != c.want {
					t.Errorf("report %+v, want %+v", got, c.want)
				}
				book.RequireState(id, c.state)
				again := pass(t, book.Book, daybook.AtOnce)
				if again.Repaired() {
					t.Errorf("a second pass repairs again: %+v", again)
				}
			})
		})
	}
}

// One step that fails doesn't stop the others.
func TestFailedStepDoesNotStopTheOthers(t *testing.T) {
	steps := []string{"ending expired sessions", "revoking lost claims", "revoking overdue claims",
		"expiring jobs", "removing old jobs", "looking for eligible work"}
	for _, bad := range steps {
		t.Run(bad, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				own, f := flakyBook(book)
				broken := errors.New("broken")
				f.set(func(doing string) error {
					if doing == bad {
						return broken
					}
					return nil
				})
				_, err := reconcile.New(own, reconcile.Options{}).Pass(t.Context(), daybook.AtOnce)
				if !errors.Is(err, broken) {
					t.Errorf("Pass: %v, want the step's error", err)
				}
				for _, step := range steps {
					if f.count(step) == 0 {
						t.Errorf("step %q wasn't tried", step)
					}
				}
			})
		})
	}
}

// Losing a race to somebody's newer write is logged, and no failure.
func TestLostRaceIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		own, f := flakyBook(book)
		f.set(func(doing string) error {
			if doing == "revoking lost claims" {
				return daybook.Fail(daybook.CodeFenced, "job moved meanwhile")
			}
			return nil
		})
		var log bytes.Buffer
		r := reconcile.New(own, reconcile.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := r.Pass(t.Context(), daybook.Sure); err != nil {
			t.Errorf("Pass: %v", err)
		}
		if !strings.Contains(log.String(), "lost race") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	book := daybooktest.New(t)
	for _, o := range []reconcile.Options{{Every: -1}, {Every: time.Microsecond}, {Keep: time.Hour}} {
		r := reconcile.New(book.Book, o)
		if err := r.Run(t.Context()); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Run with %+v: %v, want invalid", o, err)
		}
		if _, err := r.Pass(t.Context(), daybook.Sure); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Pass with %+v: %v, want invalid", o, err)
		}
	}
}

// Finished jobs go after their retention, set-aside ones never.
func TestRetention(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		done, aside := enqueue(t, book, daybook.Request{Priority: 1}), enqueue(t, book, daybook.Request{})
		first := claim(t, book.Book, time.Minute)
		second := claim(t, book.Book, time.Minute)
		owner := daybook.Owner{Session: first.Session.ID, Generation: 1}
		if _, err := book.Complete(t.Context(), done, owner, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := book.Fail(t.Context(), aside, daybook.Owner{Session: second.Session.ID, Generation: 1},
			daybook.Failure{Permanent: true}, nil); err != nil {
			t.Fatal(err)
		}
		r := reconcile.New(book.Book, reconcile.Options{Keep: 72 * time.Hour})
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{71 * time.Hour, 0}, {time.Hour, 1}, {time.Hour, 0}} {
			time.Sleep(c.wait)
			report, err := r.Pass(t.Context(), daybook.Sure)
			if err != nil || report.Pruned != c.want {
				t.Errorf("pruned %d, %v; want %d", report.Pruned, err, c.want)
			}
		}
		book.RequireState(aside, daybook.SetAside)
		if _, err := book.Job(t.Context(), done); !errors.Is(err, daybook.ErrNotFound) {
			t.Errorf("the finished job: %v, want not found", err)
		}
	})
}
