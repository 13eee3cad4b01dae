package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/worker"
)

// processScenes befall one process, or the file that it writes to.
var processScenes = []scene{
	{name: "sigterm", what: "a worker of the load is told to stop (SIGTERM)", run: sigterm},
	{name: "server-killed", what: "the server that an enqueuer puts jobs in through is killed", run: serverKilled},
	{name: "clock-ahead", what: "a worker's wall clock is an hour ahead", run: clockOff(time.Hour)},
	{name: "clock-behind", what: "a worker's wall clock is an hour behind", run: clockOff(-time.Hour)},
	{name: "file-full", what: "the SQLite file can't grow (max_page_count)", needs: func(s *stand) string {
		if s.site.Full == nil {
			return "the store is no SQLite file"
		}
		return ""
	}, run: fileFull},
}

// stopMost is what a worker may take to stop: its grace of a second, another one,
// and what a busy machine needs.
const stopMost = 5 * time.Second

// sigterm stops a worker in the middle of the load: it ends by itself, in its
// time, and what it had goes on elsewhere.
func sigterm(ctx context.Context, l *lane, e *evidence) error {
	l.shaking.Lock()
	defer l.shaking.Unlock()
	if err := l.load.work(ctx); err != nil { // who takes over is there before
		return err
	}
	p := l.load.take()
	e.since = time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		e.void = "the worker got no signal: " + err.Error()
		return nil
	}
	select {
	case <-p.gone:
	case <-time.After(l.patience):
		e.say("the worker didn't stop within %s", l.patience)
		p.kill()
	}
	e.hit()
	if took := time.Since(e.since); took > stopMost {
		e.say("the worker took %s to stop", took.Round(time.Millisecond))
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		e.say("the worker ended with %s", p.cmd.ProcessState)
	}
	err := l.until(ctx, e, "the stopped worker's session to end", func() (bool, error) {
		left, err := l.book.Sessions(ctx, daybook.SessionFilter{Worker: p.Name})
		return len(left) == 0, err
	})
	if err != nil {
		return err
	}
	return l.canary(ctx, l, e)
}

// serverKilled kills the server; the enqueuer behind it asks the next one again.
func serverKilled(ctx context.Context, l *lane, e *evidence) error {
	l.shaking.Lock()
	defer l.shaking.Unlock()
	if !l.load.server.kill() {
		e.void = "the server was not killed: it " + l.load.server.cmd.ProcessState.String()
		return nil
	}
	e.hit()
	var err error
	if l.load.server, err = l.load.begin(ctx, setup{Role: roleServer, Server: l.load.address}); err != nil {
		return err
	}
	through := l.load.enqueuers[len(l.load.enqueuers)-1]
	before, err := through.tell(ctx)
	if err != nil {
		return err
	}
	err = l.until(ctx, e, "the next server to answer the enqueuer", func() (bool, error) {
		now, err := through.tell(ctx)
		return now.Sent > before.Sent, err
	})
	e.recovered = time.Since(e.since)
	return err
}

// clockOff has a worker and an enqueuer whose wall clock is wrong do jobs beside
// a worker whose clock is right.
func clockOff(by time.Duration) func(context.Context, *lane, *evidence) error {
	return func(ctx context.Context, l *lane, e *evidence) error {
		where, err := l.site.Where(Route{Application: applicationLanes, Clock: by})
		if err != nil {
			return err
		}
		aside := &lane{drill: l.drill, stand: l.stand, queue: fmt.Sprintf("clock-%d-%s", e.run, l.queue)}
		defer aside.end()
		off, err := aside.start(setup{Where: where, Clock: by})
		if err != nil {
			return err
		}
		aside.workers = append(aside.workers, off)
		if aside.puts, err = aside.start(setup{Role: roleEnqueuer, Where: where, Load: true, Clock: by,
			Accepted: filepath.Join(l.dir, "accepted-"+aside.queue)}); err != nil {
			return err
		}
		if err := errors.Join(off.begun(ctx), aside.puts.begun(ctx)); err != nil {
			return err
		}
		e.since = time.Now()
		claimed := func() (bool, error) {
			t, err := off.tell(ctx)
			wrong := t.Wall.Sub(time.Now()) - by
			if err == nil && wrong.Abs() > time.Minute {
				e.void = "the worker's clock is " + t.Wall.String()
			}
			return t.Worker.Claimed >= 3, err
		}
		if err := l.until(ctx, e, "the worker with the wrong clock to claim", claimed); err != nil {
			return err
		}
		e.injected = e.void == "" && len(e.stuck) == 0
		if err := aside.fill(); err != nil { // and one whose clock is right
			return err
		}
		aside.puts.end()
		pause(ctx, passes)
		return l.emptied(ctx, e, aside.queue)
	}
}

