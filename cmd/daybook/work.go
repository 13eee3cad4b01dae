package main

import (
	"cmp"
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
	"github.com/daybookdev/daybook/client"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// workFlags are what a worker is told.
type workFlags struct {
	queues, kinds  []string
	exec           string
	name           string
	concurrency    int
	lease, timeout time.Duration
	grace, poll    time.Duration
	drain, noLoops bool
	listen, otlp   string
	metricsQueues  int
	hook           hookFlags
}

// workLong says how a job ends.
const workLong = `Run a command for each job, or post it to a URL.

--exec: args on standard input. Exit 0 succeeded, and standard output is the result; 65 never try again; 75 later,
costs no failure; anything else failed.
--http: args as the body, signed after Standard Webhooks. 2xx succeeded, and the answer is the result; 422 never try
again; 429 and 503 with Retry-After later, costs no failure; anything else failed. No answer leaves the effect main
open, and --endpoint-policy says what then.`

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use: "work --queue Q… --exec CMD | --http URL", Short: "Run a command for each job, or post it to a URL",
		Long: workLong,
		Example: example("daybook work --queue mail --exec 'cat >> sent.jsonl' --drain",
			"daybook work --queue mail=5 --queue reports=1 --concurrency 4 --exec 'exit 75' --drain",
			"daybook work --queue mail --http http://localhost:9/jobs --endpoint-policy keyed --window 24h --drain",
			"DAYBOOK_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw "+
				"daybook work --queue reports --http http://localhost:9/jobs --drain"),
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd.Flags(), a.flags.kinds); err != nil {
			return err
		}
		config, err := f.config()
		if err != nil {
			return err
		}
		// A worker has its own way to end by signals.
		return a.traced(a.base, f.otlp, func() error {
			if a.flags.server != "" {
				return a.workForServer(a.base, f, config)
			}
			a.cache = sqlite.CacheDefault
			return a.onDatabase(a.base, func(ctx context.Context, db database, book *daybook.Book) error {
				place, err := a.workshopAt(db, book, f)
				if err != nil {
					return err
				}
				return a.work(ctx, place, f, config)
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
	f.hook.register(fs)
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

// posts reports whether jobs are posted: to a URL of --http, or to those of kinds
// in the configuration.
func (f *workFlags) posts(kinds map[string]map[string]string) bool {
	for _, conf := range kinds {
		if conf["http"] != "" && strings.TrimSpace(f.exec) == "" {
			return true
		}
	}
	return f.hook.url != ""
}

func (f *workFlags) check(fs *pflag.FlagSet, kinds map[string]map[string]string) error {
	posts, runs := f.posts(kinds), strings.TrimSpace(f.exec) != ""
	switch {
	case posts && runs:
		return usage("give --exec or --http, not both")
	case !posts && !runs:
		return usage("say with --exec which command to run for each job, or with --http where to post it")
	case runs && !canExec:
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
	if posts {
		if err := f.hook.check(fs, f.lease); err != nil {
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

// workshop is where a worker works: on the book itself, or for a server.
type workshop struct {
	book    worker.Book
	environ []string // tells commands where the book is
	watch   func(ctx context.Context)
	gone    func(ctx context.Context) error // see database
	watched func(c *worker.Config)          // has the loops' passes counted; nil where there are none
	listen  func(ctx context.Context, address string, w *worker.Worker) (*healthServer, error)
}

func (a *app) workshopAt(db database, book *daybook.Book, f workFlags) (workshop, error) {
	where, err := db.environ()
	m := newMetrics(book, nil, f.metricsQueues)
	return workshop{book: book, environ: append(where, environment["server"]+"="),
		watch:   func(ctx context.Context) { watch(ctx, db, book) },
		gone:    db.gone,
		watched: func(c *worker.Config) { c.Reconcile.Passed = m.passes.passed },
		listen: func(ctx context.Context, address string, w *worker.Worker) (*healthServer, error) {
			m.w = w
			return listen(ctx, address, db, m)
		}}, err
}

// never is a server's book, which is for the server to look after.
func never(context.Context) error { return nil }

// workForServer runs the worker against a server, which tells of jobs to take.
func (a *app) workForServer(ctx context.Context, f workFlags, config worker.Config) error {
	if f.listen != "" {
		return usage("--listen shows the numbers of a book at hand; leave it out beside --server, whose /metrics has them")
	}
	return a.onServer(ctx, func(ctx context.Context, server *client.Client) error {
		// Later the worker waits for a server that is away, or that it may not speak
		// to; at the beginning somebody should be told.
		if _, _, err := server.Listen(ctx, config.Queues, 0); err != nil && daybook.CodeOf(err) != daybook.CodeInvalid {
			return err
		}
		return a.work(ctx, workshop{book: server, watch: func(context.Context) {}, gone: never, environ: []string{
			environment["db"] + "=", environment["server"] + "=" + server.Server(),
			environment["token"] + "=" + a.flags.token}}, f, config)
	})
}

// work runs the worker until it is drained or told to stop.
func (a *app) work(ctx context.Context, at workshop, f workFlags, config worker.Config) error {
	if config.Tracer = a.workTracer(); at.watched != nil {
		at.watched(&config)
	}
	w := worker.New(at.book, config)
	if err := a.register(w, at.environ, f); err != nil {
		return err
	}
	if f.listen != "" {
		server, err := at.listen(ctx, f.listen, w)
		if err != nil {
			return err
		}
		defer server.close()
	}
	var watching sync.WaitGroup
	defer watching.Wait() // the book is closed behind it
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer onSignals(ctx, w, stop, f.grace, at.book.Log())()
	watching.Go(func() { at.watch(ctx) })
	var gone error
	watching.Go(func() {
		if gone = at.gone(ctx); gone != nil {
			stop()
		}
	})
	err := w.Run(ctx)
	stop()
	watching.Wait()
	if err := cmp.Or(gone, err); err != nil || !a.json() {
		return err
	}
	return daybook.EncodeJSON(a.stdout, w.Stats())
}

// register hands the worker its handlers for the kinds it takes, with what the
// configuration says of them.
func (a *app) register(w *worker.Worker, environ []string, f workFlags) error {
	var add func(kind string, o worker.KindOptions) error
	var err error
	if f.posts(a.flags.kinds) {
		add, err = a.hooks(w, f.hook)
	} else {
		add = a.commands(w, environ, f.exec)
	}
	if err != nil {
		return err
	}
	for _, kind := range f.kindsOf(a.flags.kinds) {
		options, err := kindOptions(kind, a.flags.kinds[kind])
		if err == nil {
			err = add(kind, options)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commands makes the handlers that run a command.
func (a *app) commands(w *worker.Worker, environ []string, text string) func(string, worker.KindOptions) error {
	handler := a.execHandler(environ, text)
	return func(kind string, o worker.KindOptions) error {
		w.HandleRaw(kind, handler, o)
		return nil
	}
}

// kindsOf are the kinds that the worker takes, "" for every other one. Without a
// URL for all it takes those that have their own.
func (f *workFlags) kindsOf(conf map[string]map[string]string) (kinds []string) {
	if len(f.kinds) > 0 {
		return f.kinds
	}
	all := f.exec != "" || f.hook.url != ""
	if all {
		kinds = []string{""}
	}
	for kind, of := range conf {
		if all || of["http"] != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func kindOptions(kind string, conf map[string]string) (o worker.KindOptions, err error) {
	if limit := conf["timeout"]; limit != "" {
		if o.Timeout, err = parseDuration(limit); err != nil || o.Timeout <= 0 {
			return o, usage("config: kind.%s.timeout wants more than 0, got %q", kind, cut(limit, cellMax))
		}
	}
	o.Sensitive, err = isSensitive(kind, conf)
	return o, err
}

// isSensitive reports whether the configuration says that a kind's documents are
// not for everybody.
func isSensitive(kind string, conf map[string]string) (bool, error) {
	switch text := conf["sensitive"]; text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, usage("config: kind.%s.sensitive wants true or false, got %q", kind, cut(text, cellMax))
	}
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
