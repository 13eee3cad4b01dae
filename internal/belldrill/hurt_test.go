package belldrill

import (
	"context"
	"sync"

	"github.com/daybookdev/daybook"
)

// mode is what a hurt bell does with rings.
type mode int

const (
	honest  mode = iota
	doubles      // every ring twice
	drops        // none
	keeps        // and remembers them all
)

// hurt is a bell that lies.
type hurt struct {
	daybook.Outside
	mode mode

	mu   sync.Mutex
	kept []daybook.Ring
}

// Ring rings as the mode has it.
func (h *hurt) Ring(ctx context.Context, queue string) {
	switch h.mode {
	case drops:
		return
	case doubles:
		h.Outside.Ring(ctx, queue)
	case keeps:
		h.keep(daybook.Ring{Queue: queue})
	}
	h.Outside.Ring(ctx, queue)
}

// Publish publishes as the mode has it; a dropped ring counts as published.
func (h *hurt) Publish(ctx context.Context, rings []daybook.Ring) error {
	switch h.mode {
	case drops:
		return nil
	case doubles:
		if err := h.Outside.Publish(ctx, rings); err != nil {
			return err
		}
	case keeps:
		h.keep(rings...)
	}
	return h.Outside.Publish(ctx, rings)
}

func (h *hurt) keep(rings ...daybook.Ring) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, rings...)
}

// replay publishes again all that was rung so far.
func (h *hurt) replay(ctx context.Context) error {
	h.mu.Lock()
	rings := h.kept
	h.mu.Unlock()
	for len(rings) > 0 {
		n := min(len(rings), 1000)
		if err := h.Outside.Publish(ctx, rings[:n]); err != nil {
			return err
		}
		rings = rings[n:]
	}
	return nil
}
