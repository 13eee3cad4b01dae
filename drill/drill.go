package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/effects/outside"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/reconcile"
)

// Limits and defaults of a drill.
const (
	TimesMax     = 100_000
	MinutesMax   = 7 * 24 * 60
	LanesDefault = 8 // runs at once, with two worker processes each
	LanesMax     = 64
)

const (
	// leaseShort is the workers' lease, so that what a fault left is soon somebody
	// else's.
	leaseShort = 1500 * time.Millisecond
	// passes is the pause between two of the reconciler's passes.
	passes = 200 * time.Millisecond
	// window and quiet are what the handlers declare, and appear is how long the
	// e-mail provider takes to show a message.
	window = time.Hour
	appear = 50 * time.Millisecond
	quiet  = 4 * appear
)

// Options of a drill.
type Options struct {
	Seed  uint64        // decides the order of the runs, and when a stopped worker goes on
	Gaps  []string      // of [Gaps]; none is all
	Times int           // each combination, 1…TimesMax; 0 is once, or as often as For allows
	For   time.Duration // begin rounds for so long; the first is finished in any case
	Lanes int           // runs at once, 1…LanesMax; 0 is LanesDefault
	// Dir keeps the logs of the workers; "" is a folder that goes when the drill
	// held.
	Dir string
	// Where names a book of the drill's own, which is empty, to Open, here and in
	// the workers.
	Where string
	Open  Opener
	// Command starts a worker: a program that calls Child.
	Command []string
	// Progress is told how many runs are over, from one goroutine at a time; may
	// be nil.
	Progress func(done int)

	// For the drill's own tests.

	fault    planted
	forget   time.Duration // how long the payment API keeps a key
	only     map[daybook.Policy]bool
	patience time.Duration // for each step of a run
	lease    time.Duration
}

// Rows is how many combinations a round has.
func (o *Options) Rows() int { return len(combinations(o.Gaps, o.only)) }

// Check puts the defaults in and refuses what is out of range. Run does so too.
func (o *Options) Check() error {
	if o.Lanes == 0 {
		o.Lanes = LanesDefault
	}
	o.patience, o.lease = cmp.Or(o.patience, patience), cmp.Or(o.lease, leaseShort)
	if o.Times == 0 && o.For == 0 {
		o.Times = 1
	}
	if len(o.Gaps) == 0 {
		o.Gaps = Gaps
	}
	for _, gap := range o.Gaps {
		if !slices.Contains(Gaps, gap) {
			return daybook.Invalid("gap", "wants %s; got %.40q", strings.Join(Gaps, ", "), gap)
		}
	}
	switch {
	case o.Times < 0 || o.Times > TimesMax:
		return daybook.Invalid("times", "wants 1…%d, got %d", TimesMax, o.Times)
	case o.For < 0 || o.For > MinutesMax*time.Minute:
		return daybook.Invalid("minutes", "wants more than 0 and at most %d, got %.3g", MinutesMax, o.For.Minutes())
	case o.Lanes < 1 || o.Lanes > LanesMax:
		return daybook.Invalid("lanes", "wants 1…%d, got %d", LanesMax, o.Lanes)
	case len(o.Command) == 0:
		return daybook.Invalid("command", "is empty; name the program that calls drill.Child")
	}
	return procs.CanStop()
}

// destinations are the servers outside, by kind of job.
type destinations map[string]*outside.Server

func newDestinations(forget time.Duration) (destinations, error) {
	d, o := destinations{}, outside.Options{Appear: appear, Forget: forget}
	for kind, begin := range map[string]func(outside.Options) (*outside.Server, error){"charge": outside.NewPayments,
		"mail": outside.NewMail, "price": outside.NewPrices, "letter": outside.NewLegacy} {
		server, err := begin(o)
		if err != nil {
			d.close()
			return nil, &daybook.Error{Code: daybook.CodeInternal, Err: err, Text: err.Error()}
		}
		d[kind] = server
	}
	return d, nil
}

func (d destinations) close() {
	for _, s := range d {
		s.Close()
	}
}