// emptied waits until a queue has nothing to do any more. A job that lost one owner
// after the other, since a lease by a clock that is behind is past when it begins,
// waits for a person: that is who sends it back. So does a charge whose key the
// clock has outlived: the person looks into the destination's ledger.
func (l *lane) emptied(ctx context.Context, e *evidence, queue string) error {
	err := l.until(ctx, e, "the jobs of "+queue+" to be done", func() (bool, error) {
		_, err := l.book.Decide(ctx, daybook.Bulk{Move: daybook.MoveRevive, By: person,
			Filter: daybook.Filter{Queue: queue, State: daybook.SetAside, Reason: daybook.ReasonCrashes}})
		if err = errors.Join(err, l.settleAll(ctx, queue)); err != nil {
			return false, err
		}
		n, err := l.book.Count(ctx, daybook.Filter{Queue: queue})
		if err != nil {
			return false, err
		}
		done, err := l.book.Count(ctx, daybook.Filter{Queue: queue, State: daybook.Succeeded})
		return n == done, err
	})
	e.recovered = time.Since(e.since)
	return err
}

// settleAll is the person, for every job of a queue that waits because of its
// charge.
func (l *lane) settleAll(ctx context.Context, queue string) error {
	page, err := l.book.Jobs(ctx, daybook.Filter{Queue: queue, State: daybook.SetAside, Reason: daybook.ReasonEffectOpen})
	if err != nil {
		return err
	}
	for _, j := range page.Items {
		verdict := daybook.Verdict{}
		if acts := l.to["charge"].Acts(loadOrder + j.ID.String()); len(acts) > 0 {
			verdict.Happened, verdict.Result = true, fmt.Appendf(nil, `{"receipt":%d}`, acts[0].Receipt)
		}
		if _, err := l.book.Settle(ctx, j.ID, "charge", verdict, person); err != nil && !refused(err) {
			return err
		}
	}
	return nil
}

// fileFull fills a book's file under an enqueuer and a worker. What was answered
// is in it, what was refused isn't, and all of it is done once there is room.
func fileFull(ctx context.Context, l *lane, e *evidence) error {
	dir, err := os.MkdirTemp(l.dir, "full-")
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the drill can't make a folder in %s", l.dir)
	}
	book, room, err := l.site.Full(ctx, dir)
	if err != nil {
		return err
	}
	defer book.Close()
	w := worker.New(book, worker.Config{Queues: []string{"full"}, Poll: passes, Lease: leaseShort, Grace: time.Second,
		Name: "full", Log: l.log})
	ran := make(chan daybook.ID, 10_000)
	worker.Handle(w, "charge", func(_ context.Context, c *worker.Claim[effects.Order]) error {
		push(ran, c.Job().ID)
		return nil
	})
	var accepted []daybook.ID
	var full error
	fill := func() error {
		id := daybook.NewID()
		args := fmt.Appendf(nil, `{"order":"full","value":"%02000d"}`, len(accepted))
		_, err := book.Enqueue(ctx, daybook.Request{ID: id, Queue: "full", Kind: "charge", Args: args})
		if err == nil {
			accepted = append(accepted, id)
		}
		return err
	}
	for full == nil && len(accepted) < 5000 {
		full = fill()
	}
	if full == nil {
		e.void = "the file took 5000 jobs and wasn't full"
		return nil
	}
	e.hit()
	if code := daybook.CodeOf(full); code != daybook.CodeUnavailable {
		e.say("a full file is answered %s: %v", code, full)
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	pause(ctx, 2*passes) // it can't even claim, and says so in its log
	err = errors.Join(room(), fill())
	if err == nil {
		err = l.until(ctx, e, "the jobs of the full file to be done", func() (bool, error) {
			n, err := book.Count(ctx, daybook.Filter{Queue: "full", State: daybook.Succeeded})
			return int(n) == len(accepted), err
		})
		e.recovered = time.Since(e.since)
	}
	stop()
	return errors.Join(err, <-ended, fullHolds(ctx, book, accepted, e))
}

// fullHolds holds a book that was full to what it answered.
func fullHolds(ctx context.Context, book *daybook.Book, accepted []daybook.ID, e *evidence) error {
	all, err := book.Count(ctx, daybook.Filter{Queue: "full"})
	if err != nil {
		return err
	}
	if int(all) != len(accepted) {
		e.say("%d jobs are in a book that answered %d", all, len(accepted))
	}
	report, err := check.Run(ctx, book, check.Options{Full: true})
	for _, i := range report.Invariants {
		if i.Rows > 0 {
			e.say("the book that was full: %s, %d rows", i.Name, i.Rows)
		}
	}
	return err
}
