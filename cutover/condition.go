package cutover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// Condition is when a cutover should be rolled back.
type Condition struct {
	Measure string `json:"measure"`
	Above   int64  `json:"above"`
	Fires   bool   `json:"fires"` // rolls back by itself, else only tells
}

// Measures are what conditions can be about, with a sentence each.
var Measures = map[string]string{
	"set_aside":   "jobs of the queue that are set aside here, less as many as were carried over as dead or are open",
	"oldest_age":  "seconds that the oldest eligible job has waited here",
	"open":        "jobs of which nobody knew whether they were done, decided since or not",
	"leaks":       "jobs that old workers took after the gate was closed",
	"gate_opened": "looks that found the old gate open while the book may claim",
	"asked":       "jobs of a known id with another body",
	"late":        "jobs that arrived in the old queue after the book began to run",
	"held_in_old": "jobs in the old store's held list",
}

// ParseCondition reads MEASURE>NUMBER, such as set_aside>20.
func ParseCondition(text string, fires bool) (Condition, error) {
	measure, number, found := strings.Cut(text, ">")
	measure = strings.TrimSpace(measure)
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if _, known := Measures[measure]; !found || err != nil || n < 0 || !known {
		return Condition{}, daybook.Invalid("rollback-if", "wants MEASURE>NUMBER with one of %s, got %q",
			measureNames(), text)
	}
	return Condition{Measure: measure, Above: n, Fires: fires}, nil
}

func measureNames() string {
	names := make([]string, 0, len(Measures))
	for name := range Measures {
		names = append(names, name)
	}

	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (c Condition) String() string {
	how := "a person decides when "
	if c.Fires {
		how = "by itself when "
	}
	return fmt.Sprintf("%s%s is above %d", how, c.Measure, c.Above)
}

// Gauge is a condition with how far it is from firing.
type Gauge struct {
	Condition
	Now int64 `json:"now"`
	Met bool  `json:"met"`
}

// Gauges measures a plan's conditions.
func Gauges(p Plan, values map[string]int64) []Gauge {
	gauges := make([]Gauge, 0, len(p.Rollback))
	for _, c := range p.Rollback {
		gauges = append(gauges, Gauge{Condition: c, Now: values[c.Measure], Met: values[c.Measure] > c.Above})
	}
	return gauges
}
