package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// cutoverStepCommand is one that carries a cutover on.
func (a *app) cutoverStepCommand(verb, short string, more func(*cobra.Command),
	work func(context.Context, *cutover.Engine) error, examples ...string) *cobra.Command {
	f := oldFlags{back: verb == "rollback"}
	if len(examples) == 0 {
		examples = []string{"daybook cutover " + verb + " mail --from redis://localhost:6379/0",
			"daybook cutover " + verb + " mail --from redis://localhost:6379/0 -o json"}
	}
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Example: example(examples...), Args: cobra.ExactArgs(1)}
	f.register(cmd)
	if more != nil {
		more(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.engine(cmd.Context(), args[0], &f, work)
	}
	return cmd
}

func (a *app) cutoverShadowCommand() *cobra.Command {
	d := time.Minute
	return a.cutoverStepCommand("shadow", "Watch the old system, and compare what it does with what came in",
		func(cmd *cobra.Command) {
			cmd.Flags().Var(spanFlag{&d, 0}, "for",
				"how long to watch (0 or more; Ctrl-C ends sooner)")
		}, func(ctx context.Context, e *cutover.Engine) error {
			s, err := e.Shadow(ctx, d)
			if err != nil {
				return err
			}
			return a.show(s, func(t *table) {
				t.row("seen", s.Seen)
				t.row("waiting or running, nothing to compare yet", s.Waits)
				t.row("agreed", s.Agreed)
				t.row("differ", s.Differ)
				for _, how := range sortedKeys(s.How) {
					t.row("  "+how, s.How[how])
				}
				t.row("missing, and no trace how they ended", s.Missing)
			})
		})
}

func (a *app) cutoverGateCommand() *cobra.Command {
	most := 15 * time.Minute
	return a.cutoverStepCommand("gate", "Close the old claim path, and prove that it is closed",
		func(cmd *cobra.Command) {
			cmd.Flags().Var(spanFlag{&most, time.Second}, "for",
				"give up when it isn't proved by then (1s or more)")
		}, func(ctx context.Context, e *cutover.Engine) error {
			p, err := e.Gate(ctx, most)
			if err != nil {
				return err
			}
			return a.show(p, func(t *table) {
				t.row("closed", p.Closed)
				paragraph(t, "how", p.How)
				t.row("proved", p.Proved)
				t.row("canary", p.Canary)
				t.row("taken by old workers meanwhile", p.Leaks)
				for _, id := range p.Took {
					t.row("", id)
				}
				for _, way := range p.Ways {
					paragraph(t, "still open", way)
				}
			})
		})
}

func sweptRows(t *table, s cutover.Swept) {
	t.row("moved in", s.Taken)
	t.row("  set aside, as they were", s.Aside)
	t.row("  held, their id is known for something else", s.Asked)
	t.row("recognised", s.Known)
}

func watchRows(t *table, s cutover.Swept) {
	sweptRows(t, s)
	t.row("taken by old workers meanwhile", s.Leaked)
	t.row("looks that found the old gate open, and closed it", s.Opened)
}

func (a *app) cutoverMoveCommand() *cobra.Command {
	return a.cutoverStepCommand("move", "Take every job that nobody works on out of the old queue, held", nil,
		func(ctx context.Context, e *cutover.Engine) error {
			s, err := e.Move(ctx)
			if err != nil {
				return err
			}
			return a.show(s, func(t *table) { sweptRows(t, s) })
		})
}

func (a *app) cutoverSettleCommand() *cobra.Command {
	return a.cutoverStepCommand("settle", "Wait for jobs in old workers' hands, and decide those that lost theirs", nil,
		func(ctx context.Context, e *cutover.Engine) error {
			s, err := e.Settle(ctx)
			if err != nil {
				return err
			}
			return a.show(s, func(t *table) {
				t.row("ended under their old workers", s.Finished)
				t.row("given back, and moved in", s.Moved)
				t.row("lost their worker", s.Lost)
				t.row("waited for other jobs there, set aside", s.Blocked)
			})
		})
}

