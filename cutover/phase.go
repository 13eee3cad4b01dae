package cutover

import (
	"slices"

	"github.com/daybookdev/daybook"
)

// nextVerbs carry a cutover on from its phase.
var nextVerbs = map[daybook.Phase]string{daybook.PhasePlan: "shadow", daybook.PhaseShadow: "gate",
	daybook.PhaseGate: "move", daybook.PhaseMove: "settle", daybook.PhaseSettle: "run", daybook.PhaseRun: "reconcile",
	daybook.PhaseReconcile: "retire", daybook.PhaseRetire: "retire", daybook.PhaseReturning: "rollback"}

// wrongPhase refuses a step that its cutover isn't at, and names the one that is next.
func wrongPhase(c daybook.Cutover, doing string, wants ...daybook.Phase) error {
	at := func(p daybook.Phase) int {
		return slices.IndexFunc(daybook.PhaseRules, func(r daybook.PhaseRule) bool { return r.Phase == p })
	}
	when := "late"
	if at(c.Phase) < at(wants[0]) {
		when = "early"
	}
	verb := nextVerbs[c.Phase]
	if n, err := NotesOf(c); err == nil && c.Phase == daybook.PhaseGate && (n.Gate == nil || n.Gate.Proved == 0) {
		verb = "gate"
	}
	next := "the next command is daybook cutover " + verb + " " + c.Name
	if verb == "" {
		next = "it is over"
	}
	return daybook.Fail(daybook.CodeRefused, "cutover %s is in phase %s, too %s for %s; %s", c.Name, c.Phase, when, doing,
		next)
}
