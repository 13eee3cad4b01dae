package storetest

import (
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// clock is the database's clock in a test: it stands still until the test
// moves it, so that no result depends on how fast the machine is.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newClock() *clock { return &clock{at: epoch} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// time is the clock's instant as the book writes it.
func (c *clock) time() daybook.Time { return daybook.At(c.now()) }
