package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
	"github.com/daybookdev/daybook/store/postgres"
)

// drillFlags say which faults are tried, and how often.
type drillFlags struct {
	seed          uint64
	gaps          []string
	minutes       float64
	times, lanes  int
	svg           string
	restart       string
	ownServer     bool
	effects       bool
	list, process bool
}

func (a *app) drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use: "drill", Short: "Make faults under real processes on your own store and bell, and judge what is left",
		Long: "Make faults under real processes on your own store and bell, and judge what is left.\n\n" +
			"It runs on what --db and --bell name, in a file or schema of its own, which goes when all held, and reaches no\n" +
			"connections but its own. Workers, relay, server and enqueuers are killed, stopped past their lease and told\n" +
			"lies; in the end every accepted id must be found, and everything must have happened outside just as the book\n" +
			"says. Each fault must be shown to have happened. Without --minutes it makes each once, in about a minute.\n" +
			"Exit 5 on a violation, 1 when a fault could not be made.",
		Example: example("daybook drill --gap cancel-complete --seed 7", "daybook drill --list -o json"),
		Args:    cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fs := cmd.Flags()
		switch {
		case f.process:
			return drill.Child(a.stdin, a.stdout, a.stderr, a.drillOpener(true))
		case f.list:
			return a.listDrill()
		}
		if err := errors.Join(f.check(fs), a.drillPlace(f)); err != nil {
			return err
		}
		if !fs.Changed("seed") {
			f.seed = rand.Uint64N(1_000_000)
		}
		if f.effects {
			return a.drillEffects(cmd.Context(), f)
		}
		return a.drill(cmd.Context(), f)
	}
	return cmd
}

func (f *drillFlags) register(fs *pflag.FlagSet) {
	fs.Uint64Var(&f.seed, "seed", 0, "decides the order of the faults (0 or more; default drawn)")
	fs.StringSliceVar(&f.gaps, "gap", nil, "only this gap or fault, as --list names it; can be given again (default all)")
	fs.Float64Var(&f.minutes, "minutes", 0,
		fmt.Sprintf("make faults for so long (more than 0, at most %d; default each once)", drill.MinutesMax))
	fs.IntVar(&f.lanes, "lanes", 0,
		fmt.Sprintf("faults at once, each with processes of its own (1…%d; default as many as the store bears)",
			drill.LanesMax))
	fs.StringVar(&f.svg, "svg", "", "write a picture of the drill in time to this file (default none)")
	fs.BoolVar(&f.ownServer, "own-server", false,
		"start a PostgreSQL of its own, instead of --db, so that it may be restarted (default false)")
	fs.StringVar(&f.restart, "restart-cmd", "",
		"a shell command that restarts the server of --db; it is run (default none: the server is left alone)")
	fs.BoolVar(&f.effects, "effects", false,
		"only around effects, each policy in each gap, as a table of its own (default false)")
	fs.IntVar(&f.times, "times", 0, fmt.Sprintf("with --effects, rounds of every fault (1…%d; default 1, or what "+
		"--minutes allows)", drill.TimesMax))
	fs.BoolVar(&f.list, "list", false, "list the faults, and run nothing (default false)")
	fs.BoolVar(&f.process, "process", false, "be one of the drill's own processes (default false)")
	_ = fs.MarkHidden("process") // fails only for a flag that isn't there
}

// check refuses what doesn't fit together, or is out of range.
func (f *drillFlags) check(fs *pflag.FlagSet) error {
	switch {
	case fs.Changed("minutes") && f.minutes <= 0 || fs.Changed("times") && f.times <= 0 ||
		fs.Changed("lanes") && f.lanes <= 0:
		return usage("--minutes wants more than 0, --times and --lanes 1 or more; got %g, %d and %d", f.minutes, f.times,
			f.lanes)
	case f.minutes > drill.MinutesMax || f.minutes != f.minutes:
		return usage("--minutes wants at most %d, got %g", drill.MinutesMax, f.minutes)
	case fs.Changed("gap") && len(f.gaps) == 0:
		return usage("--gap is empty; name what daybook drill --list shows, or leave it out for all")
	case fs.Changed("restart-cmd") && strings.TrimSpace(f.restart) == "":
		return usage("--restart-cmd is empty; give a shell command that restarts the server of --db, or leave it out")
	case f.times > 0 && !f.effects:
		return usage("--times is for --effects; how long a whole drill takes is --minutes")
	case f.ownServer && f.restart != "":
		return usage("--own-server and --restart-cmd don't go together: its own server it restarts itself")
	case f.effects && (f.svg != "" || f.ownServer || f.restart != ""):
		return usage("--svg, --own-server and --restart-cmd are not for --effects")
	}
	return nil
}

