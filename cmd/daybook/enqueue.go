package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// enqueuer is what enqueue needs of a book.
type enqueuer interface {
	Enqueue(ctx context.Context, r daybook.Request) (daybook.Receipt, error)
	EnqueueMany(ctx context.Context, requests []daybook.Request) ([]daybook.Receipt, error)
}

var _, _ enqueuer = (*daybook.Book)(nil), (*client.Client)(nil)

// enqueueFlags is one request as the command line writes it.
type enqueueFlags struct {
	from                         string
	queue, kind, args, file, key string
	id                           daybook.ID
	runAt, expiresAt             daybook.Time
	in, timeout                  time.Duration
	priority, maxFailures        int
	onLost, traceparent          string
}

func (a *app) enqueueCommand() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue --queue Q --kind K [--args JSON] | --from FILE",
		Short: "Accept one job, or every line of a file",
		Example: example(
			`daybook enqueue --queue mail --kind welcome --args '{"to":"ada@example.org"}' --key signup-4711`,
			`echo '{"queue":"mail","kind":"welcome","args":{"to":"bob@example.org"}}' | daybook enqueue --from -`),
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("from") {
			if other := f.otherThanFrom(cmd); other != "" {
				return usage("--from takes everything from the lines; leave --%s out", other)
			}
			return a.enqueueFrom(daybook.WithTrace(cmd.Context(), environTrace()), f.from)
		}
		if err := f.defaults(cmd.Flags(), a.flags.kinds[f.kind]); err != nil {
			return err
		}
		request, err := f.request(a.stdin, cmd.Flags())
		if err != nil {
			return err
		}
		return on(cmd.Context(), a, func(ctx context.Context, book enqueuer) error {
			receipt, err := book.Enqueue(ctx, request)
			if err != nil {
				return err
			}
			if err := a.show(receipt, func(t *table) { t.row(receipt.ID) }); err != nil {
				return exitError{statusFailed, fmt.Sprintf("job %s is stored, but its id can't be printed: %s",
					receipt.ID, err)}
			}
			return nil
		})
	}
	return cmd
}

func (f *enqueueFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.from, "from", "", "file of JSON lines, each the body of one request; - is standard input")
	fs.StringVar(&f.queue, "queue", "", "queue that the job waits in (1–128 letters, digits, . _ - :)")
	fs.StringVar(&f.kind, "kind", "", "what sort of job it is (1–128 letters, digits, . _ - :)")
	fs.StringVar(&f.args, "args", "", "the job's input, a JSON document (default {}; at most 1 MiB)")
	fs.StringVar(&f.file, "args-file", "", "read the input from a file; - is standard input")
	fs.StringVar(&f.key, "key", "",
		"request key: the same key and input again is the same job (at most 255 bytes)")
	fs.Var(idFlag{&f.id}, "id", "the job's id, a UUID (default a new one)")
	fs.Var(timeFlag{&f.runAt}, "run-at",
		"not before this time (RFC 3339 with a zone, to year 9999; default now)")
	durationVar(fs, &f.in, "in", 0, "not before this long from now (like 90s, 24h, 7d; at least 0)")
	fs.Var(timeFlag{&f.expiresAt}, "expires-at", "never start it after this time (default no limit)")
	fs.IntVar(&f.priority, "priority", 0, "higher goes first (-32768…32767)")
	fs.IntVar(&f.maxFailures, "max-failures", daybook.MaxFailuresDefault,
		"set aside after so many failures (1…10000)")
	choiceVar(fs, &f.onLost, "on-lost", "", string(daybook.LostRetry),
		"what happens when its worker dies: retry or set_aside", string(daybook.LostRetry),
		string(daybook.LostSetAside))
	durationVar(fs, &f.timeout, "timeout", daybook.TimeoutDefault, "run limit of one attempt (1ms…365d)")
	fs.StringVar(&f.traceparent, "traceparent", "",
		"trace that the job belongs to, after W3C Trace Context (or TRACEPARENT and TRACESTATE; default none)")
}

