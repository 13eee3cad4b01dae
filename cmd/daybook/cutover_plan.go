package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

func (a *app) cutoverCommand() *cobra.Command {
	cmd := group("cutover", "Move a queue out of another job system, without losing or doubling a job",
		"daybook cutover plan mail --system sidekiq --from redis://localhost:6379/0 --queue mail",
		"daybook cutover status mail")
	cmd.AddCommand(a.cutoverPlanCommand(), a.cutoverInventoryCommand(), a.cutoverShadowCommand(), a.cutoverGateCommand(),
		a.cutoverMoveCommand(), a.cutoverSettleCommand(), a.cutoverRunCommand(), a.cutoverWatchCommand(),
		a.cutoverReconcileCommand(), a.cutoverRollbackCommand(), a.cutoverRetireCommand(), a.cutoverStatusCommand())
	return cmd
}

func (a *app) cutoverPlanCommand() *cobra.Command {
	var f oldFlags
	var p cutover.Plan
	patience := 10 * time.Minute
	var to, intake string
	var asks, fires []string
	cmd := &cobra.Command{
		Use: "plan NAME", Short: "Begin a cutover, or change its plan: a page that answers what must be known",
		Long: "Begin a cutover, or change its plan up to the shadow: what isn't said anew stays as it was planned.\n\n" +
			"It prints a page that answers what must be known before the gate.",
		Example: example(
			"daybook cutover plan mail --system sidekiq --from redis://localhost:6379/0 --queue mail",
			"daybook cutover plan mail --system sidekiq --from redis://localhost:6379/0 --queue mail "+
				"--intake deploy --owners ask --owners-wait 10m --rollback-if 'set_aside>20' --reason 'Redis goes away'"),
		Args: cobra.ExactArgs(1),
	}
	f.register(cmd)
	f.registerPlace(cmd)
	fs := cmd.Flags()
	fs.StringVar(&to, "to", "", "the queue here (1–128 of letters, digits, . _ - :; default the old queue's name)")
	fs.StringVar(&intake, "intake", "", "how new jobs come in: deploy, forward or double (default not answered)")
	fs.StringVar(&p.Owners, "owners", "",
		"what becomes of jobs whose old worker dies: ask (a person, but for safe classes) or safe (all run again) "+
			"(default not answered)")
	fs.Var(spanFlag{&patience, 0}, "owners-wait",
		"how long jobs in old workers' hands are waited for (0 or more)")
	fs.StringArrayVar(&asks, "rollback-if", nil,
		"tell when this holds, such as 'set_aside>20'; can be given again (default none)")
	fs.StringArrayVar(&fires, "rollback-when", nil,
		"begin the rollback by itself when this holds; can be given again (default none)")
	fs.BoolVar(&p.NoRollback, "no-rollback", false, "nothing triggers a rollback by itself (default false)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.Intake, p.Wait = cutover.Intake(intake), cutover.Seconds(patience)
		if err := conditions(&p, asks, fires); err != nil {
			return err
		}
		return a.engine(cmd.Context(), args[0], &f, func(ctx context.Context, e *cutover.Engine) error {
			p.How = f.how()
			to, err := planned(ctx, e, cmd, cmp.Or(to, f.queue), &p)
			if err != nil {
				return err
			}
			if err := daybook.CheckName("to", to); err != nil {
				return err
			}
			if _, err := e.MakePlan(ctx, to, p); err != nil {
				return err
			}
			if _, err := e.Inventory(ctx); err != nil {
				return err
			}
			board, err := e.Board(ctx)
			if err != nil {
				return err
			}
			return a.show(board, func(t *table) { planPage(t, board) })
		})
	}
	return cmd
}

// planned leaves of an earlier plan what isn't said anew, and answers the queue here.
func planned(ctx context.Context, e *cutover.Engine, cmd *cobra.Command, to string, p *cutover.Plan) (string, error) {
	c, err := e.Load(ctx)
	if daybook.CodeOf(err) == daybook.CodeNotFound {
		return to, nil
	}
	if err != nil {
		return "", err
	}
	was, err := cutover.PlanOf(c)
	said := cmd.Flags().Changed
	if !said("intake") {
		p.Intake = was.Intake
	}
	if !said("owners") {
		p.Owners = was.Owners
	}
	if !said("owners-wait") {
		p.Wait = was.Wait
	}
	if !said("rollback-if") && !said("rollback-when") && !said("no-rollback") {
		p.Rollback, p.NoRollback = was.Rollback, was.NoRollback
	}
	if !said("to") {
		to = c.Queue
	}
	p.Classes = was.Classes
	p.How = cutover.How{Prefix: cmp.Or(p.How.Prefix, was.How.Prefix),
		WorkersUser: cmp.Or(p.How.WorkersUser, was.How.WorkersUser), WorkerTTL: cmp.Or(p.How.WorkerTTL, was.How.WorkerTTL)}
	return to, err
}

