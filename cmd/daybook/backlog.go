package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// counted is a book that shows its numbers.
type counted interface {
	Backlog(ctx context.Context) (daybook.Time, []daybook.Backlog, error)
	Inventory(ctx context.Context) (daybook.Inventory, error)
}

var _, _ counted = (*daybook.Book)(nil), (*client.Client)(nil)

// snapshot is the backlog at one time.
type snapshot struct {
	At     daybook.Time      `json:"at"`
	Queues []daybook.Backlog `json:"queues"`
}

// flow is what went through one queue between two looks. Requests and attempts
// are counted apart, and every way in which a queue gets shorter has its own
// number: a queue that shrinks because jobs are set aside isn't a healthy one.
type flow struct {
	Accepted  int64 `json:"accepted"`
	MovedIn   int64 `json:"moved_in"`
	Revived   int64 `json:"revived"`
	Attempts  int64 `json:"attempts"`
	Succeeded int64 `json:"succeeded"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	SetAside  int64 `json:"set_aside"`
	MovedOut  int64 `json:"moved_out"`
}

// watched is one queue with what flowed since the last look.
type watched struct {
	daybook.Backlog
	Flow flow `json:"flow"`
}

// interval is one step of --watch.
type interval struct {
	At      daybook.Time `json:"at"`
	Seconds float64      `json:"seconds"` // since the last look; 0 at the first
	Queues  []watched    `json:"queues"`
}

func (a *app) backlogCommand() *cobra.Command {
	var watch bool
	var every time.Duration
	var times int
	cmd := &cobra.Command{
		Use: "backlog", Short: "Show every queue in numbers, or how they change",
		Example: example("daybook backlog", "daybook backlog --watch --every 100ms --times 2"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "look again and again, with the flows between (default false)")
	durationVar(cmd.Flags(), &every, "every", 2*time.Second, "how long between two looks (10ms…24h)")
	cmd.Flags().IntVar(&times, "times", 0, "stop after so many looks (0 or more; default 0, until interrupted)")
	cmd.RunE = with(a, func(ctx context.Context, book counted, _ []string) error {
		if every < 10*time.Millisecond || every > 24*time.Hour {
			return daybook.Invalid("every", "wants 10ms…24h, got %s", every)
		}
		if times < 0 {
			return daybook.Invalid("times", "wants 0 or more, got %d", times)
		}
		if watch {
			return a.watchBacklog(ctx, book, every, times)
		}
		at, backlog, err := lookAt(ctx, book)
		if err != nil {
			return err
		}
		return showList(a, snapshot{at, orEmpty(backlog)}, backlog, backlogHead, drawBacklog)
	})
	return cmd
}

// lookAt reads the backlog, with empty lists as such.
func lookAt(ctx context.Context, book counted) (daybook.Time, []daybook.Backlog, error) {
	at, backlog, err := book.Backlog(ctx)
	for i := range backlog {
		backlog[i].Kinds = orEmpty(backlog[i].Kinds)
	}
	return at, backlog, err
}

var backlogHead = []string{"QUEUE", "ELIGIBLE", "OLDEST", "LATER", "HELD", "RUNNING", "SET ASIDE", "ACCEPTED",
	"ATTEMPTS", "SUCCEEDED"}

func drawBacklog(t *table, b daybook.Backlog) {
	name, oldest := b.Queue, "-"
	if b.Paused {
		name += " (paused)"
	}
	if b.Oldest > 0 {
		oldest = shortDuration(time.Duration(b.Oldest * float64(time.Second)).Round(time.Second / 10))
	}
	t.row(name, b.Eligible, oldest, b.Later, b.Held, b.Running, b.SetAside, b.Accepted, b.Attempts, b.Succeeded)
}

// watchBacklog looks again and again until it was looked often enough or the
// person has seen enough.
func (a *app) watchBacklog(ctx context.Context, book counted, every time.Duration, times int) error {
	var last daybook.Time
	before := map[string]daybook.Counts{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		at, backlog, err := lookAt(ctx, book)
		if err != nil {
			return quietEnd(ctx, err)
		}
		step := interval{At: at, Queues: []watched{}}
		if last != 0 {
			step.Seconds = at.Sub(last).Seconds()
		}
		for _, b := range backlog {
			step.Queues = append(step.Queues, watched{b, flowOf(before[b.Queue], b.Counts, last == 0)})
			before[b.Queue] = b.Counts
		}
		last = at
		if err := a.drawInterval(step); err != nil {
			return err
		}
		if n == times {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// quietEnd forgets an error that only says that the person had seen enough.
func quietEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func flowOf(was, now daybook.Counts, first bool) flow {
	if first {
		return flow{}
	}
	return flow{
		Accepted: now.Accepted - was.Accepted, MovedIn: now.MovedIn - was.MovedIn,
		Revived:  now.Revived - was.Revived,
		Attempts: now.Attempts - was.Attempts, Succeeded: now.Succeeded - was.Succeeded,
		Cancelled: now.EverCancelled - was.EverCancelled, Expired: now.EverExpired - was.EverExpired,
		SetAside: now.EverSetAside - was.EverSetAside, MovedOut: now.MovedOut - was.MovedOut,
	}
}

func (a *app) drawInterval(step interval) error {
	if a.json() {
		return daybook.EncodeJSON(a.stdout, step)
	}
	if a.terminal(a.stdout) {
		if _, err := io.WriteString(a.stdout, "\x1b[H\x1b[2J"); err != nil {
			return err
		}
	}
	since := "first look"
	if step.Seconds > 0 {
		since = fmt.Sprintf("in %.1f s", step.Seconds)
	}
	if _, err := fmt.Fprintf(a.stdout, "%s  %s\n", step.At, since); err != nil {
		return err
	}
	t := &table{head: []string{"QUEUE", "ELIGIBLE", "LATER", "HELD", "RUNNING", "+ACCEPTED", "+MOVED IN",
		"+REVIVED",
		"ATTEMPTS", "-SUCCEEDED", "-CANCELLED", "-EXPIRED", "-SET ASIDE", "-MOVED OUT"}}
	for _, q := range step.Queues {
		f := q.Flow
		t.row(q.Queue, q.Eligible, q.Later, q.Held, q.Running, f.Accepted, f.MovedIn, f.Revived,
			f.Attempts, f.Succeeded, f.Cancelled, f.Expired, f.SetAside, f.MovedOut)
	}
	return t.write(a.stdout)
}
