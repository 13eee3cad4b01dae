package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// listening is the worker's ear at the bell. A bell that can't be heard costs
// latency and nothing else: the poll floor finds the work.
type listening struct {
	bell   daybook.Bell // nil when the book rings none
	queues []string
	rings  <-chan daybook.Heard // nil while it isn't heard
	retry  <-chan time.Time     // when to listen again
	again  retry
}

// open begins to listen, where it doesn't already and isn't waiting to.
func (l *listening) open(ctx context.Context) {
	if l.bell == nil || l.rings != nil || l.retry != nil {
		return
	}
	rings, err := l.bell.Listen(ctx, l.queues)
	if err != nil {
		l.retry = time.After(l.again.after(err))
		return
	}
	l.rings = rings
}

// lost notes that the bell ended the listening; it begins again after a pause.
func (l *listening) lost() {
	l.rings = nil
	l.retry = time.After(l.again.after(daybook.Fail(daybook.CodeUnavailable, "the bell stopped ringing")))
}
