package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/webhooks"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/worker"
)

// answerMax bounds the destination's answer, in bytes.
const answerMax = 1 << 10

// work is a worker process: it passes every delivery on to the destination.
func (c *child) work(ctx context.Context) error {
	w := worker.New(c.book, worker.Config{
		Queues: []string{queue}, Name: c.Name, Concurrency: 4, Lease: lease, Grace: time.Second,
		Poll: 50 * time.Millisecond, Reconcile: reconcile.Options{Every: passes},
	})
	to := &outside{url: c.Destination, client: &http.Client{Timeout: 10 * time.Second}}
	seen := map[string]bool{}
	for _, d := range webhooks.Deliveries() {
		if kind := d.Kind(); !seen[kind] {
			seen[kind] = true
			worker.Handle(w, kind, to.deliver, worker.KindOptions{
				Retry: daybook.Backoff{First: 100 * time.Millisecond, Cap: time.Second, Spread: 0.1}})
		}
	}
	return w.Run(ctx)
}

// outside is the destination, seen from a worker.
type outside struct {
	url    string
	client *http.Client
}

// deliver is the handler. A worker that dies behind the request has acted and
// recorded nothing, so the next attempt asks again; the key makes the
// destination answer that without acting.
func (o *outside) deliver(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(c.Args))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerKey, c.EffectKey(effect))
	r.Header.Set(headerDelivery, c.Job().Key)
	answer, err := o.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the destination answered %s: %s", answer.Status, body)
	}
	return c.SetResult(json.RawMessage(body))
}