// drillPlace refuses a place that doesn't go with the flags.
func (a *app) drillPlace(f drillFlags) error {
	switch {
	case f.ownServer && a.flags.dbGiven:
		return usage("--own-server and --db don't go together: its own server is where it runs; leave one out")
	case f.restart != "" && !strings.HasPrefix(a.flags.db, "postgres"):
		return usage("--restart-cmd is for a PostgreSQL in --db: a SQLite file has no server to restart")
	}
	return nil
}

// length is how long faults are made; 0 is one round.
func (f *drillFlags) length() time.Duration { return time.Duration(f.minutes * float64(time.Minute)) }

// listDrill says which faults there are.
func (a *app) listDrill() error {
	list := drill.List()
	return showList(a, map[string]any{"gaps": daybook.Gaps, "faults": list}, list, []string{"NAME", "HOW", "WHAT"},
		func(t *table, f drill.Listed) { t.row(f.Name, f.How, f.What) })
}

// drillBook is where a drill has its own book.
type drillBook struct {
	DB     string        `json:"db"` // may hold a password: travels over pipes only
	Schema string        `json:"schema,omitempty"`
	Name   string        `json:"name,omitempty"` // of the bell
	Bell   string        `json:"bell,omitempty"` // "" is the store's own
	Clock  time.Duration `json:"clock,omitempty"`
	shown  string        // the book's place, for people
	remove string        // the command that removes it by hand
	dir    string        // of the processes' logs; "" is one that the drill makes
	clear  func() error  // removes the book
}

// drillEcho is how often the bells of a drill make sure that they hear.
const drillEcho = 500 * time.Millisecond

// drillOpener opens the book of a drill, in this process or in one of its
// children: those are many, and share what connections the server has.
func (a *app) drillOpener(child bool) drill.Opener {
	return func(ctx context.Context, where string, o daybook.Options) (*daybook.Book, error) {
		var b drillBook
		if json.Unmarshal([]byte(where), &b) != nil {
			return nil, daybook.Invalid("where", "names no book of a drill")
		}
		its := &app{base: a.base, stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, flags: a.flags, echo: drillEcho}
		its.flags.db, its.flags.schema, its.flags.bell = b.DB, cmp.Or(b.Schema, b.Name), b.Bell
		its.flags.schemaGiven, its.flags.server = b.Schema != "", ""
		db, err := its.database()
		if err != nil {
			return nil, err
		}
		switch at := db.(type) {
		case postgresDatabase:
			if child {
				at.conns = postgres.ConnsMin
			}
			db = at
		case *sqliteDatabase: // whose clock is the process's
			if b.Clock != 0 {
				its.now = func() time.Time { return time.Now().Add(b.Clock) }
			}
		}
		if b.Bell != "" && o.Bell == nil {
			if o.Bell, err = its.bell(db); err != nil {
				return nil, err
			}
		}
		return db.open(ctx, o)
	}
}

