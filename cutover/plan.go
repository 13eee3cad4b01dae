package cutover

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Plan is what people decided before the gate.
type Plan struct {
	Intake   Intake      `json:"intake"`              // "" is unanswered
	Owners   string      `json:"owners"`              // what becomes of jobs in progress: "" is unanswered
	Wait     Seconds     `json:"owners_wait_seconds"` // how long live owners are waited for
	Rollback []Condition `json:"rollback"`
	// NoRollback says that people decided to have no condition.
	NoRollback bool `json:"no_rollback,omitempty"`
	// Classes is the mapping that later steps go by, unless they are given another.
	Classes map[string]Rule `json:"classes,omitempty"`
	// How is what else the source must be opened with, for later steps.
	How How `json:"how,omitzero"`
}

// How says how an old system is opened, beside where it is: see the options of its
// source. What a system hasn't is the zero value.
type How struct {
	Prefix      string  `json:"prefix,omitempty"`
	WorkersUser string  `json:"workers_user,omitempty"`
	WorkerTTL   Seconds `json:"worker_ttl_seconds,omitempty"`
}

// Seconds is a duration that JSON has in seconds.
type Seconds time.Duration

func (s Seconds) String() string { return time.Duration(s).String() }

// MarshalJSON writes seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON reads them.
func (s *Seconds) UnmarshalJSON(doc []byte) error {
	var n float64
	if err := json.Unmarshal(doc, &n); err != nil {
		return err
	}
	*s = Seconds(n * float64(time.Second))
	return nil
}

// Intake is how new jobs come in while the queue moves.
type Intake string

// The ways.
const (
	// IntakeDeploy: producers are switched by deploys; what they still put into the
	// old queue meanwhile is swept in.
	IntakeDeploy Intake = "deploy"
	// IntakeForward: producers stay as they are; the sweep forwards what they put
	// there, with the old id, until they are switched.
	IntakeForward Intake = "forward"
	// IntakeDouble: from the gate on, and not before, since old workers would do
	// the old copy, producers write to both, the book with the old id as its
	// request key. The book decides.
	IntakeDouble Intake = "double"
)

// What becomes of jobs whose owner died in the old system.
const (
	OwnersAsk  = "ask"  // each is set aside with the open effect handler; kinds declared safe move
	OwnersSafe = "safe" // all kinds of this queue may be repeated: they move
)

// Question is one that a plan answers.
type Question struct {
	Name     string `json:"name"`
	Asks     string `json:"asks"`
	Answer   string `json:"answer,omitempty"`
	Missing  string `json:"missing,omitempty"` // what to do to answer it
	Informed bool   `json:"from_the_system"`   // answered by looking, not by people
}

// MakePlan begins the cutover, or changes the plan of one that hasn't closed the
// gate yet. Without a mapping of the engine's the plan's classes stand.
func (e *Engine) MakePlan(ctx context.Context, queue string, p Plan) (daybook.Cutover, error) {
	if err := e.o.Mapping.Check(); err != nil {
		return daybook.Cutover{}, err
	}
	if err := p.check(); err != nil {
		return daybook.Cutover{}, err
	}
	if err := daybook.CheckBy(e.o.By); err != nil {
		return daybook.Cutover{}, err
	}
	place, err := e.old.Check(ctx)
	if err != nil {
		return daybook.Cutover{}, err
	}
	if len(e.o.Mapping.Classes) > 0 {
		p.Classes = e.o.Mapping.Classes
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return daybook.Cutover{}, err
	}
	c, err := e.Load(ctx)
	if daybook.CodeOf(err) == daybook.CodeNotFound {
		c, err = e.book.PlanCutover(ctx, daybook.Cutover{Name: e.name, System: place.System, Version: place.Version,
			Store: place.Store, OldQueue: place.Queue, Queue: queue, Plan: doc}, e.o.By)
		return c, err
	}
	if err != nil {
		return c, err
	}
	if c.Queue != queue {
		return c, daybook.Fail(daybook.CodeRefused, "cutover %s moves into queue %s, not %s", c.Name, c.Queue, queue)
	}
	return e.book.ReplanCutover(ctx, e.name, doc, e.o.By)
}

