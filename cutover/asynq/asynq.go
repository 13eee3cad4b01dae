// Package asynq reads, gates, empties and refills one queue of Asynq, as its
// versions from 0.18 to 0.26 keep it.
//
// Asynq keeps ids in lists and sorted sets and each job in a hash of its own. When
// a job was moved, its hash stays behind without the job, so that a late producer
// of the same id is told ErrTaskIDConflict. These, and the cutover's own keys,
// which begin with "asynq:{QUEUE}:daybook:", go with Forget.
package asynq

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Options name the queue. Both are needed.
type Options struct {
	URL   string // redis://, rediss:// or unix://
	Queue string
}

// What Asynq's processes go by.
const (
	leaseLength  = 30 * time.Second // renewed every five seconds
	reportLife   = 10 * time.Second // of a server's and its workers' report, written every five seconds
	reportBehind = 7 * time.Second  // until when a new job may be in no report yet
)

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
	store, err := oldredis.Open(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, store: store}
	s.held = oldredis.Hold{Store: store, List: s.own("held"), Counter: s.own("number")}
	return s, nil
}

// Close ends the connections.
func (s *Source) Close() error { return s.store.Close() }

// Now is Redis' clock.
func (s *Source) Now(ctx context.Context) (daybook.Time, error) { return s.store.Now(ctx) }

// Patience is the length of Asynq's lease.
func (s *Source) Patience() time.Duration { return leaseLength }

// Slip is none: Asynq moves a job into its list of active ones as it is taken.
func (s *Source) Slip() time.Duration { return 0 }

// Fades isn't asked: who died is no matter for a job that is nowhere.
func (s *Source) Fades() time.Duration { return 0 }

// Place names the queue. Asynq doesn't keep its version.
func (s *Source) Place() cutover.Place {
	return cutover.Place{System: "asynq", Store: s.store.Name(), Queue: s.o.Queue}
}

// Keys.
func (s *Source) key(name string) string   { return "asynq:{" + s.o.Queue + "}:" + name }
func (s *Source) body(id string) string    { return s.key("t:" + id) }
func (s *Source) group(name string) string { return s.key("g:" + name) }
func (s *Source) own(name string) string   { return s.key("daybook:" + name) }
func (s *Source) canaries() string         { return s.own("canaries") }

const (
	serversKey = "asynq:servers"
	workersKey = "asynq:workers"
)

// sets are where jobs lie that aren't waiting or running, in the order of Take.
var sets = []struct {
	from  string // also the state in the job's hash
	state daybook.OldState
}{
	{"retry", daybook.OldRetrying},
	{"scheduled", daybook.OldLater},
	{"archived", daybook.OldDead},
	{"completed", daybook.OldDone},
}

// The other states in a job's hash. The last two are the cutover's: Asynq's own
// tools find such a job in no list and leave it.
const (
	inPending = "pending"
	inActive  = "active"
	inGroup   = "aggregating"
	markHeld  = "held"
	markMoved = "moved"
)

func stateOf(from string) daybook.OldState {
	for _, set := range sets {
		if set.from == from {
			return set.state
		}
	}
	switch from {
	case inPending:
		return daybook.OldWaiting
	case inActive:
		return daybook.OldOwnerLost // unless its owner is found
	case inGroup:
		return daybook.OldBlocked
	}
	return daybook.OldGone
}

// sampled is how many jobs of each list Check looks at.
const sampled = 20

// Check looks whether the store answers and keeps jobs as this source knows it.
func (s *Source) Check(ctx context.Context) (cutover.Place, error) {
	place := s.Place()
	older, err := s.store.Exists(ctx, "asynq:{"+s.o.Queue+"}", "asynq:queues:"+s.o.Queue).Result()
	if err != nil {
		return place, s.store.Err("looking for Asynq", err)
	}
	if older > 0 {
		return place, daybook.Fail(daybook.CodeRefused, "queue %q is kept as Asynq before 0.18 did; let a newer one move "+
			"it first (its migrate command)", s.o.Queue)
	}
	var ids []string
	for _, key := range []string{inPending, inActive, "retry", "scheduled", "archived", "completed"} {
		some, err := s.store.ZRange(ctx, s.key(key), 0, sampled-1).Result()
		if key == inPending || key == inActive {
			some, err = s.store.LRange(ctx, s.key(key), -sampled, -1).Result()
		}
		if err != nil {
			return place, s.store.Err("looking for Asynq", err)
		}
		ids = append(ids, some...)
	}
	for _, id := range ids {
		text, err := s.store.HGet(ctx, s.body(id), "msg").Result()
		if err != nil && err != redis.Nil {
			return place, s.store.Err("looking for Asynq", err)
		}
		if m, err := readMessage([]byte(text)); err == nil && m.newest > fieldLast {
			return place, daybook.Fail(daybook.CodeRefused, "job %q has a field %d, which Asynq 0.26 doesn't know: how a "+
				"newer one keeps its jobs isn't known here", id, m.newest)
		}
	}
	return place, nil
}

// seconds reads a score or a field.
func seconds(text string) daybook.Time {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return oldredis.Seconds(n)
}
