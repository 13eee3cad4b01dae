package ring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// Out carries rings to a server, in the background, one batch at a time: a ring
// goes at once when none is on its way, and those that come meanwhile become one
// more of their queue.
type Out struct {
	send   func(ctx context.Context, rings []daybook.Ring) error
	failed func(rings int, err error) // told of each batch that failed
	pause  Pause
	apart  time.Duration // of the batches just now; 0 is not held apart

	published, missed atomic.Int64

	mu      sync.Mutex
	pending map[string]daybook.Ring // to be rung, by queue
	asked   []*request              // Publish calls that wait
	poked   bool                    // a batch is wanted although nothing is rung
	closing bool
	wake    chan struct{} // holds one
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
}

// request is one Publish.
type request struct {
	rings  []daybook.Ring
	answer chan error // holds one
	gone   bool       // nobody waits for the answer any more, and the rings count as failed
}

const (
	// batchMax bounds the rings of one batch, and so the time that one takes.
	batchMax = 2000
	// pendingMax bounds the queues that wait for a server that is away. What
	// doesn't fit is dropped: the relay and the poll find the work.
	pendingMax = 2 * daybook.QueuesMax
	// lastWords is how long Close waits for rings that are on their way, so
	// that a program which enqueues and ends is heard.
	lastWords = time.Second
	// apartLeast is how long after the beginning of one batch the next one
	// begins, when rings came meanwhile; it doubles up to apartMost while that
	// goes on.
	apartLeast, apartMost = time.Millisecond, 10 * time.Millisecond
	// soonest is how early a Publish may try a server again that just failed.
	soonest = 20 * time.Millisecond
)

// ErrRefused marks, inside a send's error, rings that this server will never
// take: they are dropped instead of tried again.
var ErrRefused = errors.New("refused for good")

// NewOut begins to carry rings. send has to end soon after its ctx does, and in
// bounded time without. failed may be nil.
func NewOut(send func(context.Context, []daybook.Ring) error, failed func(rings int, err error)) *Out {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Out{send: send, failed: failed, pause: Pause{Most: 2 * time.Second}, pending: map[string]daybook.Ring{},
		wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel, done: make(chan struct{})}
	go o.run()
	return o
}

// Published and Failed count rings that the server took and didn't take.
func (o *Out) Published() int64 { return o.published.Load() }

// Failed counts a ring once for each time that it was tried in vain.
func (o *Out) Failed() int64 { return o.missed.Load() }

// Ring rings the queue in a moment. It never blocks.
func (o *Out) Ring(r daybook.Ring) {
	if !sendable(r.Queue) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch was, waits := o.pending[r.Queue]; {
	case o.closing:
		return
	case waits && was.Job != r.Job:
		o.pending[r.Queue] = daybook.Ring{Queue: r.Queue} // for several jobs: any of the queue
		return
	case waits:
		return
	case len(o.pending) >= pendingMax:
		o.missed.Add(1)
		return
	}
	o.pending[r.Queue] = r
	o.poke()
}

// sendable leaves out names that no queue has, and some server can't store.
func sendable(queue string) bool {
	if queue == "" || len(queue) > daybook.NameMax || !utf8.ValidString(queue) {
		return false
	}
	for i := range len(queue) {
		if queue[i] == 0 {
			return false
		}
	}
	return true
}

// Poke makes a batch, though nothing may be rung.
func (o *Out) Poke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.poked = true
	o.poke()
}

// poke wants the lock.
func (o *Out) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Publish is daybook.Outside's: it waits until the server took the rings, or ctx
// ends, or the server failed.
func (o *Out) Publish(ctx context.Context, rings []daybook.Ring) error {
	once := make([]daybook.Ring, 0, min(len(rings), batchMax))
	seen := map[string]bool{}
	for _, r := range rings {
		if !seen[r.Queue] && sendable(r.Queue) {
			once = append(once, r)
		}
		seen[r.Queue] = true
	}
	for len(once) > 0 {
		part := once[:min(len(once), batchMax)]
		if err := o.publish(ctx, part); err != nil {
			return err
		}
		once = once[len(part):]
	}
	return nil
}

func (o *Out) publish(ctx context.Context, rings []daybook.Ring) error {
	q := &request{rings: rings, answer: make(chan error, 1)}
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		return Closed()
	}
	o.asked = append(o.asked, q)
	o.poke()
	o.mu.Unlock()
	select {
	case err := <-q.answer:
		return err
	case <-ctx.Done():
		o.forget(q)
		return &daybook.Error{Code: daybook.CodeUnavailable, Err: ctx.Err(),
			Text: "the bell didn't take the rings in time; they are rung again later"}
	}
}