func (p Plan) check() error {
	switch {
	case p.Intake != "" && p.Intake != IntakeDeploy && p.Intake != IntakeForward && p.Intake != IntakeDouble:
		return daybook.Invalid("intake", "wants deploy, forward or double, got %q", p.Intake)
	case p.Owners != "" && p.Owners != OwnersAsk && p.Owners != OwnersSafe:
		return daybook.Invalid("owners", "wants ask or safe, got %q", p.Owners)
	case p.Wait < 0:
		return daybook.Invalid("owners-wait", "wants a time ≥ 0, got %s", p.Wait)
	case p.NoRollback && len(p.Rollback) > 0:
		return daybook.Invalid("rollback-if", "name conditions or none, not both")
	}
	return nil
}

// PlanOf reads a cutover's plan.
func PlanOf(c daybook.Cutover) (p Plan, err error) {
	if len(c.Plan) > 0 {
		err = json.Unmarshal(c.Plan, &p)
	}
	return p, err
}

// Questions answers what a plan must answer, from the plan and from what was
// found in the old system.
func Questions(c daybook.Cutover, p Plan, n Notes, left map[string]int64) []Question {
	intake := Question{Name: "intake", Asks: "Where do new jobs enter in each phase?",
		Missing: "say --intake deploy, forward or double"}
	switch p.Intake {
	case IntakeDeploy:
		intake.Answer = "the old queue, until each producer is deployed with the new way; from then on here. What still " +
			"comes there after the gate is swept in, under its old id"
	case IntakeForward:
		intake.Answer = "the old queue, all the time; after the gate the sweep forwards it, under its old id, until " +
			"producers are switched"
	case IntakeDouble:
		intake.Answer = "the old queue alone until the gate is proved, and the gate refuses while jobs wait here that came " +
			"before it: old workers do their copies. From then on both, first here, with the id that the old copy will have " +
			"as request key, then there. This book decides: an old copy of the same kind and args is dropped, and one that " +
			"differs, or whose job here was called off, is held, and a person is asked"
	}
	owners := Question{Name: "owners", Asks: "Who owns the jobs that are in progress at the gate?",
		Missing: "say --owners ask or safe, and --owners-wait"}
	switch p.Owners {
	case OwnersAsk:
		owners.Answer = "their old workers, for up to " + p.Wait.String() + " after the gate; what loses its worker is set " +
			"aside here with the open effect handler, for a person, unless its class is declared safe"
	case OwnersSafe:
		owners.Answer = "their old workers, for up to " + p.Wait.String() + " after the gate; what loses its worker runs " +
			"again here, since all of it was declared safe to repeat"
	}
	rollback := Question{Name: "rollback", Asks: "What triggers a rollback?",
		Missing: "say --rollback-if CONDITION, --rollback-when CONDITION, or --no-rollback"}
	if p.NoRollback {
		rollback.Answer = "nothing by itself: a person decides"
	}
	var conditions []string
	for _, c := range p.Rollback {
		conditions = append(conditions, c.String())
	}
	if len(conditions) > 0 {
		rollback.Answer = strings.Join(conditions, "; ")
	}
	return []Question{intake, owners,
		{Name: "duplicates", Informed: true, Asks: "How are duplicates recognised?", Answer: "by the old id and the hash " +
			"of the job's body, in the cutover's own list, which outlives the jobs: all equal is acknowledged and counted; " +
			"the same id with another body is held, and a person is asked"},
		stranded(n, left), rollback}
}

func stranded(n Notes, left map[string]int64) Question {
	q := Question{Name: "stranded", Informed: true, Asks: "How are stranded jobs found?",
		Missing: "take an inventory: cutover inventory NAME"}
	if n.Inventory == nil {
		return q
	}
	q.Answer = "every place of the old store is read at one instant and listed by id; sweeps repeat until nothing is " +
		"left, and reconcile names each id that is nowhere"
	if unread := n.Inventory.Unreadable; unread > 0 {
		q.Answer += "; bodies that can't be read are carried as they are and set aside"
	}
	if len(n.Inventory.Notes) > 0 {
		q.Answer += ". " + strings.Join(n.Inventory.Notes, ". ")
	}
	return q
}

// unanswered is the first question that nobody answered.
func unanswered(questions []Question) (Question, bool) {
	for _, q := range questions {
		if q.Answer == "" {
			return q, true
		}
	}
	return Question{}, false
}
