package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/console"
	"github.com/daybookdev/daybook/httpapi"
	"github.com/daybookdev/daybook/internal/everyanswer"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/store/sqlite"
)

// serveFlags are what a server is told.
type serveFlags struct {
	listen  string
	grace   time.Duration
	rate    float64
	noLoops bool
	cert    string
	key     string
	// sensitive are the kinds whose documents are hidden.
	sensitive []string
	otlp      string

	metricsQueues int
}

// listenDefault is this machine alone.
const listenDefault = "127.0.0.1:7373"

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the book over HTTP: console, API, metrics, relay and reconciler",
		Long: "Serve the book over HTTP: the console at /, the API under /v1 (described at /docs and /openapi.json),\n" +
			"/healthz, /readyz and /metrics. The schema is made or upgraded first.\n\n" +
			"On a loopback address everybody on this machine is let in while the book never had a token. On any other\n" +
			"address a token must be there before: see daybook token create.",
		Example: example("daybook serve", "daybook serve --grace 10s --no-loops"),
		Args:    cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(a.flags.kinds); err != nil {
			return err
		}
		db, err := a.database()
		if err != nil {
			return err
		}
		if _, err := db.up(cmd.Context()); err != nil {
			return err
		}
		a.cache = sqlite.CacheDefault
		// Like a worker it has its own way to end by signals.
		return a.traced(a.base, f.otlp, func() error {
			return a.onDatabase(a.base, func(ctx context.Context, db database, book *daybook.Book) error {
				return a.serve(ctx, db, book, f)
			})
		})
	}
	return cmd
}

func (f *serveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "listen", listenDefault,
		"address to listen on; others than loopback want a token in the book")
	durationVar(fs, &f.grace, "grace", daybook.GraceDefault,
		"how long calls under way get when the server is told to stop (0 or more)")
	fs.Float64Var(&f.rate, "rate", 0,
		"calls a second that each token may make, with bursts of twice as many (default 0, no limit)")
	fs.BoolVar(&f.noLoops, "no-loops", false, "leave the reconciler and the relay to other processes (default false)")
	fs.StringVar(&f.cert, "tls-cert", "",
		"PEM file with the certificate to serve HTTPS with, read again when it changes (default none: HTTP)")
	fs.StringVar(&f.key, "tls-key", "", "PEM file with the certificate's key")
	fs.StringArrayVar(&f.sensitive, "sensitive", nil,
		"kind of jobs whose args, results and error texts only tokens with scope sensitive see; repeat it for more\n"+
			"(or sensitive = true in [kind.NAME] of the configuration; default none)")
	metricsFlag(fs, &f.metricsQueues)
	otlpFlag(fs, &f.otlp)
}

func (f *serveFlags) check(kinds map[string]map[string]string) error {
	for kind, conf := range kinds {
		sensitive, err := isSensitive(kind, conf)
		if err != nil {
			return err
		}
		if sensitive {
			f.sensitive = append(f.sensitive, kind)
		}
	}
	for _, kind := range f.sensitive {
		if err := daybook.CheckName("sensitive", kind); err != nil {
			return err
		}
	}
	switch {
	case f.grace < 0:
		return daybook.Invalid("grace", "wants 0 or more, got %s", f.grace)
	case !(f.rate >= 0 && f.rate <= 1e9):
		return daybook.Invalid("rate", "wants 0…1000000000, got %g", f.rate)
	case (f.cert == "") != (f.key == ""):
		return usage("--tls-cert and --tls-key belong together")
	}
	if err := checkMetrics(f.metricsQueues); err != nil {
		return err
	}
	return checkAddress(f.listen)
}

// certificate reads the files that HTTPS needs; without them it is nil.
func (f *serveFlags) certificate(log *slog.Logger) (*tls.Config, error) {
	if f.cert == "" {
		return nil, nil
	}
	c, err := loadCertificate(f.cert, f.key, log)
	if err != nil {
		return nil, err
	}
	return c.config(), nil
}

