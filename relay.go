package daybook

import (
	"context"
	"time"
)

// RingRow is one row of the outbox that asks for a ring. A row holds what one
// transaction did to one queue, and asks when work became eligible there.
type RingRow struct {
	Queue string
	At    Time   // by the clock of the transaction that wrote it; it can show up later
	Row   string // the store's name of the row, never used for another one
}

// RingBatch is a page of the outbox.
type RingBatch struct {
	Rows []RingRow // oldest first, as far as the store knows
	Now  Time      // the database's clock
	// Next is where to go on when these rows are out of the outbox: a hint that
	// spares a look at rows that are known. Rows from before it can still show
	// up, so whoever uses it must look from 0 again and again.
	Next int64
	Full bool // there may be more rows behind these
}

// Queues are the queues that the rows ask to ring, once each.
func (b RingBatch) Queues() []string {
	seen := make(map[string]bool, len(b.Rows))
	var queues []string
	for _, r := range b.Rows {
		if !seen[r.Queue] {
			seen[r.Queue] = true
			queues = append(queues, r.Queue)
		}
	}
	return queues
}

// OutboxView is a View that reads the outbox for a relay.
type OutboxView interface {
	// Rings reads up to most rows that ask for a ring, from a batch's Next on;
	// 0 looks at all there are. It locks nothing: several relays may read the
	// same rows, and each publishes them, which is harmless.
	Rings(ctx context.Context, from int64, most int) (RingBatch, error)
	// OldestRing is when the oldest row that asks for a ring was written; 0 is
	// that there is none.
	OldestRing(ctx context.Context) (Time, error)
	// LiveSessions counts the sessions that haven't ended, up to most.
	LiveSessions(ctx context.Context, most int) (int, error)
}

// OutboxTx is a Tx that takes published rows out of the outbox.
type OutboxTx interface {
	// DropRings takes just these rows out, and carries the counts in them on, so
	// that every sum stays what it was. A row that is gone, or that somebody
	// else is taking out, is passed by. It returns how many it took.
	DropRings(ctx context.Context, rows []RingRow) (int, error)
}

// RingsMax bounds the rows of one batch of the outbox.
const RingsMax = 2000

// Outbox reads rows of the outbox that ask for a ring, at most RingsMax; see
// [RingBatch] for from.
func (b *Book) Outbox(ctx context.Context, from int64) (batch RingBatch, err error) {
	err = b.outbox(ctx, "reading the outbox", func(v OutboxView) error {
		batch, err = v.Rings(ctx, from, RingsMax)
		return err
	})
	return batch, err
}

// Rung takes rows out of the outbox after their queues were rung, and returns
// how many it took. Calling it twice is harmless: a row is taken once.
func (b *Book) Rung(ctx context.Context, rows []RingRow) (n int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	err = b.write(ctx, "clearing the outbox", func(tx Tx) error {
		o, ok := tx.(OutboxTx)
		if !ok {
			return b.noOutbox()
		}
		n, err = o.DropRings(ctx, rows)
		return err
	})
	return n, err
}

// OutboxAge is how long the oldest row has been asking for a ring; 0 is that
// none does. It stays small while a relay runs and the bell takes rings. It is
// late work at most: workers find their jobs by themselves.
func (b *Book) OutboxAge(ctx context.Context) (age time.Duration, err error) {
	err = b.read(ctx, "reading the outbox", func(v View) error {
		o, ok := v.(OutboxView)
		if !ok {
			return b.noOutbox()
		}
		oldest, err := o.OldestRing(ctx)
		if age = 0; oldest != 0 {
			age = max(v.Now().Sub(oldest), 0)
		}
		return err
	})
	return age, err
}

// LiveSessions counts the sessions that haven't ended, up to most.
func (b *Book) LiveSessions(ctx context.Context, most int) (n int, err error) {
	err = b.outbox(ctx, "counting sessions", func(v OutboxView) error {
		n, err = v.LiveSessions(ctx, most)
		return err
	})
	return n, err
}

func (b *Book) outbox(ctx context.Context, doing string, fn func(OutboxView) error) error {
	return b.read(ctx, doing, func(v View) error {
		o, ok := v.(OutboxView)
		if !ok {
			return b.noOutbox()
		}
		return fn(o)
	})
}

func (b *Book) noOutbox() error {
	return Fail(CodeInternal, "%s has no outbox that a relay could read", b.store.Describe())
}

// PublishMax is how long a bell outside may take to take over a batch of rings.
const PublishMax = 2 * time.Second

// Outside is the book's bell when other processes hear it, or nil: the bell is
// one inside this process, or there is none.
func (b *Book) Outside() Outside {
	o, _ := b.opts.Bell.(Outside)
	return o
}

// ringAll rings queues before it returns, where the bell can tell, and reports
// how many were rung: a process that ends right after must not take its rings
// along. A bell that is away is no failure of the caller's.
func (b *Book) ringAll(ctx context.Context, r ringer) int {
	outside := b.Outside()
	if outside == nil || len(r) == 0 {
		b.ring(ctx, r)
		return len(r)
	}
	rings := make([]Ring, 0, len(r))
	for queue := range r {
		rings = append(rings, Ring{Queue: queue})
	}
	bounded, cancel := context.WithTimeout(ctx, PublishMax)
	defer cancel()
	if err := outside.Publish(bounded, rings); err != nil {
		b.opts.Log.Debug("the bell didn't take the rings; the next pass rings again", "queues", len(rings), "err", err)
		return 0
	}
	return len(rings)
}
