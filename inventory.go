package daybook

import (
	"context"
	"maps"
	"slices"
	"time"
)

// InventorySentence says how the numbers of an [Inventory] relate.
const InventorySentence = "A ring only says that its queue has work: the jobs it speaks of are in the book already, " +
	"and counted there. Never add rings to jobs."

// Inventory is what the book has, and beside it what lies in the bell.
type Inventory struct {
	At        Time             `json:"at"`
	Sentence  string           `json:"sentence"`
	Queues    []QueueInventory `json:"queues"`
	Strays    []StrayRings     `json:"strays"` // rings for queues that the book doesn't know
	OutboxAge float64          `json:"outbox_age_seconds"`
	BellError string           `json:"bell_error,omitempty"` // why the bell couldn't be read
}

// QueueInventory is one queue of the book, and the rings that lie in the bell for
// it.
type QueueInventory struct {
	Backlog
	Rings *int64 `json:"rings"` // null: the bell keeps none, or can't be read
}

// StrayRings are rings for a queue that the book doesn't know. They are harmless.
type StrayRings struct {
	Queue string `json:"queue"`
	Rings int64  `json:"rings"`
}

// BellReadMax bounds how long a bell is waited for that is read for people.
const BellReadMax = 5 * time.Second

// Inventory counts the book's jobs and the bell's rings, one after the other. A
// bell that can't be read is no error: BellError says so.
func (b *Book) Inventory(ctx context.Context) (Inventory, error) {
	at, backlog, err := b.Backlog(ctx)
	if err != nil {
		return Inventory{}, err
	}
	age, err := b.OutboxAge(ctx)
	if err != nil {
		return Inventory{}, err
	}
	inv := Inventory{At: at, Sentence: InventorySentence, OutboxAge: age.Seconds(),
		Queues: make([]QueueInventory, len(backlog)), Strays: []StrayRings{}}
	if k, ok := b.Bell().(Knower); ok {
		for _, q := range backlog {
			k.Know(q.Queue)
		}
	}
	depth, err := b.bellDepth(ctx)
	if err != nil {
		inv.BellError = err.Error()
	}
	for i, q := range backlog {
		inv.Queues[i].Backlog = q
		if depth != nil {
			n := depth[q.Queue]
			inv.Queues[i].Rings = &n
			delete(depth, q.Queue)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(depth)) {
		inv.Strays = append(inv.Strays, StrayRings{queue, depth[queue]})
	}
	return inv, nil
}

// bellDepth is the bell's rings by queue, the caller's own; nil is that it keeps
// none.
func (b *Book) bellDepth(ctx context.Context) (map[string]int64, error) {
	outside := b.Outside()
	if outside == nil {
		return nil, nil
	}
	bounded, cancel := context.WithTimeout(ctx, BellReadMax)
	defer cancel()
	depth, err := outside.Depth(bounded)
	if depth == nil || err != nil {
		return nil, bellFault(err, "counting its rings")
	}
	own := make(map[string]int64, len(depth))
	for queue, n := range depth {
		if n != 0 {
			own[queue] = n
		}
	}
	return own, nil
}

// PeekRings reads up to most rings that lie in the bell, and leaves them there.
// A bell that keeps none answers none.
func (b *Book) PeekRings(ctx context.Context, most int) ([]Ring, error) {
	outside := b.Outside()
	if outside == nil {
		return nil, nil
	}
	if k, ok := outside.(Knower); ok {
		err := b.read(ctx, "naming the queues to the bell", func(v View) error {
			queues, err := v.Queues(ctx, false)
			for _, q := range queues {
				k.Know(q.Name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, BellReadMax)
	defer cancel()
	rings, err := outside.Peek(bounded, most)
	if len(rings) > most {
		rings = rings[:most]
	}
	return rings, bellFault(err, "reading its rings")
}

// bellFault keeps what a bell itself says for people, and a driver's text out of
// sight.
func bellFault(err error, doing string) error {
	if err == nil || CodeOf(err) != CodeInternal {
		return err
	}
	return &Error{Code: CodeUnavailable, Err: err,
		Text: "the bell did not answer while " + doing + "; see whether it runs where the bell's URL says"}
}