// forget takes back what nobody waits for any more, unless it is on its way.
func (o *Out) forget(q *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q.gone = true
	o.missed.Add(int64(len(q.rings)))
	o.asked = slices.DeleteFunc(o.asked, func(other *request) bool { return other == q })
}

// run carries batches until Close.
func (o *Out) run() {
	defer close(o.done)
	for {
		select {
		case <-o.wake:
		case <-o.ctx.Done():
			return
		}
		for {
			begun := time.Now()
			rings, asked, any := o.take()
			if !any {
				break
			}
			if !o.carry(rings, asked) {
				if !o.rest() {
					return
				}
				continue
			}
			o.gather(begun)
		}
		o.mu.Lock()
		over := o.closing && len(o.pending) == 0 && len(o.asked) == 0
		o.mu.Unlock()
		if over {
			return
		}
	}
}

// gather waits for more before the next batch, when something is rung already:
// who enqueues thousands of jobs a second would else have the server carry
// thousands of batches, at the cost of the jobs. A lone ring never waits.
func (o *Out) gather(begun time.Time) {
	o.mu.Lock()
	more := len(o.pending) > 0 && len(o.asked) == 0 && !o.closing
	o.mu.Unlock()
	if !more {
		o.apart = 0
		return
	}
	o.apart = min(max(2*o.apart, apartLeast), apartMost)
	wait := o.apart - time.Since(begun)
	if wait <= 0 {
		return
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-o.ctx.Done():
			return
		case <-o.wake: // for a ring that can wait too, or for Publish, or the end
			o.mu.Lock()
			hurry := len(o.asked) > 0 || o.closing
			o.mu.Unlock()
			if hurry {
				return
			}
		}
	}
}

// take is the next batch: what Publish calls wait for, then rings.
func (o *Out) take() (rings []daybook.Ring, asked []*request, any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	any = o.poked
	o.poked = false
	n := 0
	for len(o.asked) > 0 && (n == 0 || n+len(o.asked[0].rings) <= batchMax) {
		asked = append(asked, o.asked[0])
		n += len(o.asked[0].rings)
		o.asked = o.asked[1:]
	}
	for q, r := range o.pending {
		if n += 1; n > batchMax && len(rings) > 0 {
			break
		}
		rings = append(rings, r)
		delete(o.pending, q)
	}
	return rings, asked, any || len(rings) > 0 || len(asked) > 0
}

// carry sends a batch and tells those who wait for it. What was rung in a batch
// that failed is rung again.
func (o *Out) carry(rings []daybook.Ring, asked []*request) bool {
	err := o.send(o.ctx, together(rings, asked))
	o.mu.Lock()
	n := len(rings)
	for _, q := range asked {
		if !q.gone {
			n += len(q.rings)
		}
	}
	count := &o.published
	if err != nil {
		count = &o.missed
	}
	count.Add(int64(n)) // first, so that who has an answer finds it counted
	for _, q := range asked {
		q.answer <- err
	}
	o.mu.Unlock()
	if err == nil {
		o.pause.Over()
		return true
	}
	if o.failed != nil {
		o.failed(n, err)
	}
	if errors.Is(err, ErrRefused) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rings {
		if _, waits := o.pending[r.Queue]; !waits && len(o.pending) < pendingMax {
			o.pending[r.Queue] = r
		}
	}
	return false
}

// together is each queue once.
func together(rings []daybook.Ring, asked []*request) []daybook.Ring {
	if len(asked) == 0 {
		return rings
	}
	all := slices.Clip(rings)
	seen := map[string]bool{}
	for _, r := range rings {
		seen[r.Queue] = true
	}
	for _, q := range asked {
		for _, r := range q.rings {
			if !seen[r.Queue] {
				all = append(all, r)
			}
			seen[r.Queue] = true
		}
	}
	return all
}

// rest waits after a failure; a Publish cuts it short. It is false when the end
// has come: nobody waits for a server that fails.
func (o *Out) rest() bool {
	early, over := time.NewTimer(soonest), time.NewTimer(o.pause.Next())
	defer early.Stop()
	defer over.Stop()
	wake := (<-chan struct{})(nil)
	for {
		o.mu.Lock()
		closing, asked := o.closing, len(o.asked) > 0
		o.mu.Unlock()
		if closing {
			return false
		}
		if asked && wake != nil {
			return true
		}
		select {
		case <-over.C:
			return true
		case <-early.C:
			wake = o.wake
		case <-wake:
		case <-o.ctx.Done():
			return false
		}
	}
}

// Close gives rings that are on their way a second, and ends. Twice is harmless.
func (o *Out) Close() {
	o.mu.Lock()
	o.closing = true
	o.poke()
	o.mu.Unlock()
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-o.done:
	case <-late.C:
	}
	o.cancel()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.asked {
		q.answer <- Closed()
	}
	o.asked = nil
}
