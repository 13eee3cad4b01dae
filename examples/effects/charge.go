package effects

import (
	"context"

	"github.com/daybookdev/daybook/worker"
)

// Charge charges a card at a payment API that enforces the effect key, for a
// while. Inside the window a call whose outcome is unknown is simply made again
// with the same key: the API does it once. Past the window a person is asked.
//
// NextKey, since this API stores errors too: after a declined card another call
// with the old key would be told "declined" for ever. Input, since the amount
// must not change under a key.
func (h Handlers) Charge(ctx context.Context, c *worker.Claim[Order]) error {
	receipt, err := worker.Effect(ctx, "charge", worker.Keyed(h.Window),
		func(ctx context.Context, key string) (Receipt, error) {
			return h.post(ctx, "POST", h.Payments+"/charges", key, c.Args)
		}, worker.NextKey(), worker.Input(c.Args))
	if err != nil {
		return err
	}
	return c.SetResult(receipt)
}