func (a *app) cutoverRunCommand() *cobra.Command {
	return a.cutoverStepCommand("run", "Let the book claim: its queue opens, and the moved jobs are released", nil,
		func(ctx context.Context, e *cutover.Engine) error {
			r, err := e.Run(ctx)
			if err != nil {
				return err
			}
			return a.show(r, func(t *table) { t.row("released", r.Released) })
		})
}

func (a *app) cutoverWatchCommand() *cobra.Command {
	var d time.Duration
	return a.cutoverStepCommand("watch", "Recognise or move in what still comes to the old queue; watch the conditions",
		func(cmd *cobra.Command) {
			cmd.Flags().Var(spanFlag{&d, 0}, "for",
				"how long (0 looks once; Ctrl-C ends sooner)")
		}, func(ctx context.Context, e *cutover.Engine) error {
			s, err := e.Watch(ctx, d)
			if err != nil {
				return err
			}
			if err := a.show(s, func(t *table) { watchRows(t, s) }); err != nil || s.Opened+s.Leaked == 0 {
				return err
			}
			return exitError{statusRefused, fmt.Sprintf("old workers must not claim now: the old gate was found open %s and "+
				"closed again, and %s taken; find out who opens it, or starts old workers", count(int(s.Opened), "time"),
				count(int(s.Leaked), "job"))}
		}, "daybook cutover watch mail --from redis://localhost:6379/0",
		"daybook cutover watch mail --from redis://localhost:6379/0 --for 24h")
}

func (a *app) cutoverReconcileCommand() *cobra.Command {
	return a.cutoverStepCommand("reconcile", "Account for every job that was seen, by its id; exit 5 without balance",
		nil, func(ctx context.Context, e *cutover.Engine) error {
			b, err := e.Reconcile(ctx)
			if err != nil {
				return err
			}
			if err := a.show(b, func(t *table) { balanceRows(t, b) }); err != nil || b.Balanced {
				return err
			}
			return exitError{statusViolation, fmt.Sprintf("it doesn't balance: %d still with the old system, %d not where "+
				"they should be", b.Still, len(b.Wrong))}
		})
}

func balanceRows(t *table, b cutover.Balance) {
	t.row("seen before the gate", b.Seen)
	t.row("arrived after it", b.Arrived)
	t.row("= moved in", b.Moved)
	t.row("+ finished in the old system", fmt.Sprintf("%d (%d of them without a record there)", b.Finished, b.Inferred))
	t.row("+ dead, carried over", b.Dead)
	t.row("+ open", openSaid(b.Open, b.Undecided))
	if b.Returned+b.Kept > 0 {
		t.row("+ given back", b.Returned)
		t.row("+ kept here when the rest went back", b.Kept)
	}
	t.row("+ still there", b.Still)
	t.row("duplicates recognised and refused", b.Again)
	openRows(t, b.Opens)
	for _, f := range b.Wrong {
		t.row("WRONG", f.ID+" "+f.What)
	}
}

func (a *app) cutoverRollbackCommand() *cobra.Command {
	var yes bool
	return a.cutoverStepCommand("rollback", "Give back what never ran here, in its order; the old gate opens last",
		func(cmd *cobra.Command) {
			cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask (default false)")
		}, func(ctx context.Context, e *cutover.Engine) error {
			c, err := e.Load(ctx)
			if err != nil {
				return err
			}
			if !yes && !c.Phase.Over() {
				if err := a.confirm(fmt.Sprintf("Roll cutover %s back from phase %s?", c.Name, c.Phase),
					"daybook cutover status "+c.Name); err != nil {
					return err
				}
			}
			r, err := e.Rollback(ctx)
			if err != nil {
				return err
			}
			return a.show(r, func(t *table) {
				t.row("given back", r.Returned)
				t.row("kept here", r.Kept)
				for _, id := range r.KeptIDs {
					t.row("", id)
				}
				staysRows(t, r)
			})
		}, "daybook cutover rollback mail --from redis://localhost:6379/0 --reason 'the new handler fails' -y",
		"daybook cutover rollback mail --from redis://localhost:6379/0 -y -o json")
}

