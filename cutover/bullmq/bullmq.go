// Package bullmq reads, gates, empties and refills one queue of BullMQ 5 or 6.
//
// BullMQ keeps ids in lists and sorted sets and each job in a hash of its own. It
// ignores an id that is added again while the old hash is there, and tells nobody,
// so a moved job's hash goes with it, and so does the key by which it would keep
// others of its deduplication id out: what late producers add is seen. A move
// emits no events.
//
// A flow's parent waits for its children: children that are moved never end over
// there, so a flow is moved when it is done, or by hand.
//
// The cutover's own keys begin with "bull:QUEUE:daybook:"; Forget removes them.
package bullmq

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Options name the queue. URL and Queue are needed.
type Options struct {
	URL    string // redis://, rediss:// or unix://
	Queue  string
	Prefix string // before the queue's name in each key; "" is BullMQ's own, "bull"
}

// lockLength is how long BullMQ locks a job for its worker by default; the worker
// renews that at half of it.
const lockLength = 30 * time.Second

// Source is one queue. Its methods may be called by several goroutines.
type Source struct {
	o     Options
	store *oldredis.Store
	held  oldredis.Hold
}

var _ cutover.Old = (*Source)(nil)

// Open makes a source. It asks nothing of the store; Check does.
func Open(o Options) (*Source, error) {
	if o.Queue == "" || len(o.Queue) > 256 {
		return nil, daybook.Invalid("queue", "wants the old queue's name, 1 to 256 bytes, got %d", len(o.Queue))
	}
	if o.Prefix == "" {
		o.Prefix = "bull"
	}
	store, err := oldredis.Open(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, store: store}
	s.held = oldredis.Hold{Store: store, List: s.own("held"), Counter: s.own("number")}
	return s, nil
}

// Now is Redis' clock.
func (s *Source) Now(ctx context.Context) (daybook.Time, error) { return s.store.Now(ctx) }

// Close ends the connections.
func (s *Source) Close() error { return s.store.Close() }

// Patience is how long BullMQ locks a job.
func (s *Source) Patience() time.Duration { return lockLength }

// Slip is none: BullMQ moves a job into its list of active ones as it is taken.
func (s *Source) Slip() time.Duration { return 0 }

// Fades isn't asked: who died is no matter for a job that is nowhere.
func (s *Source) Fades() time.Duration { return 0 }

// Place names the queue.
func (s *Source) Place() cutover.Place {
	return cutover.Place{System: "bullmq", Store: s.store.Name(), Queue: s.o.Prefix + ":" + s.o.Queue}
}

// Keys. A job's hash has its id for a name.
func (s *Source) key(name string) string { return s.o.Prefix + ":" + s.o.Queue + ":" + name }
func (s *Source) own(name string) string { return s.key("daybook:" + name) }
func (s *Source) canaries() string       { return s.own("canaries") }

// places are where jobs lie. Workers take from the first three, in this order; so
// does Take, and goes on with the movable ones.
var places = []struct {
	from  string // the key's name
	kind  oldredis.Kind
	state daybook.OldState
}{
	{"wait", oldredis.Right, daybook.OldWaiting},
	{"paused", oldredis.Right, daybook.OldWaiting}, // BullMQ 5, while the queue is paused
	{"prioritized", oldredis.Sorted, daybook.OldWaiting},
	{"delayed", oldredis.Sorted, daybook.OldLater}, // retries too
	{"failed", oldredis.Sorted, daybook.OldDead},
	{"active", oldredis.List, daybook.OldOwned},
	{"waiting-children", oldredis.Sorted, daybook.OldBlocked},
	{"completed", oldredis.Sorted, daybook.OldDone},
}

func stateOf(from string) daybook.OldState {
	for _, p := range places {
		if p.from == from {
			return p.state
		}
	}
	return daybook.OldGone
}

func isList(from string) bool { return from == "wait" || from == "paused" || from == "active" }

// marker is what older versions put into the waiting list beside jobs.
func isMarker(id string) bool { return strings.HasPrefix(id, "0:") }

// Check looks whether the store answers and which version keeps the queue.
func (s *Source) Check(ctx context.Context) (cutover.Place, error) {
	place := s.Place()
	version, err := s.store.HGet(ctx, s.key("meta"), "version").Result()
	if err != nil && err != redis.Nil {
		return place, s.store.Err("looking for BullMQ", err)
	}
	bull, err := s.store.Exists(ctx, s.key("priority"), s.key("meta-paused"), s.key("meta.paused")).Result()
	if err != nil {
		return place, s.store.Err("looking for BullMQ", err)
	}
	if bull > 0 {
		return place, daybook.Fail(daybook.CodeRefused, "queue %q is kept by Bull, not BullMQ: how that keeps its jobs "+
			"isn't known here", s.o.Queue)
	}
	if version == "" {
		return place, nil // early versions of 5 don't say
	}
	place.Version = strings.TrimPrefix(version, "bullmq:")
	major, err := strconv.Atoi(strings.SplitN(place.Version, ".", 2)[0])
	if err != nil || major < 5 || major > 6 || !strings.HasPrefix(version, "bullmq:") {
		return place, daybook.Fail(daybook.CodeRefused, "queue %q is kept by %q, and how that keeps its jobs isn't known "+
			"here; known are BullMQ 5 and 6", s.o.Queue, version)
	}
	return place, nil
}

// clientName is how workers of the queue name their connections.
func (s *Source) clientName() string {
	return s.o.Prefix + ":" + base64.StdEncoding.EncodeToString([]byte(s.o.Queue)) + ":w"
}
