package worker

import (
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
)

// ConcurrencyDefault and ConcurrencyMax bound how many handlers run at once.
const (
	ConcurrencyDefault = 10
	ConcurrencyMax     = 10_000
)

// Config of a worker. Only Queues is required. A worker looks for work when a
// bell rings, when a waiting job of its queues becomes due (also where Poll says
// never), and every Poll.
type Config struct {
	Queues      []string       // the queues to work on, fairly unless Weights says else
	Weights     map[string]int // how often a queue is tried first, 1…1000; 1 for those not named
	Name        string         // shown to people; "" is the host's name. Not an identity
	Concurrency int            // handlers that run at once; 0 is ConcurrencyDefault
	Lease       time.Duration  // of the session; 0 is daybook.LeaseDefault
	Grace       time.Duration  // for handlers when the worker stops; 0 is daybook.GraceDefault, less is none
	Poll        time.Duration  // between looks without a ring, ±20 %; 0 is daybook.PollDefault, less is never
	Timeout     time.Duration  // run limit of handlers here, where it is shorter than the job's own; 0 is none
	Drain       bool           // Run returns when nothing is eligible and nothing runs
	NoStanding  bool           // leave no claim call to enqueues of this process: those are faster then, jobs start later
	NoLoops     bool           // don't run the reconciler and the relay beside the handlers; a server has its own
	Reconcile   reconcile.Options
	Relay       relay.Options // runs where the book's bell is one that other processes hear
	Log         *slog.Logger  // nil is the book's
	Tracer      Tracer        // makes spans of claims, attempts and effects; nil makes none
}

// fill puts the defaults in.
func (c *Config) fill(book Book) {
	c.Queues = slices.Clone(c.Queues)
	if c.Name == "" {
		if c.Name, _ = os.Hostname(); c.Name == "" {
			c.Name = "worker"
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = ConcurrencyDefault
	}
	if c.Lease == 0 {
		c.Lease = daybook.LeaseDefault
	}
	if c.Grace == 0 {
		c.Grace = daybook.GraceDefault
	}
	if c.Poll == 0 {
		c.Poll = daybook.PollDefault
	}
	if c.Log == nil {
		c.Log = book.Log()
	}
	if c.Reconcile.Log == nil {
		c.Reconcile.Log = c.Log
	}
	if c.Relay.Log == nil {
		c.Relay.Log = c.Log
	}
}

// check holds the settings to their limits, so that a wrong one is told at the
// start and not by the first claim.
func (c *Config) check() error {
	if len(c.Queues) == 0 {
		return daybook.Invalid("queues", "is empty; name at least one queue")
	}
	if len(c.Queues) > daybook.QueuesMax {
		return daybook.Invalid("queues", "at most %d, got %d", daybook.QueuesMax, len(c.Queues))
	}
	named := make(map[string]bool, len(c.Queues))
	for _, q := range c.Queues {
		if err := daybook.CheckName("queue", q); err != nil {
			return err
		}
		if named[q] {
			return daybook.Invalid("queues", "names %s twice", q)
		}
		named[q] = true
	}
	for q, weight := range c.Weights {
		if !named[q] {
			return daybook.Invalid("weights", "names a queue that queues doesn't")
		}
		if weight < 1 || weight > weightMax {
			return daybook.Invalid("weights", "wants 1…%d, got %d for %s", weightMax, weight, q)
		}
	}
	if c.Concurrency < 1 || c.Concurrency > ConcurrencyMax {
		return daybook.Invalid("concurrency", "wants 1…%d, got %d", ConcurrencyMax, c.Concurrency)
	}
	if c.Lease < daybook.LeaseMin || c.Lease > daybook.LeaseMax {
		return daybook.Invalid("lease", "wants %s…%s, got %s", daybook.LeaseMin, daybook.LeaseMax, c.Lease)
	}
	if c.Timeout < 0 {
		return daybook.Invalid("timeout", "wants 0 for none or more, got %s", c.Timeout)
	}
	return nil
}
