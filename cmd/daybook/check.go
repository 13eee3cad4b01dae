package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/client"
)

// checkFlags say what is checked.
type checkFlags struct {
	full, selftest bool
	bell           bellFlag
	accepted       string
}

// bellFlag is --bell of check: it asks for the bell to be read, and may name it,
// as the flag of all other commands does.
type bellFlag struct {
	read bool
	url  string
}

func (f *bellFlag) String() string { return f.url }
func (f *bellFlag) Type() string   { return "URL" }

func (f *bellFlag) Set(given string) error {
	f.read, f.url = given != "false", ""
	if given != "true" && given != "false" {
		f.url = given
	}
	return nil
}

// checked is the answer of a check. Ids that somebody was told are accepted
// are held against the book like an invariant of their own.
type checked struct {
	check.Report
	Accepted *check.Acceptance `json:"accepted,omitempty"`
	Bell     *check.BellReport `json:"bell,omitempty"`
}

func (a *app) checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Hold the book to its invariants, reading only; exit 5 on a violation",
		Example: example("daybook check", "daybook check --full -o json"),
		Args: func(_ *cobra.Command, args []string) error { // a URL may stand behind --bell as a word of its own
			if len(args) == 1 && f.bell.read && f.bell.url == "" {
				return f.bell.Set(args[0])
			}
			if len(args) > 0 {
				return usage("check takes no arguments, got %q; see daybook check --help", args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.full, "full", false,
		"walk all rows, not only live ones and what ended since the last check (default false)")
	cmd.Flags().Var(&f.bell, "bell", "read the bell too, and note which rings lie there for nothing; --bell=URL "+
		"names one (default false)")
	cmd.Flags().Lookup("bell").NoOptDefVal = "true"
	cmd.Flags().StringVar(&f.accepted, "accepted", "",
		"file of job ids, or JSON lines with id and key, that must be in the book; - is standard input")
	cmd.Flags().BoolVar(&f.selftest, "selftest", false,
		"break a scratch book once per invariant, and print which fired (default false)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.selftest && (f.full || f.bell.read || f.accepted != ""):
			return usage("--selftest looks at a book of its own; leave the other flags out")
		case f.selftest:
			return a.selftest(cmd.Context())
		case a.flags.server != "":
			return a.checkServer(cmd.Context(), f)
		}
		return a.check(cmd.Context(), f)
	}
	return cmd
}

// checkServer has the server check its book.
func (a *app) checkServer(ctx context.Context, f checkFlags) error {
	if f.bell.read || f.accepted != "" {
		return usage("--bell and --accepted of check need the book itself; leave --server out and name it with --db")
	}
	return a.onServer(ctx, func(ctx context.Context, server *client.Client) error {
		report, err := server.Check(ctx, f.full)
		if err != nil {
			return err
		}
		answer := checked{Report: check.Report{Violations: report.Violations, Full: report.Full}}
		for _, r := range report.Invariants {
			answer.Invariants = append(answer.Invariants, check.Result(r))
		}
		return a.showCheck(answer)
	})
}

func (a *app) check(ctx context.Context, f checkFlags) error {
	var witness io.Reader
	switch f.accepted {
	case "":
	case "-":
		witness = a.stdin
	default:
		file, err := os.Open(f.accepted)
		if err != nil {
			return usage("--accepted %s can't be read; give an existing file of job ids", f.accepted)
		}
		defer file.Close()
		witness = file
	}
	if f.bell.url != "" {
		a.flags.bell = f.bell.url
	}
	return a.onBook(ctx, func(ctx context.Context, book *daybook.Book) error {
		report, err := check.Run(ctx, book, check.Options{Full: f.full})
		if err != nil {
			return err
		}
		answer := checked{Report: report}
		if witness != nil {
			if err := answer.hold(ctx, book, witness); err != nil {
				return err
			}
			a.note("--accepted had %s to look for", count(int(answer.Accepted.Accepted), "id"))
		}
		return a.checkBell(ctx, book, f, answer)
	})
}

