package demo

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
)

// Limits and defaults of a run.
const (
	JobsDefault    = 600
	JobsMin        = 10 // fewer don't meet every gap
	JobsMax        = 100_000
	WorkersDefault = 4
	WorkersMax     = 64
	SeedDefault    = 1
)

// enqueuers is how many processes accept deliveries.
const enqueuers = 3

const (
	// lease is short, so that a killed worker's jobs are soon somebody else's.
	lease = 2 * time.Second
	// passes is the pause between two of the reconciler's passes.
	passes = 500 * time.Millisecond
	// stuckAfter is how long nothing may happen before the run is given up.
	stuckAfter = time.Minute
)

// Options of a run.
type Options struct {
	Jobs    int    // deliveries, JobsMin…JobsMax; 0 is JobsDefault
	Workers int    // worker processes, 1…WorkersMax; 0 is WorkersDefault
	Seed    uint64 // decides the plan: which gaps, in which order, after how much work
	Stay    bool   // keep the folder with the book
	// Command starts a process of the demo: a program that calls Child.
	Command []string
	// Progress is told how far the run is, from one goroutine; may be nil.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Ended, Jobs     int    // jobs
	Faults, Planned int    // faults done, and in the plan
	Doing           string // the fault that is next, or what else is going on
}

func (o *Options) check() error {
	if o.Jobs == 0 {
		o.Jobs = JobsDefault
	}
	if o.Workers == 0 {
		o.Workers = WorkersDefault
	}
	switch {
	case o.Jobs < JobsMin || o.Jobs > JobsMax:
		return daybook.Invalid("jobs", "wants %d…%d, got %d", JobsMin, JobsMax, o.Jobs)
	case o.Workers < 1 || o.Workers > WorkersMax:
		return daybook.Invalid("workers", "wants 1…%d, got %d", WorkersMax, o.Workers)
	case len(o.Command) == 0:
		return daybook.Invalid("command", "is empty; name the program that calls demo.Child")
	}
	return procs.CanStop()
}

// Run makes one run and judges it. The error says that the run could not be
// made; whether everything held is in the result ([Result.Wrong]). Every child
// has ended when Run returns. The folder with the book, the destination's
// ledger and the children's logs stays with Stay, or when something is wrong;
// [Result.Dir] names it then.
func Run(ctx context.Context, o Options) (result Result, err error) {
	if err := o.check(); err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp("", "daybook-demo-")
	if err != nil {
		return Result{}, daybook.Fail(daybook.CodeInternal, "the demo can't make a folder in %s", os.TempDir())
	}
	defer func() {
		keep := o.Stay || err != nil || len(result.Wrong()) > 0
		if keep && ctx.Err() == nil {
			result.Dir = dir
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	return runIn(ctx, dir, o)
}

// runIn makes the run in a folder.
func runIn(ctx context.Context, dir string, o Options) (Result, error) {
	logs, err := os.Create(filepath.Join(dir, "demo.log"))
	if err != nil {
		return Result{}, daybook.Fail(daybook.CodeInternal, "the demo can't write into its folder %s", dir)
	}
	defer logs.Close()
	log := slog.New(slog.NewTextHandler(logs, nil))
	book, err := sqlite.Open(ctx, bookPath(dir), sqlite.Options{Book: daybook.Options{Log: log}})
	if err != nil {
		return Result{}, err
	}
	defer book.Close()
	destination, err := newDestination()
	if err != nil {
		return Result{}, err
	}
	defer destination.close()

	loops, stop := context.WithCancel(ctx)
	reconciled := make(chan error, 1)
	go func() { reconciled <- reconcile.New(book, reconcile.Options{Every: passes, Log: log}).Run(loops) }()
	d := newDirector(dir, o, book, destination, log)
	err = d.direct(ctx)
	stop()
	if err = errors.Join(err, <-reconciled); err != nil {
		return Result{}, err
	}
	e, err := d.evidence(ctx)
	if err != nil {
		return Result{}, err
	}
	return judge(e), errors.Join(destination.save(filepath.Join(dir, "destination.jsonl")), ctx.Err())
}

// BookFile is the book's name in the run's folder.
const BookFile = "book.db"

func bookPath(dir string) string { return filepath.Join(dir, BookFile) }
