package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/asynq"
	"github.com/daybookdev/daybook/cutover/bullmq"
	"github.com/daybookdev/daybook/cutover/rq"
	"github.com/daybookdev/daybook/cutover/sidekiq"
)

// oldFlags say where the old system is, and what its classes are here.
type oldFlags struct {
	from, system, queue, prefix, workersUser string
	mapping                                  string
	workerTTL                                time.Duration
	batch                                    int
	reason                                   string
	back                                     bool // it is the rollback itself
}

// environmentFrom stands for --from, so that a password needn't be in a process
// list.
const environmentFrom = "DAYBOOK_CUTOVER_FROM"

func (f *oldFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "",
		"the old system's store: redis://, rediss:// or unix:// (or "+environmentFrom+")")
	fs.StringVar(&f.prefix, "prefix", "",
		"what the old system's keys begin with (default what plan was given, else what it uses by itself)")
	fs.StringVar(&f.workersUser, "workers-user", "",
		"the Redis user that only old workers log in as: the gate then takes its right to take jobs "+
			"(Sidekiq; default what plan was given, else none)")
	fs.Var(durationFlag{&f.workerTTL}, "worker-ttl",
		"what RQ's workers were started with: an idle one waits so long "+
			"(1s or more; default what plan was given, else RQ's own, 7m)")
	fs.StringVar(&f.mapping, "map", "",
		"TOML file with a table [CLASS] for each class: kind, args, on-lost, safe, max-failures, timeout "+
			"(default what plan was given)")
	fs.IntVar(&f.batch, "batch", cutover.BatchDefault, "jobs of one step (1–5000)")
	reasonFlag(cmd, &f.reason)
}

func (f *oldFlags) registerPlace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.system, "system", "", "the old system: "+strings.Join(oldSystems, ", "))
	cmd.Flags().StringVar(&f.queue, "queue", "", "its queue (1–256 bytes)")
}

// oldSystems are those that have a source.
var oldSystems = []string{"asynq", "bullmq", "rq", "sidekiq"}

// open connects to the old system's queue. Its errors name the flags.
func (f *oldFlags) open() (cutover.Old, error) {
	where := "--from"
	if f.from == "" {
		where = environmentFrom
	}
	old, err := f.connect()
	if e, ok := errors.AsType[*daybook.Error](err); ok && e.Field == "old store" {
		return nil, usage("%s: %s", where, e.Text)
	}
	return old, err
}

func (f *oldFlags) connect() (cutover.Old, error) {
	if f.from == "" {
		f.from = os.Getenv(environmentFrom)
	}
	switch {
	case f.from == "":
		return nil, usage("say where the old system is, with --from or %s", environmentFrom)
	case f.batch < 1 || f.batch > cutover.BatchMost:
		return nil, daybook.Invalid("batch", "wants 1…%d, got %d", cutover.BatchMost, f.batch)
	case f.queue == "":
		return nil, usage("say which queue of the old system, with --queue")
	case f.prefix != "" && f.system != "sidekiq" && f.system != "bullmq":
		return nil, usage("--prefix is for sidekiq and bullmq; the keys of %s have none", f.system)
	case f.workerTTL != 0 && f.system != "rq":
		return nil, usage("--worker-ttl is for rq")
	case f.workersUser != "" && f.system != "sidekiq":
		return nil, usage("--workers-user is for sidekiq; %s has a gate of its own", f.system)
	}
	switch f.system {
	case "asynq":
		return asynq.Open(asynq.Options{URL: f.from, Queue: f.queue})
	case "bullmq":
		return bullmq.Open(bullmq.Options{URL: f.from, Queue: f.queue, Prefix: f.prefix})
	case "rq":
		return rq.Open(rq.Options{URL: f.from, Queue: f.queue, WorkerTTL: f.workerTTL})
	case "sidekiq":
		return sidekiq.Open(sidekiq.Options{URL: f.from, Queue: f.queue, Prefix: f.prefix, WorkersUser: f.workersUser})
	}
	return nil, usage("--system wants one of %s, got %q", strings.Join(oldSystems, ", "), f.system)
}