// otherThanFrom names a flag of a single request that was given beside --from.
func (f *enqueueFlags) otherThanFrom(cmd *cobra.Command) (name string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(other *pflag.Flag) {
		if other.Changed && other.Name != "from" {
			name = other.Name
		}
	})
	return name
}

// defaults fills in what the configuration says of the job's kind.
func (f *enqueueFlags) defaults(fs *pflag.FlagSet, kind map[string]string) error {
	for name, value := range kind {
		if fs.Changed(name) {
			continue
		}
		if err := setFlag(fs, "config: kind."+f.kind+"."+name, name, []string{value}); err != nil {
			return err
		}
	}
	return nil
}

// request is what the flags ask for. The book checks the rest; here is only
// what it couldn't tell from a flag that wasn't given.
func (f *enqueueFlags) request(stdin io.Reader, fs *pflag.FlagSet) (daybook.Request, error) {
	r := daybook.Request{ID: f.id, Queue: f.queue, Kind: f.kind, Key: f.key, RunAt: f.runAt.Std(), In: f.in,
		ExpiresAt: f.expiresAt.Std(), Priority: f.priority, MaxFailures: f.maxFailures,
		OnLost: daybook.OnLost(f.onLost), Timeout: f.timeout, Traceparent: f.traceparent}
	if f.traceparent == "" {
		t := environTrace()
		r.Traceparent, r.Tracestate = t.Parent, t.State
	}
	switch {
	case fs.Changed("run-at") && fs.Changed("in"):
		return r, usage("give --run-at or --in, not both")
	case fs.Changed("args") && fs.Changed("args-file"):
		return r, usage("give --args or --args-file, not both")
	case fs.Changed("traceparent") && f.traceparent == "":
		return r, daybook.Invalid("traceparent", "is empty; leave --traceparent out for none")
	case fs.Changed("key") && f.key == "":
		return r, daybook.Invalid("key", "is empty; leave --key out for no key")
	case f.maxFailures < 1:
		return r, daybook.Invalid("max_failures", "wants 1…%d, got %d", daybook.MaxFailuresMax, f.maxFailures)
	case f.timeout <= 0:
		return r, daybook.Invalid("timeout", "wants 1ms…%s, got %s", daybook.TimeoutMax, f.timeout)
	}
	args, err := f.input(stdin, fs)
	r.Args = args
	return r, err
}

func (f *enqueueFlags) input(stdin io.Reader, fs *pflag.FlagSet) (json.RawMessage, error) {
	if fs.Changed("args") {
		if f.args == "" {
			return nil, daybook.Invalid("args", "is empty; wants a JSON document")
		}
		return json.RawMessage(f.args), nil
	}
	if !fs.Changed("args-file") {
		return nil, nil
	}
	from := stdin
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, usage("--args-file %s can't be read; give an existing file", f.file)
		}
		defer file.Close()
		from = file
	}
	// One byte past the limit is enough for the book to refuse it.
	args, err := io.ReadAll(io.LimitReader(from, daybook.ArgsMax+1))
	switch {
	case err != nil:
		return nil, usage("--args-file %s can't be read to its end", f.file)
	case len(args) > daybook.ArgsMax:
		return nil, &daybook.Error{Code: daybook.CodeTooLarge, Field: "args",
			Text: fmt.Sprintf("at most %d bytes; the file has more", daybook.ArgsMax)}
	case len(args) == 0:
		return nil, daybook.Invalid("args", "is empty; wants a JSON document")
	}
	return args, nil
}

// The environment's names for the headers of W3C Trace Context.
const (
	envTraceparent = "TRACEPARENT"
	envTracestate  = "TRACESTATE"
)

// environTrace is the trace that this process was started in. Like a header, one
// that breaks the standard is none.
func environTrace() daybook.Trace {
	return daybook.ReadTrace(os.Getenv(envTraceparent), os.Getenv(envTracestate))
}