func (a *app) cutoverRetireCommand() *cobra.Command {
	quiet := 24 * time.Hour
	return a.cutoverStepCommand("retire", "End the cutover when the old queue has been empty for long enough",
		func(cmd *cobra.Command) {
			cmd.Flags().Var(spanFlag{&quiet, 0}, "quiet",
				"how long it must have been empty (longer than the old system's longest timeout; 0 or more)")
		}, func(ctx context.Context, e *cutover.Engine) error {
			left, err := e.Retire(ctx, quiet)
			if err != nil {
				return err
			}
			if left > 0 {
				return daybook.Fail(daybook.CodeRefused, "the old queue must stay empty for %s more; run it again then",
					left.Round(time.Second))
			}
			b, err := e.Board(ctx)
			if err != nil {
				return err
			}
			answer := struct {
				Phase     daybook.Phase     `json:"phase"`
				Undecided int64             `json:"undecided"`
				Opens     []cutover.OpenJob `json:"open_jobs,omitempty"`
			}{daybook.PhaseRetired, b.Balance.Undecided, b.Balance.Opens}
			return a.show(answer, func(t *table) {
				t.row("retired")
				if answer.Undecided > 0 {
					t.row("open", openSaid(b.Balance.Open, answer.Undecided))
					openRows(t, answer.Opens)
					paragraph(t, "", openAdvice)
				}
			})
		}, "daybook cutover retire mail --from redis://localhost:6379/0",
		"daybook cutover retire mail --from redis://localhost:6379/0 --quiet 48h")
}

func (a *app) cutoverStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Show the phase board: who may claim, what was there and is, what wants a decision",
		Example: example("daybook cutover status", "daybook cutover status -o json"),
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, args []string) error {
		if len(args) == 0 {
			return a.cutoverList(ctx, book)
		}
		c, err := book.Cutover(ctx, args[0])
		if err != nil {
			return err
		}
		b, err := cutover.BoardOf(ctx, book, c, nil)
		if err != nil {
			return err
		}
		return a.show(b, func(t *table) { boardRows(t, b) })
	})
	return cmd
}

func (a *app) cutoverList(ctx context.Context, book *daybook.Book) error {
	list, err := book.Cutovers(ctx)
	if err != nil {
		return err
	}
	whole := struct {
		Cutovers []daybook.Cutover `json:"cutovers"`
	}{orEmpty(list)}
	head := []string{"NAME", "FROM", "QUEUE", "PHASE", "MAY CLAIM", "SINCE"}
	return showList(a, whole, list, head, func(t *table, c daybook.Cutover) {
		t.row(c.Name, c.System+" "+c.OldQueue, c.Queue, c.Phase, c.Claims, c.Since)
	})
}

// deathRows name the workers over there that died, the last first, and what each
// leaves to decide.
func deathRows(t *table, b cutover.Board) {
	for _, d := range b.Deaths {
		seen := "not known when it was last seen"
		if d.Seen != 0 {
			seen = "last seen at " + d.Seen.String()
		}
		atLeast := ""
		if b.MoreOpen {
			atLeast = "at least "
		}
		paragraph(t, "old worker died", fmt.Sprintf("%s, %s, found dead at %s: %s%s because of it", d.Worker, seen, d.Found,
			atLeast, count(int(d.Open), "open job")))
	}
}

func boardRows(t *table, b cutover.Board) {
	planPage(t, b)
	t.row("", "")
	if g := b.Notes.Gate; g != nil {
		paragraph(t, "gate", fmt.Sprintf("proved at %s, %d jobs taken meanwhile; %s", g.Proved, g.Leaks, g.How))
		if g.Opened > 0 {
			paragraph(t, "gate found open", fmt.Sprintf("%d times since the book may claim, last at %s; closed again", g.Opened,
				g.OpenedAt))
		}
	}
	balanceRows(t, b.Balance)
	deathRows(t, b)
	t.row("late arrivals", b.Notes.Late)
	for _, g := range b.Gauges {
		met := "no"
		if g.Met {
			met = "MET"
		}
		t.row("condition", fmt.Sprintf("%s; now %d: %s", g.Condition, g.Now, met))
	}
	for _, s := range b.Cutover.Steps {
		what := string(s.Phase)
		if s.What != "" {
			what += ", " + s.What
		}
		t.row(s.At, fmt.Sprintf("%s by %s: %s", what, dash(s.Actor), dash(s.Reason)))
	}
}
