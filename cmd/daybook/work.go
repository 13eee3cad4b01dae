package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// workFlags are what a worker is told.
type workFlags struct {
	queues, kinds  []string
	exec, http     string
	name           string
	concurrency    int
	lease, timeout time.Duration
	grace, poll    time.Duration
	drain, noLoops bool
	listen, otlp   string
	metricsQueues  int
}

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use: "work --queue Q… --exec CMD", Short: "Run a command for each job",
		Example: example("daybook work --queue mail --exec 'cat >> sent.jsonl' --drain",
			"daybook work --queue mail=5 --queue reports=1 --concurrency 4 --exec 'exit 75' --drain"),
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd.Flags()); err != nil {
			return err
		}
		config, err := f.config()
		if err != nil {
			return err
		}
		a.cache = sqlite.CacheDefault
		// A worker has its own way to end by signals.
		return a.traced(a.base, f.otlp, func() error {
			return a.onDatabase(a.base, func(ctx context.Context, db database, book *daybook.Book) error {
				return a.work(ctx, db, book, f, config)
			})
		})
	}
	return cmd
}

func (f *workFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.queues, "queue", nil,
		"queue to work on, Q or Q=WEIGHT (1…1000); repeat it for more (at most 10000)")
	fs.StringArrayVar(&f.kinds, "kind", nil, "take this kind only; repeat it for more (default every kind)")
	fs.StringVar(&f.exec, "exec", "", "command to run with sh -c for each job, its args on standard input")
	fs.StringVar(&f.http, "http", "", "URL to post each job to; not in this version yet")
	fs.StringVar(&f.name, "name", "",
		"name of this worker, shown to people (default the host's name; at most 255 bytes)")
	fs.IntVar(&f.concurrency, "concurrency", worker.ConcurrencyDefault, "commands at once (1…10000)")
	durationVar(fs, &f.lease, "lease", daybook.LeaseDefault, "how long a claim outlives this process (1s…24h)")
	durationVar(fs, &f.timeout, "timeout", 0,
		"run limit of a command, where it is shorter than the job's own (default none)")
	durationVar(fs, &f.grace, "grace", daybook.GraceDefault,
		"how long running commands get when the worker is told to stop (0 or more)")
	durationVar(fs, &f.poll, "poll", daybook.PollDefault,
		"pause between looks without a ring, jittered (10ms or more; 0 looks only when rung)")
	fs.BoolVar(&f.drain, "drain", false, "end when nothing is eligible and nothing runs (default false)")
	fs.BoolVar(&f.noLoops, "no-loops", false, "leave the reconciler and the relay to other processes (default false)")
	fs.StringVar(&f.listen, "listen", "",
		"address for /healthz, /readyz and /metrics, like 127.0.0.1:7374 (default none)")
	metricsFlag(fs, &f.metricsQueues)
	otlpFlag(fs, &f.otlp)
}

func (f *workFlags) check(fs *pflag.FlagSet) error {
	switch {
	case f.http != "":
		return notYet("--http", "run a command with --exec")
	case strings.TrimSpace(f.exec) == "":
		return usage("say with --exec which command to run for each job")
	case !canExec:
		return usage("--exec needs a Unix system")
	case len(f.queues) == 0:
		return daybook.Invalid("queue", "is missing; name at least one with --queue")
	case f.concurrency < 1:
		return daybook.Invalid("concurrency", "wants 1…%d, got %d", worker.ConcurrencyMax, f.concurrency)
	case f.lease <= 0:
		return daybook.Invalid("lease", "wants %s…%s, got %s", daybook.LeaseMin, daybook.LeaseMax, f.lease)
	case f.grace < 0:
		return daybook.Invalid("grace", "wants 0 or more, got %s", f.grace)
	case f.poll != 0 && f.poll < 10*time.Millisecond:
		return daybook.Invalid("poll", "wants 0 or 10ms and more, got %s", f.poll)
	case f.timeout < 0 || fs.Changed("timeout") && f.timeout == 0:
		return daybook.Invalid("timeout", "wants more than 0, got %s", f.timeout)
	}
	if f.listen != "" {
		if err := checkAddress(f.listen); err != nil {
			return err
		}
	}
	return checkMetrics(f.metricsQueues)
}

// config is the worker's configuration. The worker checks the rest.
func (f *workFlags) config() (worker.Config, error) {
	c := worker.Config{Name: f.name, Concurrency: f.concurrency, Lease: f.lease, Grace: f.grace, Poll: f.poll,
		Timeout: f.timeout, Drain: f.drain, NoLoops: f.noLoops, Weights: map[string]int{}}
	if f.grace == 0 {
		c.Grace = -1 // none, where 0 would be the default
	}
	if f.poll == 0 {
		c.Poll = -1
	}
	for _, q := range f.queues {
		name, weight, weighed := strings.Cut(q, "=")
		c.Queues = append(c.Queues, name)
		if !weighed {
			continue
		}
		n, err := strconv.Atoi(weight)
		if err != nil {
			return c, daybook.Invalid("queue", "wants Q or Q=WEIGHT with a whole number, got %q", cut(q, cellMax))
		}
		c.Weights[name] = n
	}
	return c, nil
}

// work runs the worker until it is drained or told to stop.
func (a *app) work(ctx context.Context, db database, book *daybook.Book, f workFlags, config worker.Config) error {
	m := newMetrics(book, nil, f.metricsQueues)
	config.Tracer, config.Reconcile.Passed = a.workTracer(), m.passes.passed
	w := worker.New(book, config)
	m.w = w
	handler, err := a.execHandler(db, f.exec)
	if err != nil {
		return err
	}
	if err := a.register(w, handler, f.kinds); err != nil {
		return err
	}
	if f.listen != "" {
		server, err := listen(ctx, f.listen, db, m)
		if err != nil {
			return err
		}
		defer server.close()
	}
	var watching sync.WaitGroup
	defer watching.Wait() // the book is closed behind it
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer onSignals(ctx, w, stop, f.grace, book.Log())()
	watching.Go(func() { watch(ctx, db, book) })
	if err := w.Run(ctx); err != nil || !a.json() {
		return err
	}
	return daybook.EncodeJSON(a.stdout, w.Stats())
}

// register hands the worker its handler for the kinds it takes, with the run
// limits that the configuration has for them.
func (a *app) register(w *worker.Worker, handler worker.Handler, kinds []string) error {
	if len(kinds) == 0 {
		w.HandleRaw("", handler)
		for kind := range a.flags.kinds {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		var options worker.KindOptions
		if limit := a.flags.kinds[kind]["timeout"]; limit != "" {
			d, err := parseDuration(limit)
			if err != nil || d <= 0 {
				return usage("config: kind.%s.timeout wants more than 0, got %q", kind, cut(limit, cellMax))
			}
			options.Timeout = d
		}
		w.HandleRaw(kind, handler, options)
	}
	return nil
}

// onSignals lets people steer the worker: the first SIGTERM (or Ctrl-C) stops
// claiming and waits the grace, the second ends at once, SIGUSR1 quiets. It
// returns what to call when the worker is done.
func onSignals(ctx context.Context, w *worker.Worker, stop func(), grace time.Duration, log *slog.Logger) (
	done func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if quietSignal != nil {
		signal.Notify(signals, quietSignal)
	}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				switch {
				case s == quietSignal:
					log.Info("quiet: claiming no more")
					w.Quiet()
				case ctx.Err() == nil:
					log.Info("told to stop: waiting for what runs", "grace", grace)
					stop()
				default:
					log.Info("told to stop again: ending at once")
					w.Stop()
				}
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}
