package daybook

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
)

// PlanChanged is what a step says that changed a plan and no phase.
const PlanChanged = "plan changed"

// ReplanCutover gives a cutover another plan, up to the shadow: who did it, and why, is
// a step of its own. The same plan again changes nothing.
func (b *Book) ReplanCutover(ctx context.Context, name string, plan json.RawMessage, by By) (next Cutover, err error) {
	if err := CheckBy(by); err != nil {
		return next, err
	}
	err = b.cutoverWrite(ctx, "changing a cutover's plan", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		next = c
		switch {
		case c.Phase != PhasePlan && c.Phase != PhaseShadow:
			return Fail(CodeRefused, "cutover %s is in phase %s; its plan can be changed up to shadow", c.Name, c.Phase)
		case bytes.Equal(c.Plan, plan):
			return nil
		}
		next.Plan = plan
		next.Steps = append(slices.Clone(c.Steps), PhaseStep{At: tx.Now(), Phase: c.Phase, What: PlanChanged,
			Actor: by.Actor, Reason: by.Reason})
		return ct.SaveCutover(ctx, next)
	})
	return next, err
}
