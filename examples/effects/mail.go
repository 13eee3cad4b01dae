package effects

import (
	"context"
	"fmt"
	"net/http"

	"github.com/daybookdev/daybook/worker"
)

// Send sends a message through an e-mail provider that sends whatever it is
// asked to, twice too, but can be asked whether it has a message. The effect key
// is the message id, so the next attempt knows which one to ask for.
func (h Handlers) Send(ctx context.Context, c *worker.Claim[Order]) error {
	receipt, err := worker.Effect(ctx, "mail", worker.Checked(h.sent, h.Quiet),
		func(ctx context.Context, key string) (Receipt, error) {
			return h.post(ctx, "POST", h.Mail+"/messages/"+key, "", c.Args)
		})
	if err != nil {
		return err
	}
	return c.SetResult(receipt)
}

// sent asks the provider for a message. Only its own 404 is a no, and that only
// because Quiet has passed; an error means that nobody can tell, and the job is
// set aside for a person.
func (h Handlers) sent(ctx context.Context, key string) (Receipt, bool, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", h.Mail+"/messages/"+key, nil)
	if err != nil {
		return Receipt{}, false, err
	}
	answer, err := h.Client.Do(r)
	if err != nil {
		return Receipt{}, false, err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		receipt, err := read(answer)
		return receipt, err == nil, err
	case http.StatusNotFound:
		return Receipt{}, false, answer.Body.Close()
	}
	answer.Body.Close()
	return Receipt{}, false, fmt.Errorf("the e-mail provider answered %s", answer.Status)
}
