package sqlite

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestNextDue: what is eligible, what becomes so next, and what counts for
// neither (held, expired, expiring before it is due, claimed, paused).
func TestNextDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sec := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	later := func(n, priority int) daybook.Request {
		return daybook.Request{RunAt: sec(n), Priority: priority}
	}
	expiring := func(n, expires int) daybook.Request {
		return daybook.Request{RunAt: sec(n), ExpiresAt: sec(expires)}
	}
	for _, c := range []struct {
		name        string
		jobs        []daybook.Request
		ready       bool
		next, later int // seconds from the look; 0 is none
		paused      bool
		retryIn     time.Duration
	}{
		{name: "none"},
		{name: "one later", jobs: []daybook.Request{later(30, 0)}, next: 20, later: 20},
		{name: "lower priority first", jobs: []daybook.Request{later(40, 5), later(30, 0), later(35, -5)},
			next: 20, later: 20},
		{name: "eligible", jobs: []daybook.Request{later(5, 0)}, ready: true, next: -5},
		{name: "eligible and later", jobs: []daybook.Request{later(5, 0), later(6, 0), later(30, 1), later(25, 0)},
			ready: true, next: -5, later: 15},
		{name: "expired", jobs: []daybook.Request{expiring(1, 9), later(30, 0)}, next: 20, later: 20},
		{name: "expires before its retry", jobs: []daybook.Request{expiring(1, 20), later(30, 0)},
			retryIn: 15 * time.Second, next: 20, later: 20},
		{name: "retried in time", jobs: []daybook.Request{expiring(1, 20), later(30, 0)},
			retryIn: 5 * time.Second, next: 5, later: 5},
		{name: "expires in time", jobs: []daybook.Request{expiring(20, 25), later(30, 0)}, next: 10, later: 10},
		{name: "paused", jobs: []daybook.Request{later(5, 0), later(30, 0)}, ready: true, next: -5, later: 20,
			paused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, clock := t.Context(), now
			book, err := Open(ctx, Memory, Options{Now: func() time.Time { return clock }})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			for _, r := range c.jobs {
				r.Queue, r.Kind = "q", "job"
				if _, err := book.Enqueue(ctx, r); err != nil {
					t.Fatal(err)
				}
			}
			if c.paused {
				if err := book.Pause(ctx, "q", daybook.By{Actor: "ada"}); err != nil {
					t.Fatal(err)
				}
			}
			clock = sec(10)
			if c.retryIn != 0 {
				failNext(t, ctx, book, c.retryIn)
			}
			at := func(n int) daybook.Time {
				if n == 0 {
					return 0
				}
				return daybook.At(clock.Add(time.Duration(n) * time.Second))
			}
			got := queueOf(t, ctx, book)
			if got.Ready != c.ready || got.Next != at(c.next) || got.NextLater != at(c.later) {
				t.Errorf("ready %v, next %s, later %s; want %v, %s, %s", got.Ready, got.Next, got.NextLater,
					c.ready, at(c.next), at(c.later))
			}
			want, wantLater := at(c.next), at(c.later)
			if c.paused {
				want, wantLater = 0, 0
			}
			for _, look := range []struct{ passed, want daybook.Time }{{0, want}, {daybook.At(clock), wantLater}} {
				due, at, err := book.NextDue(ctx, []string{"other", "q"}, look.passed)
				if err != nil || due != look.want || at != daybook.At(clock) {
					t.Errorf("NextDue past %s: %s at %s, %v; want %s", look.passed, due, at, err, look.want)
				}
			}
			if due, _, err := book.NextDue(ctx, []string{"other"}, 0); err != nil || due != 0 {
				t.Errorf("NextDue of another queue: %s, %v; want none", due, err)
			}
		})
	}
}

func queueOf(t *testing.T, ctx context.Context, book *daybook.Book) (found daybook.Queue) {
	t.Helper()
	queues, err := book.Queues(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(queues, func(q daybook.Queue) bool { return q.Name == "q" }); i >= 0 {
		found = queues[i]
	}
	return found
}

func failNext(t *testing.T, ctx context.Context, book *daybook.Book, retryIn time.Duration) {
	t.Helper()
	claimed, err := book.Claim(ctx, daybook.ClaimRequest{Queues: []string{"q"}})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(claimed.Jobs), err)
	}
	j := claimed.Jobs[0]
	answers, err := book.Finish(ctx, []daybook.Outcome{{Job: j.ID, Kind: daybook.OutcomeFailed, RetryIn: &retryIn,
		Owner: daybook.Owner{Session: j.Session, Generation: j.Generation}}})
	if err != nil || answers[0].Err != nil {
		t.Fatalf("Finish: %v, %v", answers, err)
	}
}