// checkBell adds what lies in the bell. A bell that can't be read keeps nobody
// from what the book says.
func (a *app) checkBell(ctx context.Context, book *daybook.Book, f checkFlags, answer checked) error {
	if !f.bell.read {
		return a.showCheck(answer)
	}
	report, bellErr := check.Bell(ctx, book)
	if bellErr == nil {
		answer.Bell = &report
	}
	if err := a.showCheck(answer); err != nil {
		return err
	}
	return bellErr
}

// hold looks for the ids that a witness was told are accepted.
func (c *checked) hold(ctx context.Context, book *daybook.Book, witness io.Reader) error {
	accepted, err := check.Accepted(ctx, book, witness)
	if err != nil {
		return err
	}
	c.Accepted = &accepted
	c.Violations += len(accepted.Missing)
	result := check.Result{Name: "accepted", Sentence: "Every accepted id is in the book.",
		Rows: len(accepted.Missing), Walked: accepted.Accepted}
	for _, id := range accepted.Missing[:min(len(accepted.Missing), subjectsMax)] {
		result.Found = append(result.Found, daybook.Violation{Invariant: result.Name, Subject: id.String(),
			Detail: "missing"})
	}
	c.Invariants = append(c.Invariants, result)
	return nil
}

// subjectsMax bounds how many places a table names for one invariant.
const subjectsMax = 10

func (a *app) showCheck(answer checked) error {
	err := showList(a, answer, answer.Invariants, nil, func(t *table, r check.Result) {
		mark := "ok"
		if r.Rows > 0 {
			mark = fmt.Sprint(r.Rows)
		}
		t.row(mark, r.Name, r.Sentence)
		for _, v := range r.Found[:min(len(r.Found), subjectsMax)] {
			t.row("", v.Subject, v.Detail)
		}
	})
	if err == nil && answer.Bell != nil && !a.json() {
		err = a.showBell(*answer.Bell)
	}
	if err == nil && answer.Violations > 0 {
		err = exitError{statusViolation, count(answer.Violations, "violation")}
	}
	return err
}

// showBell prints what lies in the bell: notes, whatever they count.
func (a *app) showBell(r check.BellReport) error {
	t := &table{}
	for _, n := range []struct {
		count int
		what  string
	}{
		{r.Read, "rings were read from the bell"}, {r.Work, "have work to speak of"},
		{r.NoWork, "are for a queue in which nothing is eligible"}, {r.UnknownQueues, "are for a queue that isn't there"},
		{r.UnknownJobs, "name a job that isn't there"}, {r.Finished, "name a job that has ended"},
		{r.Owned, "name a job that runs already"}, {r.Foreign, "name a job of another queue"},
	} {
		t.row("note", n.count, n.what)
	}
	t.row("note", "", r.Sentence)
	return t.write(a.stdout)
}

// selftest shows that the checker finds what it is there to find.
func (a *app) selftest(ctx context.Context) error {
	out := a.stdout
	if a.json() {
		out = io.Discard
	}
	db, err := a.database()
	if err != nil {
		return err
	}
	err = selftestOn(ctx, db.scratch(ctx), out)
	if err != nil || !a.json() {
		return err
	}
	return daybook.EncodeJSON(a.stdout, map[string]any{"ok": true, "invariants": len(daybook.Invariants)})
}

// selftestOn tells a checker that finds nothing from a database that makes no
// book.
func selftestOn(ctx context.Context, s scratch, out io.Writer) error {
	var opening error
	open := func() (book *daybook.Book, err error) {
		book, opening = s.open()
		return book, opening
	}
	err := check.Selftest(ctx, open, s.spoil, out)
	if opening == nil && daybook.CodeOf(err) == daybook.CodeInternal {
		err = exitError{statusViolation, err.Error()}
	}
	if clearing := s.clear(); err == nil {
		err = clearing
	}
	return err
}

// quietBook is a book whose repairs nobody wants to read about.
var quietBook = daybook.Options{Log: slog.New(slog.DiscardHandler)}
