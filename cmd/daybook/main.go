// Daybook is the command line of the job system: it accepts, runs, explains
// and repairs jobs in one book. `daybook --help` lists the commands; each has
// a file of its own here.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook/telemetry"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run carries one command out and returns its exit status. It is all of main,
// so that tests run commands inside their own process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{base: ctx, stdin: stdin, stdout: stdout, stderr: stderr, terminal: isTerminal}
	return a.run(args)
}

// app is one call of the program: its streams and what the flags said.
type app struct {
	base     context.Context // not ended by signals: work decides about them itself
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal func(stream any) bool
	now      func() time.Time // the book's clock; nil is the process's
	flags    globals
	tracer   *telemetry.Tracer // nil unless spans are wanted
	cache    int               // bytes of the book's file to keep in memory; 0 is cacheSmall
	echo     time.Duration     // how often a bell makes sure that it hears; 0 is its default
}

func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(a.base, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.stderr = &shared{Writer: a.stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil && a.base.Err() == nil {
		err = exitError{statusFailed, "interrupted: " + err.Error()}
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "daybook: %s\n", oneLine(errorText(cmd, err)))
	}
	return statusOf(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := group("daybook", "Accept, run, explain and repair durable jobs",
		"daybook enqueue --queue mail --kind welcome --args '{\"to\":\"ada@example.org\"}'",
		"daybook work --queue mail --exec 'cat' --drain",
		"daybook job list --db postgres://daybook@localhost/app")
	root.Version = versionOf().Version
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.settle(cmd) }
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%s; see %s --help", flagProblem(err), c.CommandPath())
	})
	root.SetHelpCommand(a.helpCommand())
	a.registerGlobals(root)
	completeURLs(root)
	root.AddCommand(
		a.demoCommand(), a.drillCommand(), a.serveCommand(), a.tokenCommand(), a.enqueueCommand(),
		a.workCommand(),
		a.claimCommand(), a.renewCommand(), a.completeCommand(), a.failCommand(), a.releaseCommand(),
		a.jobCommand(), a.effectCommand(), a.queueCommand(), a.workerCommand(), a.backlogCommand(),
		a.inventoryCommand(), a.relayCommand(), a.reconcileCommand(), a.checkCommand(), a.schemaCommand(),
		a.doctorCommand(), a.pruneCommand(), a.cutoverCommand(), a.topCommand(), a.benchCommand(),
		a.versionCommand(), a.completionCommand(),
	)
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// group is a command that only holds others: alone it prints its help, and a
// word that it doesn't know is wrong usage.
func group(use, short string, examples ...string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example(examples...), Args: cobra.ArbitraryArgs,
		SuggestionsMinimumDistance: 2}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		text := fmt.Sprintf("%s has no command %q", c.CommandPath(), args[0])
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + near[0] + "?"
		}
		return usage("%s; see %s --help", text, c.CommandPath())
	}
	return c
}

// wrapArgs makes a wrong number of arguments wrong usage, whatever cobra calls it.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return argsProblem(c, args)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Print the help of a command",
		Example: example("daybook help enqueue", "daybook help job list"),
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no command %q; see daybook --help", strings.Join(args, " "))
			}
			if found.DisableFlagParsing { // a command of a later version
				return found.RunE(found, nil)
			}
			return found.Help()
		},
	}
}

// example lays a command's examples out, one a line. A test runs every one.
func example(lines ...string) string {
	text := ""
	for i, line := range lines {
		if i > 0 {
			text += "\n"
		}
		text += "  " + line
	}
	return text
}
