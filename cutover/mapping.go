package cutover

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Mapping says what an old system's classes are here. A class that isn't named
// keeps its name, as far as names of kinds allow.
type Mapping struct {
	Classes map[string]Rule
}

// Rule is what becomes of one class.
type Rule struct {
	Kind   string         `json:"kind,omitempty"`    // "" is the class's name
	Args   Shape          `json:"args,omitempty"`    // "" is as they are
	OnLost daybook.OnLost `json:"on_lost,omitempty"` // "" is retry
	// Safe says that doing it twice is as doing it once: what lost its owner in
	// the old system moves as if it had never begun, without asking anybody.
	Safe        bool    `json:"safe,omitempty"`
	MaxFailures int     `json:"max_failures,omitempty"` // 0 is what the old system allowed, or the default
	Timeout     Seconds `json:"timeout_seconds,omitempty"`
}

// mapping is what the engine was given, else what the plan noted.
func (e *Engine) mapping(p Plan) Mapping {
	if len(e.o.Mapping.Classes) > 0 {
		return e.o.Mapping
	}
	return Mapping{Classes: p.Classes}
}

// Shape is how an old system's list of arguments becomes the args.
type Shape string

// The shapes.
const (
	AsTheyAre Shape = ""
	OnlyOne   Shape = "only" // a list of one becomes that one
)

// Check holds a mapping to the limits of names, so that it fails before a job
// moves.
func (m Mapping) Check() error {
	for class, r := range m.Classes {
		if r.Kind != "" {
			if err := daybook.CheckName("kind", r.Kind); err != nil {
				return fmt.Errorf("class %q: %w", class, err)
			}
		}
		switch {
		case r.Args != AsTheyAre && r.Args != OnlyOne:
			return daybook.Invalid("args", "of class %q wants \"only\" or nothing, got %q", class, r.Args)
		case r.OnLost != "" && r.OnLost != daybook.LostRetry && r.OnLost != daybook.LostSetAside:
			return daybook.Invalid("on_lost", "of class %q wants retry or set_aside, got %q", class, r.OnLost)
		case r.MaxFailures < 0 || r.MaxFailures > daybook.MaxFailuresMax:
			return daybook.Invalid("max_failures", "of class %q wants 1…%d, got %d", class, daybook.MaxFailuresMax,
				r.MaxFailures)
		}
	}
	return nil
}

// KindOf is a class's kind here.
func (m Mapping) KindOf(class string) string {
	if r := m.Classes[class]; r.Kind != "" {
		return r.Kind
	}
	kind := strings.Map(func(r rune) rune {
		if r < 0x80 && daybook.CheckName("kind", string(r)) == nil {
			return r
		}
		return '-'
	}, class)
	if len(kind) > daybook.NameMax {
		kind = kind[:daybook.NameMax]
	}
	if kind == "" {
		kind = "unknown"
	}
	return kind
}

// Arrive makes a job of the old system one of the book. What can't be read, or
// doesn't fit the book's limits, is set aside with its bytes and the reason, and
// never skipped.
func (m Mapping) Arrive(c daybook.Cutover, o daybook.OldJob) daybook.Arriving {
	rule := m.Classes[o.Class]
	a := daybook.Arriving{Old: o, Request: daybook.Request{Queue: c.Queue, Kind: m.KindOf(o.Class), Args: o.Args,
		Priority: min(max(o.Priority, daybook.PriorityMin), daybook.PriorityMax), OnLost: rule.OnLost,
		MaxFailures: min(rule.MaxFailures, daybook.MaxFailuresMax), Timeout: time.Duration(rule.Timeout)}}
	if a.Request.MaxFailures == 0 && o.MaxAttempts > 0 {
		a.Request.MaxFailures = min(o.MaxAttempts, daybook.MaxFailuresMax)
	}
	if a.Request.Timeout == 0 && o.Timeout >= time.Millisecond && o.Timeout <= daybook.TimeoutMax {
		a.Request.Timeout = o.Timeout
	}
	if o.DueAt > 0 && o.DueAt <= daybook.TimeMax && (o.State == daybook.OldLater || o.State == daybook.OldRetrying) {
		a.Request.RunAt = o.DueAt.Std()
	}
	switch o.State {
	case daybook.OldDead:
		a.Aside = daybook.ReasonFailures
	case daybook.OldBlocked:
		a.Aside = daybook.ReasonPermanent
		if a.Old.Error == "" {
			a.Old.Error = "waited there for other jobs, or to be grouped with them, which nothing here does"
		}
	case daybook.OldOwnerLost, daybook.OldOwned, daybook.OldGone:
		a.OwnerDied = !rule.Safe
	}
	why := o.Unreadable
	if why == "" {
		a.Request.Args, why = rule.Args.shape(o.Args)
	}
	if why == "" {
		if _, err := a.Request.Prepare(); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		a = unreadable(a, why)
	}
	return a
}

// unreadable carries a job that can't be read for a person to see.
func unreadable(a daybook.Arriving, why string) daybook.Arriving {
	args := daybook.UnreadableArgs(a.Old.Body)
	if len(args) > daybook.ArgsMax {
		args, _ = json.Marshal(map[string]int{"bytes": len(a.Old.Body)})
	}
	r := a.Request
	a.Request = daybook.Request{Queue: r.Queue, Kind: r.Kind, Args: args, OnLost: r.OnLost}
	if !a.OwnerDied {
		a.Aside = daybook.ReasonUndecodable
	}
	if a.Old.Error == "" {
		a.Old.Error = "not readable here: " + why
	}
	return a
}

func (s Shape) shape(args json.RawMessage) (json.RawMessage, string) {
	if s != OnlyOne {
		return args, ""
	}
	var list []json.RawMessage
	if err := json.Unmarshal(args, &list); err != nil {
		return args, "the mapping says that it has one argument, and its arguments are no list in JSON"
	}
	if len(list) != 1 {
		return args, fmt.Sprintf("the mapping says that it has one argument, and it has %d", len(list))
	}
	return list[0], ""
}
