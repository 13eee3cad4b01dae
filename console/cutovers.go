package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// cutoversPage lists the queues that move, or moved, out of other systems.
type cutoversPage struct {
	Rows []daybook.Cutover
	None bool // this store keeps none
	More int
	Now  daybook.Time
}

// cutoverPage is the phase board of one.
type cutoverPage struct {
	cutover.Board
	Now     daybook.Time
	Phases  []phaseStep
	Claims  []claimant
	Next    []nextCommand
	States  []stateCount
	Terms   []termCount
	Gauges  []gauge
	Opens   []cutover.OpenJob // the first that nobody has decided
	Closed  []cutover.OpenJob // the first that somebody has
	Others  int64             // open ones that aren't named
	Term    daybook.Term      // of the list below; "" is all
	Items   []daybook.Item
	Cursor  string
	Later   bool
	Missing int // questions without an answer
}

func (p cutoverPage) title() string { return "Cutover " + p.Cutover.Name }

// phaseStep is one phase on the way, and when it was entered.
type phaseStep struct {
	daybook.PhaseRule
	At    daybook.Time
	Class string // past, now or ahead
}

// claimant is one who could claim, and whether it is the one who may.
type claimant struct {
	Name, Text string
	May        bool
}

// nextCommand is what moves a cutover on. Only the command line does: it alone
// reaches the old system.
type nextCommand struct{ Line, What string }

// stateCount is how many jobs were in a state over there, by each look.
type stateCount struct {
	State         daybook.OldState
	Before, Last  int64
	Still         int64 // as last seen, of those that no other term accounts for
	Gated, Looked bool  // there was such an inventory
}

// termCount is how many jobs stand on a side of the balance.
type termCount struct {
	Term daybook.Term
	N    int64
}

// gauge is a condition with how far it is from being met.
type gauge struct {
	cutover.Gauge
	Sentence string
	Left     int64 // until it is met
	Unknown  bool  // only the old store knows, and the console doesn't ask it
}

// cutoversShown and itemsShown bound the lists.
const cutoversShown, itemsShown = 200, 50

// cutoverList lists them, the newest first, with everybody who looks now.
func (c *Console) cutoverList(ctx context.Context) ([]daybook.Cutover, error) {
	return see(ctx, c, "cutovers", func(ctx context.Context) ([]daybook.Cutover, error) {
		list, err := c.book.Cutovers(ctx)
		slices.Reverse(list)
		slices.SortStableFunc(list, func(a, b daybook.Cutover) int {
			return btoi(a.Phase.Over()) - btoi(b.Phase.Over())
		})
		return list, err
	})
}

func (c *Console) loadCutovers(a *ask) (any, error) {
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	list, err := c.cutoverList(a.ctx)
	if daybook.CodeOf(err) == daybook.CodeRefused {
		return cutoversPage{None: true}, nil
	}
	p := cutoversPage{Rows: list, Now: b.At}
	if p.More = max(0, len(list)-cutoversShown); p.More > 0 {
		p.Rows = list[:cutoversShown]
	}
	return p, err
}

// board is what the book knows of a cutover, with everybody who looks now.
type board struct {
	cutover.Board
	Counts []daybook.ItemCount
}

func (c *Console) board(ctx context.Context, name string) (board, error) {
	return see(ctx, c, "cutover "+name, func(ctx context.Context) (b board, err error) {
		record, err := c.book.Cutover(ctx, name)
		if err != nil {
			return b, err
		}
		if b.Board, err = cutover.BoardOf(ctx, c.book, record, nil); err != nil {
			return b, err
		}
		b.Counts, err = c.book.ItemCounts(ctx, name)
		return b, err
	})
}

func (c *Console) loadCutover(a *ask) (any, error) {
	name := a.r.PathValue("name")
	if err := daybook.CheckName("name", name); err != nil {
		return nil, daybook.Fail(daybook.CodeNotFound, "there is no such cutover")
	}
	term := daybook.Term(a.query.Get("term"))
	if term != "" && !slices.Contains(daybook.Terms, term) {
		return nil, daybook.Invalid("term", "wants one of %v", daybook.Terms)
	}
	clock, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	b, err := c.board(a.ctx, name)
	if err != nil {
		return nil, err
	}
	p := cutoverPage{Board: b.Board, Now: clock.At, Phases: phasesOf(b.Cutover), Claims: claimantsOf(b.Cutover),
		States: statesOf(b), Gauges: gaugesOf(b.Gauges), Term: term}
	for _, o := range b.Balance.Opens {
		if o.Decided {
			p.Closed = append(p.Closed, o)
		} else {
			p.Opens = append(p.Opens, o)
		}
	}
	p.Others = b.Balance.Open - int64(len(b.Balance.Opens))
	for _, q := range b.Questions {
		p.Missing += btoi(q.Answer == "")
	}
	p.Next = nextOf(b.Cutover, p.Missing)
	terms := map[daybook.Term]int64{}
	for _, n := range b.Counts {
		terms[n.Term] += n.Items
	}
	for _, t := range daybook.Terms {
		if terms[t] > 0 || t == term {
			p.Terms = append(p.Terms, termCount{t, terms[t]})
		}
	}
	cursor := a.query.Get("cursor")
	page, err := see(a.ctx, c, "items "+query("of", name, "term", string(term), "cursor", cursor),
		func(ctx context.Context) (daybook.Page[daybook.Item], error) {
			return c.book.Items(ctx, daybook.ItemFilter{Cutover: name, Term: term, Limit: itemsShown, Cursor: cursor})
		})
	p.Items, p.Cursor, p.Later = page.Items, page.Cursor, cursor != ""
	return p, err
}

