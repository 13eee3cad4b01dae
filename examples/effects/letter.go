package effects

import (
	"context"

	"github.com/daybookdev/daybook/worker"
)

// Letter has a letter printed and posted by a legacy API that takes no key and
// can't be asked. When a call's outcome is unknown, nothing but a look into its
// drawer helps: the job is set aside, and a person settles it.
func (h Handlers) Letter(ctx context.Context, c *worker.Claim[Order]) error {
	receipt, err := worker.Effect(ctx, "letter", worker.Ask,
		func(ctx context.Context, _ string) (Receipt, error) {
			return h.post(ctx, "POST", h.Legacy+"/letters", "", c.Args)
		})
	if err != nil {
		return err
	}
	return c.SetResult(receipt)
}
