package belldrill

import (
	"testing"

	"github.com/daybookdev/daybook"
)

// TestInventoryOfABell: a process that rang nothing sees the rings that lie in
// the bell, beside the book's counts.
func TestInventoryOfABell(t *testing.T) {
	for _, bell := range []string{"redis", "jetstream", "rabbitmq"} {
		t.Run(bell, func(t *testing.T) {
			d := newDrill(t, bell, 0)
			d.enqueue(batch)
			must(t, d.hurt.Outside.Publish(t.Context(), []daybook.Ring{{Queue: queues[0]}}))
			other := d.openBook(d.end(), nil)
			inv, err := other.Inventory(t.Context())
			must(t, err)
			for _, q := range inv.Queues {
				if q.Queue == queues[0] && (q.Rings == nil || *q.Rings == 0 || q.Eligible == 0) {
					t.Errorf("%d jobs are eligible, rings %v; %s", q.Eligible, q.Rings, inv.BellError)
				}
			}
			rings, err := other.PeekRings(t.Context(), 10)
			if err != nil || len(rings) == 0 {
				t.Errorf("rings %v, %v", rings, err)
			}
		})
	}
}