func conditions(p *cutover.Plan, asks, fires []string) error {
	for _, list := range []struct {
		texts []string
		fires bool
	}{{asks, false}, {fires, true}} {
		for _, text := range list.texts {
			c, err := cutover.ParseCondition(text, list.fires)
			if err != nil {
				return err
			}
			p.Rollback = append(p.Rollback, c)
		}
	}
	return nil
}

// planPage is the page that a team reads before the gate.
func planPage(t *table, b cutover.Board) {
	c := b.Cutover
	t.row("Cutover", c.Name)
	t.row("from", fmt.Sprintf("%s queue %s at %s", c.System, c.OldQueue, c.Store))
	t.row("to", "queue "+c.Queue)
	t.row("phase", fmt.Sprintf("%s: %s may claim; %s", c.Phase, c.Claims, b.What))
	if n := b.Notes.Inventory; n != nil {
		inventoryRows(t, *n)
		kindRows(t, b.Plan, *n)
	}
	for _, q := range b.Questions {
		t.row("", "")
		t.row(q.Name, q.Asks)
		if q.Answer != "" {
			paragraph(t, "", q.Answer)
		} else {
			paragraph(t, "", "NOT ANSWERED: "+q.Missing)
		}
	}
}

// kindRows say what each class of the old system is here.
func kindRows(t *table, p cutover.Plan, n cutover.OldInventory) {
	m := cutover.Mapping{Classes: p.Classes}
	for _, class := range sortedKeys(n.Classes) {
		var jobs int64
		for _, of := range n.Classes[class] {
			jobs += of
		}
		how := "no --map names it"
		if _, named := p.Classes[class]; named {
			how = "by --map"
		}
		t.row("  class "+dash(class), fmt.Sprintf("%d → kind %s (%s)", jobs, m.KindOf(class), how))
	}
}

// paragraph is text that may be longer than a cell shows.
func paragraph(t *table, label, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > paragraphWidth {
			t.row(label, line)
			label, line = "", ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	t.row(label, line)
}

const paragraphWidth = 96

func inventoryRows(t *table, n cutover.OldInventory) {
	t.row("inventory", "of "+n.At.String())
	for _, s := range daybook.OldStates {
		if s != daybook.OldGone {
			t.row("  "+string(s), n.States[s])
		}
	}
	t.row("  unreadable", fmt.Sprintf("%d of them", n.Unreadable))
	for _, why := range sortedKeys(n.Reasons) {
		t.row("", fmt.Sprintf("%d: %s", n.Reasons[why], why))
	}
	for _, id := range n.Named {
		t.row("", id)
	}
	for _, note := range n.Notes {
		paragraph(t, "  note", note)
	}
	if n.Jobs == 0 {
		paragraph(t, "  note", fmt.Sprintf("no job of queue %s is at %s: make sure that these, and %s, are what you mean",
			n.Place.Queue, n.Place.Store, n.Place.System))
	}
}

func (a *app) cutoverInventoryCommand() *cobra.Command {
	var f oldFlags
	var asOf daybook.Time
	cmd := &cobra.Command{
		Use: "inventory [NAME]", Short: "Count an old queue by state, of one instant; with NAME it is noted in the cutover",
		Example: example(
			"daybook cutover inventory --system sidekiq --from redis://localhost:6379/0 --queue mail",
			"daybook cutover inventory mail --from redis://localhost:6379/0 -o json"),
		Args: cobra.MaximumNArgs(1),
	}
	f.register(cmd)
	f.registerPlace(cmd)
	cmd.Flags().Var(timeFlag{&asOf}, "as-of", "judge leases and due times as of then, RFC 3339 with a zone (default now)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.inventoryAlone(cmd.Context(), &f, asOf)
		}
		if asOf != 0 {
			return usage("--as-of is for an inventory without NAME: what a cutover notes is as of now")
		}
		return a.engine(cmd.Context(), args[0], &f, func(ctx context.Context, e *cutover.Engine) error {
			n, err := e.Inventory(ctx)
			if err != nil {
				return err
			}
			return a.show(n, func(t *table) { inventoryRows(t, n) })
		})
	}
	return cmd
}

// inventoryAlone needs no book.
func (a *app) inventoryAlone(ctx context.Context, f *oldFlags, asOf daybook.Time) error {
	old, err := f.open()
	if err != nil {
		return err
	}
	defer old.Close()
	bar := a.cutoverBar()
	n, err := cutover.Take(ctx, old, asOf, bar.report)
	bar.end()
	if err != nil {
		return err
	}
	return a.show(n, func(t *table) { inventoryRows(t, n) })
}
