package console

import (
	"context"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// queuesPage shows the queues, to pause and resume them.
type queuesPage struct {
	At   daybook.Time
	Rows []queueState
	More int
	Name string // a part of the names that are shown

	Paused bool // only paused ones
	Said   string
}

// queueState is a queue with its pause.
type queueState struct {
	daybook.Backlog
	Pause   daybook.Queue
	Workers int // sessions that may claim and say that they take from it
	Mute    int // and those that don't say what they take
	Lack    lack
	Lacks   bool // there is something that nobody says to take
}

// queuesShown bounds the rows.
const queuesShown = 500

func (c *Console) loadQueues(a *ask) (any, error) {
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	h, err := c.health(a.ctx)
	if err != nil {
		return nil, err
	}
	p := queuesPage{At: b.At, Name: strings.TrimSpace(a.query.Get("name")),
		Paused: a.query.Get("paused") != "", Said: queueSaid(a.query.Get("done"), a.query.Get("queue"), b.Queues)}
	rows := slices.DeleteFunc(slices.Clone(b.Queues), func(q daybook.Backlog) bool {
		return !strings.Contains(q.Queue, p.Name) || p.Paused && !q.Paused
	})
	if p.More = max(0, len(rows)-queuesShown); p.More > 0 {
		rows = rows[:queuesShown]
	}
	sessions := takersOf(h)
	for _, q := range rows {
		row := queueState{Backlog: q, Workers: len(sessions.of[q.Queue]), Mute: len(sessions.mute)}
		row.Lack, row.Lacks = sessions.lacks(q)
		for _, paused := range h.Paused {
			if paused.Name == q.Queue {
				row.Pause = paused
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// queueSaid is what was just done to a queue, while it still holds.
func queueSaid(done, queue string, all []daybook.Backlog) string {
	at := slices.IndexFunc(all, func(q daybook.Backlog) bool { return q.Queue == queue })
	switch {
	case at < 0:
		return ""
	case done == "pause" && all[at].Paused:
		return "Paused queue " + queue + ": nothing is claimed from it any more; what runs runs on."
	case done == "resume" && !all[at].Paused:
		return "Resumed queue " + queue + ": workers may take from it again."
	}
	return ""
}

// workersPage shows the sessions, and what each is running.
type workersPage struct {
	Now    daybook.Time
	Rows   []workerRow
	Ended  bool // ended ones too
	Full   bool // there may be more
	Cut    bool // not all running jobs were looked at
	Said   string
	Counts map[string]int
}

// workerRow is a session with its claims.
type workerRow struct {
	daybook.Session
	State string // live, quiet, lapsed or ended
	Shape string
	Jobs  []daybook.Job // the newest few
}

// runningLooked is how many running jobs are looked at, and runningShown how many
// of a session are named.
const runningLooked, runningShown = 1000, 8

// fleet is what one look at the workers saw.
type fleet struct {
	Now      daybook.Time
	Sessions []daybook.Session
	Running  daybook.Page[daybook.Job]
}

func (c *Console) fleet(ctx context.Context, ended bool) (fleet, error) {
	key := "fleet " + "ended"[:5*btoi(ended)]
	return see(ctx, c, key, func(ctx context.Context) (f fleet, err error) {
		err = c.book.Store().Read(ctx, "listing workers", func(v daybook.View) (err error) {
			f.Now = v.Now()
			filter := daybook.SessionFilter{Limit: sessionsMost, WithEnded: ended}
			if f.Sessions, err = v.Sessions(ctx, filter); err != nil {
				return err
			}
			f.Running, err = v.Jobs(ctx, daybook.Filter{State: daybook.Running, Limit: runningLooked, Brief: true})
			return err
		})
		return f, err
	})
}

func (c *Console) loadWorkers(a *ask) (any, error) {
	p := workersPage{Ended: a.query.Get("ended") != "", Counts: map[string]int{}}
	if done := a.query.Get("done"); done == "quiet" {
		p.Said = said(done)
	}
	f, err := c.fleet(a.ctx, p.Ended)
	if err != nil {
		return nil, err
	}
	p.Now, p.Full, p.Cut = f.Now, len(f.Sessions) == sessionsMost, f.Running.Cursor != ""
	running := map[daybook.ID][]daybook.Job{}
	for _, j := range f.Running.Items {
		if len(running[j.Session]) < runningShown {
			running[j.Session] = append(running[j.Session], j)
		}
	}
	for _, s := range f.Sessions {
		row := workerRow{Session: s, State: "live", Shape: "running", Jobs: running[s.ID]}
		switch {
		case !s.Live():
			row.State, row.Shape = "ended", "cancelled"
		case s.ExpiresAt <= f.Now:
			row.State, row.Shape = "lapsed", "alert"
		case s.Quiet:
			row.State, row.Shape = "quiet", "paused"
		}
		p.Counts[row.State]++
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// bellsPage shows the bell's depth beside the book's counts.
type bellsPage struct {
	daybook.Inventory
	Kind  string // in words
	Stats *daybook.BellStats
	Rings bool // the bell keeps rings
}

func (c *Console) loadBells(a *ask) (any, error) {
	inv, err := see(a.ctx, c, "inventory", c.book.Inventory)
	if err != nil {
		return nil, err
	}
	p := bellsPage{Inventory: inv, Kind: "none"}
	if len(p.Queues) > queuesShown {
		p.Queues = p.Queues[:queuesShown]
	}
	outside := c.book.Outside()
	switch {
	case outside != nil:
		stats := outside.Stats()
		p.Kind, p.Stats = "outside", &stats
	case c.book.Bell() != nil:
		p.Kind = "inside"
	}
	for _, q := range p.Queues {
		p.Rings = p.Rings || q.Rings != nil
	}
	return p, nil
}

// keysPage explains shortcuts and words.
type keysPage struct{ States []daybook.State }

func (c *Console) loadKeys(*ask) (any, error) { return keysPage{daybook.States}, nil }