// engine opens book and old store for one cutover. Without a system it is the
// one that the record names.
func (a *app) engine(ctx context.Context, name string, f *oldFlags,
	work func(context.Context, *cutover.Engine) error) error {
	return a.onBook(ctx, func(ctx context.Context, book *daybook.Book) error {
		var c daybook.Cutover // nothing where one is planned
		if f.system == "" {
			var err error
			if c, err = book.Cutover(ctx, name); err != nil {
				return err
			}
			if err := f.asPlanned(c); err != nil {
				return err
			}
		}
		mapping, err := readMapping(f.mapping)
		if err != nil {
			return err
		}
		old, err := f.open()
		if err != nil {
			return err
		}
		defer old.Close()
		bar := a.cutoverBar()
		defer bar.end()
		err = work(ctx, cutover.New(book, old, name, cutover.Options{Mapping: mapping, By: a.by(f.reason), Batch: f.batch,
			Log: a.log(), Report: bar.report}))
		return f.cutShort(ctx, book, name, c.Phase, err)
	})
}

// cutShort says why work ended that was interrupted, or overtaken by a rollback: its
// own error says only that the database, or the old store, did not answer. was is the
// phase when it began.
func (f *oldFlags) cutShort(ctx context.Context, book *daybook.Book, name string, was daybook.Phase, err error) error {
	if code := daybook.CodeOf(err); code != daybook.CodeUnavailable && code != daybook.CodeInternal {
		return err
	}
	if _, ours := errors.AsType[exitError](err); ours {
		return err
	}
	if ctx.Err() != nil {
		return exitError{statusFailed, "run the command again, it goes on where it stopped"}
	}
	back := func(p daybook.Phase) bool { return p == daybook.PhaseReturning || p == daybook.PhaseReturned }
	if c, lost := book.Cutover(ctx, name); lost == nil && was != "" && !back(was) && back(c.Phase) && !f.back {
		return daybook.Fail(daybook.CodeFenced, "a rollback of cutover %s has overtaken this, which is in phase %s now: "+
			"nothing more is done here", name, c.Phase)
	}
	return err
}

// asPlanned takes from the record what wasn't given.
func (f *oldFlags) asPlanned(c daybook.Cutover) error {
	p, err := cutover.PlanOf(c)
	if err != nil {
		return err
	}
	f.prefix, f.workersUser = cmp.Or(f.prefix, p.How.Prefix), cmp.Or(f.workersUser, p.How.WorkersUser)
	f.workerTTL = cmp.Or(f.workerTTL, time.Duration(p.How.WorkerTTL))
	f.system, f.queue = c.System, f.withoutPrefix(c)
	return nil
}

// how is what the plan keeps of it.
func (f *oldFlags) how() cutover.How {
	return cutover.How{Prefix: f.prefix, WorkersUser: f.workersUser, WorkerTTL: cutover.Seconds(f.workerTTL)}
}

// withoutPrefix is the old queue's name as its source wants it.
func (f *oldFlags) withoutPrefix(c daybook.Cutover) string {
	if c.System == "bullmq" {
		return strings.TrimPrefix(c.OldQueue, cmp.Or(f.prefix, "bull")+":")
	}
	return strings.TrimPrefix(c.OldQueue, f.prefix)
}

// cutoverBar shows how far long work is: on a terminal, else now and then in the log.
type cutoverBar struct {
	a    *app
	what string
	bar  *progressbar.ProgressBar
	told time.Time
}

// toldEach is how often the log has how far it is where nobody watches.
const toldEach = 15 * time.Second

func (a *app) cutoverBar() *cutoverBar { return &cutoverBar{a: a, told: time.Now()} }

func (b *cutoverBar) report(what string, done, total int64) {
	if what != b.what {
		b.end()
		if total == 0 {
			total = -1
		}
		b.what, b.bar = what, b.a.progress(total, what, false)
	}
	if b.bar != nil {
		b.bar.Set64(done)
		return
	}
	if time.Since(b.told) >= toldEach {
		b.told = time.Now()
		b.a.log().Info(what, "done", done, "of", max(total, 0))
	}
}

func (b *cutoverBar) end() {
	if b.bar != nil {
		b.bar.Finish()
		b.bar = nil
	}
}

// sortedKeys are a map's keys in order.
func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
