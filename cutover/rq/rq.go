// Package rq reads, gates, empties and refills one queue of RQ 1, as its versions
// to 1.13 keep it.
//
// RQ keeps ids in lists and sorted sets and each job in a hash of its own, with
// the call as a pickle of Python's or, if its users chose so, as JSON. Pickles are
// carried as they are and never loaded; only the name of the function is read out
// of their first bytes.
//
// RQ doesn't mind an id that is used again: it overwrites the job and queues the
// id twice. So nothing is left behind by which a late producer would stumble. The
// cutover's own keys begin with "rq:daybook:QUEUE:"; Forget removes them.
package rq

import (
	"context"
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
	URL   string // redis://, rediss:// or unix://
	Queue string
	// WorkerTTL is what the workers were started with (--worker-ttl): an idle one
	// waits for a job for 15 seconds less, and doesn't look at the gate meanwhile.
	// 0 is RQ's own default.
	WorkerTTL time.Duration
}

// WorkerTTLDefault is RQ's.
const WorkerTTLDefault = 420 * time.Second

// patience is by how much RQ lets a job's sign of life run ahead.
const patience = 90 * time.Second

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
	if o.WorkerTTL == 0 {
		o.WorkerTTL = WorkerTTLDefault
	}
	if o.WorkerTTL < time.Second || o.WorkerTTL > 24*time.Hour {
		return nil, daybook.Invalid("worker ttl", "wants from 1s to 24h, got %s", o.WorkerTTL)
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

// Patience is how long a worker may be silent about a job and yet be alive.
func (s *Source) Patience() time.Duration { return patience }

// Slip is none: a job that a worker took and hasn't noted yet has its hash, which Find sees.
func (s *Source) Slip() time.Duration { return 0 }

// Fades isn't asked: who died is no matter for a job that is nowhere.
func (s *Source) Fades() time.Duration { return 0 }

// Place names the queue.
func (s *Source) Place() cutover.Place {
	return cutover.Place{System: "rq", Store: s.store.Name(), Queue: s.o.Queue}
}

// Keys.
func (s *Source) queue() string            { return "rq:queue:" + s.o.Queue }
func (s *Source) body(id string) string    { return "rq:job:" + id }
func (s *Source) set(from string) string   { return "rq:" + from + ":" + s.o.Queue }
func (s *Source) own(name string) string   { return "rq:daybook:" + s.o.Queue + ":" + name }
func (s *Source) canaries() string         { return s.own("canaries") }
func (s *Source) results(id string) string { return "rq:results:" + id }

const (
	suspended = "rq:suspended"
	fromQueue = "queue"
	fromWIP   = "wip"
)

// sets are where jobs lie that don't wait for a worker, in the order of Take. The
// first has retries too.
var sets = []struct {
	from  string
	state daybook.OldState
}{
	{"scheduled", daybook.OldLater},
	{"failed", daybook.OldDead},
	{"deferred", daybook.OldBlocked},
	{"finished", daybook.OldDone},
	{"canceled", daybook.OldDone}, // a person ended it
	{fromWIP, daybook.OldOwned},
}

func stateOf(from string) daybook.OldState {
	for _, set := range sets {
		if set.from == from {
			return set.state
		}
	}
	return daybook.OldWaiting
}

// Check looks whether the store answers and whether the workers' version is one
// that this source knows.
func (s *Source) Check(ctx context.Context) (cutover.Place, error) {
	place := s.Place()
	workers, err := s.workers(ctx)
	if err != nil {
		return place, err
	}
	for _, w := range workers {
		version := w.fields["version"]
		if version == "" {
			continue
		}
		parts := strings.Split(version, ".")
		minor := -1
		if len(parts) > 1 && parts[0] == "1" {
			minor, err = strconv.Atoi(parts[1])
		}
		if err != nil || minor < 0 || minor > 13 {
			return place, daybook.Fail(daybook.CodeRefused, "worker %q is of RQ %q, and how that keeps its jobs isn't known "+
				"here; known are 1.0 to 1.13", w.name, version)
		}
		place.Version = version
	}
	kind, err := s.store.Type(ctx, s.queue()).Result()
	if err != nil {
		return place, s.store.Err("looking for RQ", err)
	}
	if kind != "list" && kind != "none" {
		return place, daybook.Fail(daybook.CodeRefused, "%s is a %s, where RQ has a list; is it RQ's?", s.queue(), kind)
	}
	return place, nil
}

// worker is one that listens to the queue.
type worker struct {
	name   string
	fields map[string]string
}

// workers lists those whose report hasn't ended.
func (s *Source) workers(ctx context.Context) ([]worker, error) {
	keys, err := s.store.SMembers(ctx, "rq:workers:"+s.o.Queue).Result()
	if err != nil {
		return nil, s.store.Err("listing workers", err)
	}
	hashes := make([]*redis.MapStringStringCmd, len(keys))
	_, err = s.store.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			hashes[i] = p.HGetAll(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, s.store.Err("listing workers", err)
	}
	var all []worker
	for i, key := range keys {
		if len(hashes[i].Val()) > 0 {
			all = append(all, worker{strings.TrimPrefix(key, "rq:worker:"), hashes[i].Val()})
		}
	}
	return all, nil
}