// loopback reports whether an address is this machine's own alone.
func loopback(address net.Addr) bool {
	at, err := netip.ParseAddrPort(address.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// serve runs until it is told to stop.
func (a *app) serve(ctx context.Context, db database, book *daybook.Book, f serveFlags) error {
	secure, err := f.certificate(book.Log())
	if err != nil {
		return err
	}
	listener, err := listenOn(f.listen)
	if err != nil {
		return err
	}
	mine := loopback(listener.Addr())
	if err := letIn(ctx, book, mine); err != nil {
		return errors.Join(err, listener.Close())
	}
	m := newMetrics(book, nil, f.metricsQueues)
	m.calls = newCallMetrics()
	api, err := httpapi.New(book, a.apiOptions(db, m, f, mine))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	m.waiting = api.Waiting
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	var repairs *repaired
	if !f.noLoops {
		repairs = newRepaired()
	}
	pages := console.New(book, consoleOptions(db, book, mine, f.sensitive, repairs))
	server := webServer(ctx, front(api, pages), timesDefault)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	loops, stopLoops := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { watch(loops, db, book) })
	running.Go(func() { _ = pages.Run(loops) })
	ended := make(chan error, 2)
	running.Go(func() {
		if err := db.gone(loops); err != nil {
			ended <- err
		}
	})
	if !f.noLoops {
		a.runLoops(loops, &running, m, repairs)
	}
	defer running.Wait() // the book is closed behind it
	defer stopLoops()
	defer pages.Close()
	book.Log().Info("serving", "url", scheme+"://"+listener.Addr().String(), "docs", "/docs")
	go func() {
		ended <- exitError{statusFailed, "serving ended: " + everyanswer.Serve(server, listener, secure).Error()}
	}()
	return a.until(ctx, server, ended, closers{api.Close, pages.Close}, signals, f.grace)
}

// times bound how long a client may take: for the head of a request, for all of
// it, to take its answer, and between two.
type times struct{ head, request, answer, idle time.Duration }

// timesDefault leaves a claim call its minute of waiting.
var timesDefault = times{10 * time.Second, time.Minute, 2 * time.Minute, 2 * time.Minute}

// webServer is a server that no client holds up for longer than it may.
func webServer(ctx context.Context, handler http.Handler, t times) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: t.head, ReadTimeout: t.request,
		WriteTimeout: t.answer, IdleTimeout: t.idle, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true,                       // OPTIONS * is answered like any call
		ErrorLog:                     log.New(io.Discard, "", 0), // of strangers' broken handshakes
		BaseContext:                  func(net.Listener) context.Context { return ctx }}
}

func listenOn(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, daybook.Invalid("listen", "there is no host %q; give one of this machine's addresses", e.Name)
	}
	if err != nil {
		return nil, exitError{statusFailed, "can't listen on " + address + ": " + err.Error()}
	}
	return listener, nil
}

// letIn refuses to serve the network without a token that anybody could have.
func letIn(ctx context.Context, book *daybook.Book, mine bool) error {
	if mine {
		return nil
	}
	tokens, err := book.Tokens(ctx)
	if err == nil && tokens.Live() == 0 {
		err = usage("the book has no token, so serve listens on loopback only, like %s; "+
			"make one first: daybook token create NAME --scope read", listenDefault)
	}
	return err
}

func (a *app) apiOptions(db database, m *metrics, f serveFlags, mine bool) httpapi.Options {
	book := m.book
	observers := []httpapi.Observer{m.calls}
	if a.tracer != nil {
		observers = append(observers, a.tracer)
	}
	return httpapi.Options{Loopback: mine, Rate: f.rate, Sensitive: f.sensitive, Version: versionOf().Version,
		Metrics: m.handler(), Observers: observers,
		Bell:  func() string { return hearing(book) },
		Ready: (&readiness{db: db, book: book}).check,
		Check: func(ctx context.Context, full bool) (any, error) {
			return check.Run(ctx, book, check.Options{Full: full})
		}}
}

// runLoops runs what keeps the book in order beside the server.
func (a *app) runLoops(ctx context.Context, running *sync.WaitGroup, m *metrics, repairs *repaired) {
	book := m.book
	run := func(name string, loop func(context.Context) error) {
		running.Go(func() {
			if err := loop(ctx); err != nil {
				book.Log().Error("a loop ended", "loop", name, "error", err)
			}
		})
	}
	run("reconcile", reconcile.New(book, reconcile.Options{Passed: func(r reconcile.Report) {
		m.passes.passed(r)
		repairs.seen(r)
	}}).Run)
	if book.Outside() != nil {
		run("relay", relay.New(book, relay.Options{}).Run)
	}
}

// closers end what waits in a server.
type closers []func()

func (c closers) close() {
	for _, end := range c {
		end()
	}
}

// until serves until it can't, or a signal or the context ends it: then nobody is
// let in any more, calls that wait for work are answered, and those under way get
// the grace. A second signal ends at once.
func (a *app) until(ctx context.Context, server *http.Server, ended <-chan error, waiting closers,
	signals <-chan os.Signal, grace time.Duration) error {
	select {
	case err := <-ended:
		waiting.close()
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	case <-signals:
	}
	a.log().Info("told to stop: finishing calls under way", "grace", grace)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ending.Done():
		}
	}()
	waiting.close()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(server.Close(), exitError{statusFailed, "some calls were not finished; stopped all the same"})
	}
	return nil
}