// drill makes every fault that the site allows, and shows what came of it. Its
// processes are this program again.
func (a *app) drill(ctx context.Context, f drillFlags) (err error) {
	o := drill.FaultOptions{Seed: f.seed, Only: f.gaps, For: f.length(), Lanes: f.lanes, Open: a.drillOpener(false)}
	self, err := os.Executable()
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the drill can't find its own program to start it again")
	}
	o.Command = []string{self, "drill", "--process"}
	o.Note = func(format string, args ...any) { a.note(format, args...) }
	if err := errors.Join(o.Check(), canDraw(f.svg)); err != nil { // before anything is made
		return err
	}
	power, stop, err := a.drillPower(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	book, site, err := a.drillSite(ctx, power)
	if err != nil {
		return err
	}
	o.Site, o.Dir, o.Lanes = site, book.dir, f.lanes
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is gone: leave nothing behind
	defer unhook()
	report, err := drill.RunFaults(ctx, o)
	report.Replay = a.replay(f)
	held := err == nil && report.Err() == nil
	if ctx.Err() != nil {
		a.note("stopped; what the drill made is removed")
	}
	if held || ctx.Err() != nil || errors.Is(err, drill.ErrNothing) { // nothing to look into
		err = errors.Join(err, book.clear(), os.RemoveAll(book.dir))
	} else {
		a.tellKept(book, f.ownServer)
	}
	if err != nil {
		return err
	}
	return a.showFaults(report, f)
}

// tellKept says where to look into a drill that didn't hold, and how to remove
// what is left of it then.
func (a *app) tellKept(book drillBook, gone bool) {
	if gone {
		a.note("the drill's book ends with its own server; what its processes wrote is kept in %s", book.dir)
		return
	}
	remove := "rm -r " + quoted(book.dir)
	if book.remove != "" {
		remove = book.remove + " && " + remove
	}
	a.note("the drill's book is kept, look into it with %s; what its processes wrote is in %s; when you are done with "+
		"them: %s", book.shown, book.dir, remove)
}

// showFaults shows a report and makes it the exit status.
func (a *app) showFaults(r drill.Report, f drillFlags) error {
	if a.json() {
		if err := daybook.EncodeJSON(a.stdout, r); err != nil {
			return err
		}
	} else if err := r.Table(a.stdout); err != nil {
		return err
	}
	if f.svg != "" {
		if err := drawFaults(r, f.svg); err != nil {
			return err
		}
	}
	switch err := r.Err(); {
	case errors.Is(err, drill.ErrViolated):
		return exitError{statusViolation, fmt.Sprintf("the drill found %s; replay it by %s",
			count(r.Violations, "violation"), r.Replay)}
	case err != nil:
		return exitError{statusFailed, fmt.Sprintf("the drill is void: %s could not be shown to have happened",
			count(r.Void, "fault"))}
	}
	return nil
}

// canDraw refuses a picture that couldn't be written when the drill is over.
func canDraw(path string) error {
	if path == "" {
		return nil
	}
	_, missing := os.Stat(path)
	file, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return usage("--svg can't be written: %s", err)
	}
	if err = file.Close(); missing != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func drawFaults(r drill.Report, path string) error {
	file, err := os.Create(filepath.Clean(path))
	if err != nil {
		return exitError{statusFailed, "can't write " + path + ": " + err.Error()}
	}
	return errors.Join(r.SVG(file), file.Close())
}

// replay is the command that makes the same drill again, in the same place where
// that was on the command line. A URL with a password isn't shown: then, as where
// the environment names the place, it must be given again.
func (a *app) replay(f drillFlags) string {
	line := f.again()
	for _, at := range []struct {
		flag, value string
		given       bool
	}{{"db", a.flags.db, a.flags.dbGiven}, {"bell", a.flags.bell, a.flags.bellGiven}} {
		if at.given && hidePasswords(at.value) == at.value {
			line += " --" + at.flag + " " + quoted(at.value)
		}
	}
	return line
}

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@,=+-]+$`)

// quoted is a word for a shell.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// again is the command that makes the same drill again.
func (f drillFlags) again() string {
	line := fmt.Sprintf("daybook drill --seed %d", f.seed)
	if f.effects {
		line += " --effects"
	}
	for _, gap := range f.gaps {
		line += " --gap " + gap
	}
	if f.minutes > 0 {
		line += fmt.Sprintf(" --minutes %g", f.minutes)
	}
	if f.times > 0 {
		line += fmt.Sprintf(" --times %d", f.times)
	}
	if f.lanes > 0 {
		line += fmt.Sprintf(" --lanes %d", f.lanes)
	}
	if f.ownServer {
		line += " --own-server"
	}
	if f.restart != "" {
		line += " --restart-cmd " + quoted(f.restart)
	}
	return line
}