// phasesOf is the way of a cutover: forward, or as far as it came and then back.
func phasesOf(c daybook.Cutover) (all []phaseStep) {
	back := c.Phase == daybook.PhaseReturning || c.Phase == daybook.PhaseReturned
	for _, rule := range daybook.PhaseRules {
		s := phaseStep{PhaseRule: rule, At: c.EnteredAt(rule.Phase), Class: "ahead"}
		switch returns := rule.Phase == daybook.PhaseReturning || rule.Phase == daybook.PhaseReturned; {
		case returns && !back, back && !returns && s.At == 0:
			continue
		case rule.Phase == c.Phase:
			s.Class = "now"
		case s.At != 0:
			s.Class = "past"
		}
		all = append(all, s)
	}
	return all
}

func claimantsOf(c daybook.Cutover) []claimant {
	return []claimant{
		{"The old system", safe(c.System) + " takes jobs from " + safe(c.OldQueue), c.Claims == daybook.OldMayClaim},
		{"Nobody", "one of the two is closed, and the other isn't open yet", c.Claims == daybook.NoneMayClaim},
		{"The book", "workers here take jobs from " + c.Queue, c.Claims == daybook.BookMayClaim},
	}
}

// nextOf names the commands that move a cutover on from where it is.
func nextOf(c daybook.Cutover, missing int) (all []nextCommand) {
	put := func(verb, what string) {
		all = append(all, nextCommand{"daybook cutover " + verb + " " + c.Name, what})
	}
	back := nextCommand{"daybook cutover rollback " + c.Name + " --reason '…'",
		"or back: what never ran here goes to the old system again"}
	planning := c.Phase == daybook.PhasePlan || c.Phase == daybook.PhaseShadow
	if planning && missing > 0 {
		put("plan", fmt.Sprintf("first: %s below has no answer; see --help for how it is given", count(missing, "question")))
	}
	for _, next := range c.Phase.Rule().Next {
		switch next {
		case daybook.PhaseReturning, daybook.PhaseReturned:
			if c.Phase == daybook.PhaseReturning {
				back.What = "goes on with giving back; the old gate opens last"
			}
			all = append(all, back)
		case daybook.PhaseRetired:
			put("retire", next.Rule().What)
		default:
			put(string(next), next.Rule().What)
		}
	}
	if c.Phase == daybook.PhaseRun || c.Phase == daybook.PhaseReconcile {
		put("watch", "meanwhile: recognises or moves in what still comes there, and watches the conditions below")
	}
	return all
}

// statesOf sets the looks at the old system beside each other.
func statesOf(b board) (all []stateCount) {
	still := map[daybook.OldState]int64{}
	for _, n := range b.Counts {
		if n.Term == daybook.TermStill || n.Term == daybook.TermReturning {
			still[n.Last] += n.Items
		}
	}
	for _, state := range daybook.OldStates {
		row := stateCount{State: state, Still: still[state]}
		if n := b.Notes.Before; n != nil {
			row.Gated, row.Before = true, n.States[state]
		}
		if n := b.Notes.Inventory; n != nil {
			row.Looked, row.Last = true, n.States[state]
		}
		if row.Before+row.Last+row.Still > 0 {
			all = append(all, row)
		}
	}
	return all
}

func gaugesOf(measured []cutover.Gauge) (all []gauge) {
	for _, g := range measured {
		all = append(all, gauge{Gauge: g, Sentence: cutover.Measures[g.Measure], Left: max(0, g.Above+1-g.Now),
			Unknown: g.Measure == "held_in_old"})
	}
	return all
}

// cutoverNeeds says which queues are on their way, and what is wrong with one.
func (c *Console) cutoverNeeds(list []daybook.Cutover, now daybook.Time, put func(int, need)) {
	for _, r := range list {
		notes, err := cutover.NotesOf(r)
		switch to := c.url("/cutover/" + r.Name); {
		case r.Phase.Over():
		case err == nil && notes.Fired != "":
			put(1, need{Class: "alarm", Shape: "alert", Text: "Cutover " + r.Name + " is being rolled back",
				More: "By its own condition: " + safe(notes.Fired), To: to, Link: "See the board"})
		default:
			put(6, need{Class: "note", Shape: "moved", Text: fmt.Sprintf("Queue %s moves in: phase %s", r.Queue, r.Phase),
				More: fmt.Sprintf("for %s; %s may claim", lasted(now.Sub(r.Since)), mayClaim(r.Claims)), To: to,
				Link: "See the board"})
		}
	}
}

func mayClaim(a daybook.Authority) string {
	return map[daybook.Authority]string{daybook.OldMayClaim: "the old system", daybook.NoneMayClaim: "nobody",
		daybook.BookMayClaim: "the book"}[a]
}

// cutoverOf is the name of the cutover that holds, "" for another holder.
func cutoverOf(holder string) string {
	name, ok := strings.CutPrefix(holder, daybook.Cutover{}.Holder())
	name = strings.TrimSuffix(name, ":asked")
	if !ok || daybook.CheckName("name", name) != nil {
		return ""
	}
	return name
}