// drill is one drill under way.
type drill struct {
	Options
	book *daybook.Book
	to   destinations
	dir  string
	log  *slog.Logger
	ends time.Time // no round begins after that

	bells    bool          // rings are part of the drill
	hub      *hub          // carries them, where the book's bell doesn't leave its process
	pollLane time.Duration // of the lanes' workers; 0 is poll

	mu      sync.Mutex
	plan    *planner
	done    int
	rows    []Row
	found   []string
	doubled map[daybook.ID]bool // by the book, as it should be
	slowest time.Duration       // from a fault to what made up for it
}

// Run makes a drill and judges it. The error says that it could not be made;
// whether everything held is in the result. Every process has ended when Run
// returns.
func Run(ctx context.Context, o Options) (result Result, err error) {
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	d := &drill{Options: o, dir: o.Dir, doubled: map[daybook.ID]bool{}}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "daybook-drill-"); err != nil {
			return Result{}, daybook.Fail(daybook.CodeInternal, "the drill can't make a folder in %s", os.TempDir())
		}
		defer func() {
			if err == nil && result.Violations == 0 || ctx.Err() != nil {
				err = errors.Join(err, os.RemoveAll(d.dir))
				return
			}
			result.Dir = d.dir
		}()
	}
	logs, err := os.Create(filepath.Join(d.dir, "drill.log"))
	if err != nil {
		return Result{}, daybook.Fail(daybook.CodeInternal, "the drill can't write into its folder %s", d.dir)
	}
	defer logs.Close()
	d.log = slog.New(slog.NewTextHandler(logs, nil))
	if d.to, err = newDestinations(o.forget); err != nil {
		return Result{}, err
	}
	defer d.to.close()
	if d.book, err = o.Open(ctx, o.Where, daybook.Options{Log: d.log}); err != nil {
		return Result{}, err
	}
	defer d.book.Close()
	d.plan = newPlanner(combinations(o.Gaps, o.only), o.Seed)
	for _, c := range d.plan.rows {
		d.rows = append(d.rows, Row{Policy: c.policy.name, Gap: c.gap, Fault: c.fault})
	}
	return d.direct(ctx)
}

// direct runs the lanes, with a reconciler beside them, and judges the whole.
func (d *drill) direct(ctx context.Context) (Result, error) {
	d.ends = time.Now().Add(d.For)
	began := time.Now()
	loops, stop := context.WithCancel(ctx)
	reconciled := make(chan error, 1)
	go func() { reconciled <- reconcile.New(d.book, reconcile.Options{Every: passes, Log: d.log}).Run(loops) }()
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var lanes sync.WaitGroup
	for n := range d.Lanes {
		lanes.Go(func() {
			l := &lane{drill: d, queue: fmt.Sprintf("effects-%d", n+1)}
			if err := l.work(working); err != nil {
				fail(err)
			}
		})
	}
	lanes.Wait()
	err := context.Cause(working)
	stop()
	if err = errors.Join(err, <-reconciled); err != nil {
		return Result{}, err
	}
	report, err := check.Run(ctx, d.book, check.Options{Full: true})
	if err != nil {
		return Result{}, err
	}
	return d.verdict(report, time.Since(began)), ctx.Err()
}

// next hands out a run; false when the drill is over.
func (d *drill) next() (planned, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plan.between() && d.plan.rounds > 0 {
		enough := d.Times > 0 && d.plan.rounds >= d.Times
		late := d.For > 0 && time.Now().After(d.ends)
		if enough || late {
			return planned{}, false
		}
	}
	return d.plan.next(), true
}

// note puts what came of a run into the table.
func (d *drill) note(r planned, e evidence) {
	wrong := e.judge()
	d.mu.Lock()
	defer d.mu.Unlock()
	row := &d.rows[r.row]
	row.add(e, wrong)
	for _, w := range wrong {
		d.found = append(d.found, fmt.Sprintf("%s %s %s, job %s: %s", r.policy.name, r.gap, r.fault, e.job.ID, w))
	}
	if e.void != "" {
		d.log.Warn("void", "run", r.run, "policy", r.policy.name, "gap", r.gap, "fault", r.fault, "why", e.void)
	}
	if e.effect.Doubled {
		d.doubled[e.job.ID] = true
	}
	d.slowest = max(d.slowest, e.recovered)
	d.done++
	if d.Progress != nil {
		d.Progress(d.done)
	}
}
