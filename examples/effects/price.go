package effects

import (
	"context"

	"github.com/daybookdev/daybook/worker"
)

// Price sets a price. Setting it twice is the same as setting it once, so a call
// whose outcome is unknown is made again. (It is so only while nobody else sets
// another price in between: else declare Ask, or let the list take a version.)
func (h Handlers) Price(ctx context.Context, c *worker.Claim[Order]) error {
	receipt, err := worker.Effect(ctx, "price", worker.Repeatable,
		func(ctx context.Context, _ string) (Receipt, error) {
			return h.post(ctx, "PUT", h.Prices+"/prices", "", c.Args)
		})
	if err != nil {
		return err
	}
	return c.SetResult(receipt)
}
