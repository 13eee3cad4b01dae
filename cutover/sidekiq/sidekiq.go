// Package sidekiq reads, gates, empties and refills one queue of Sidekiq 5, 6 or 7,
// with its basic fetch or GitLab's reliable one.
//
// Sidekiq keeps a job as JSON in a list or a sorted set of Redis, and no id
// beside it, so a job is moved by its exact bytes. The sets of scheduled, retried
// and dead jobs belong to all queues; this source sees its own queue's in them.
//
// What the cutover leaves in Redis has keys that begin with
// "daybook:cutover:sidekiq:QUEUE:"; Forget removes them.
package sidekiq

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Options name the queue. URL and Queue are needed.
type Options struct {
	URL   string // redis://, rediss:// or unix://
	Queue string // without "queue:" before it
	// Prefix stands before every key, such as "app:" of the gem redis-namespace.
	Prefix string
	// WorkersUser is the Redis user that the old workers log in as, and nobody
	// else: then the gate takes that user's right to take jobs, which holds for
	// processes that start later too. "" gates by telling processes to be quiet.
	WorkersUser string
	// Patience is how long a process may be silent and yet be alive; 0 is
	// PatienceDefault. A process speaks every five or ten seconds.
	Patience time.Duration
}

// PatienceDefault lets a process be late by half the longest pause, and more.
const PatienceDefault = 15 * time.Second

// beatPause is how often a process speaks: every five seconds, and from Sidekiq 7 on
// every ten.
const beatPause = 10 * time.Second

// beatLife is how long Sidekiq keeps a silent process' entries.
const beatLife = time.Minute

// Source is one queue. Its methods may be called by several goroutines, Take and
// Return by one at a time.
type Source struct {
	o     Options
	store *oldredis.Store
	held  oldredis.Hold

	mu      sync.Mutex
	cursors map[string]int64 // how far Take has come in each shared set
	index   *index           // what the store had when Return first looked
}

var _ cutover.Old = (*Source)(nil)

// Open makes a source. It asks nothing of the store; Check does.
func Open(o Options) (*Source, error) {
	if o.Queue == "" || len(o.Queue) > 256 {
		return nil, daybook.Invalid("queue", "wants the old queue's name, 1 to 256 bytes, got %d", len(o.Queue))
	}
	if o.Patience == 0 {
		o.Patience = PatienceDefault
	}
	if o.Patience < time.Second || o.Patience > beatLife {
		return nil, daybook.Invalid("patience", "wants from 1s to %s, which is how long Sidekiq itself keeps a silent "+
			"process, got %s", beatLife, o.Patience)
	}
	store, err := oldredis.Open(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, store: store, cursors: map[string]int64{}}
	s.held = oldredis.Hold{Store: store, List: s.own("held"), Counter: s.own("number")}
	return s, nil
}

// Close ends the connections.
func (s *Source) Close() error { return s.store.Close() }

// Patience is how long a process may be silent.
func (s *Source) Patience() time.Duration { return s.o.Patience }

// Slip is how often a process reports what it runs. Only a reliable fetch leaves
// jobs in Redis, and nobody can tell for a job that is gone how it was fetched.
func (s *Source) Slip() time.Duration { return beatPause }

// Fades is how long Sidekiq keeps a silent process' entries.
func (s *Source) Fades() time.Duration { return beatLife }

// Now is Redis' clock.
func (s *Source) Now(ctx context.Context) (daybook.Time, error) { return s.store.Now(ctx) }

// Place names the queue.
func (s *Source) Place() cutover.Place {
	return cutover.Place{System: "sidekiq", Store: s.store.Name(), Queue: s.o.Prefix + s.o.Queue}
}

// Sidekiq's keys.
func (s *Source) key(name string) string { return s.o.Prefix + name }
func (s *Source) queue() string          { return s.key("queue:" + s.o.Queue) }

// workingPrefix begins the lists of GitLab's reliable fetch, one for each process
// that has jobs; the process' identity follows.
func (s *Source) workingPrefix() string { return s.key("working:queue:" + s.o.Queue + ":") }

func (s *Source) aliveKey(identity string) string {
	return s.key("reliable-fetcher-heartbeat-" + strings.ReplaceAll(identity, ":", "-"))
}

// own are the cutover's own keys.
func (s *Source) own(name string) string {
	return s.key("daybook:cutover:sidekiq:" + s.o.Queue + ":" + name)
}

// aside is where the waiting list lies while the gate is closed, and gate says
// that it is.
func (s *Source) aside() string    { return s.own("aside") }
func (s *Source) gate() string     { return s.own("gate") }
func (s *Source) canaries() string { return s.own("canaries") }
func (s *Source) back() string     { return s.own("back") } // numbers of jobs without a jid that went back

// A sharedSet is shared by all queues. From names where a job lay.
type sharedSet struct {
	from  string
	state daybook.OldState
}

// sets are what Take goes by in this order, which is Sidekiq's own.
var sets = []sharedSet{
	{"retry", daybook.OldRetrying},
	{"schedule", daybook.OldLater},
	{"dead", daybook.OldDead},
	{"interrupted", daybook.OldDead}, // by reliable fetch: its process died with it too often
}

// The other places a job can be taken from.
const (
	fromQueue   = "queue"
	fromWorking = "working" // a reliable fetch's list
	fromRunning = "running" // a process' own report
)

// Check looks whether the store answers and has a Sidekiq that this source knows.
// Only Sidekiq 7 and later say their version, in each process' report.
func (s *Source) Check(ctx context.Context) (cutover.Place, error) {
	place := s.Place()
	processes, err := s.processes(ctx)
	if err != nil {
		return place, err
	}
	for _, p := range processes {
		if p.version == "" {
			continue
		}
		major, err := strconv.Atoi(strings.SplitN(p.version, ".", 2)[0])
		if err != nil || major < 5 || major > 7 {
			return place, daybook.Fail(daybook.CodeRefused, "process %q is of Sidekiq %q, and how that keeps its jobs isn't "+
				"known here; known are 5, 6 and 7", p.identity, p.version)
		}
		place.Version = p.version
	}
	if old, err := s.store.Exists(ctx, s.key("queues"), s.queue()).Result(); err != nil {
		return place, s.store.Err("looking for Sidekiq", err)
	} else if kind, err := s.store.Type(ctx, s.queue()).Result(); err != nil {
		return place, s.store.Err("looking for Sidekiq", err)
	} else if old > 0 && kind != "list" && kind != "none" {
		return place, daybook.Fail(daybook.CodeRefused, "%s is a %s, where Sidekiq has a list; is it Sidekiq's?", s.queue(),
			kind)
	}
	return place, nil
}

// A process as it reports itself.
type process struct {
	identity string
	version  string
	queues   []string
	quiet    bool
	busy     int
	beat     daybook.Time // by its own clock
	left     time.Duration
	gone     bool // its report has gone, its name not yet
}

// seen is when the process last spoke. What is left of its report's life tells
// that by the store's clock; a dump is read by the process' own.
func (p process) seen(now daybook.Time, live bool) daybook.Time {
	if live && p.left > 0 && p.left <= beatLife {
		return now.Add(p.left - beatLife)
	}
	return p.beat
}

// read takes a field of the process' report.
func (p *process) read(field, value string) {
	switch field {
	case "info":
		var info struct {
			Queues  []string `json:"queues"`
			Version string   `json:"version"`
		}
		if json.Unmarshal([]byte(value), &info) == nil {
			p.queues, p.version = info.Queues, info.Version
		}
	case "beat":
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			p.beat = oldredis.Seconds(f)
		}
	case "busy":
		p.busy, _ = strconv.Atoi(value)
	case "quiet":
		p.quiet = value == "true"
	}
	p.gone = false
}

// processes reads them all at one instant.
func (s *Source) processes(ctx context.Context) ([]*process, error) {
	names, err := s.store.SMembers(ctx, s.key("processes")).Result()
	if err != nil {
		return nil, s.store.Err("listing processes", err)
	}
	all := make([]*process, len(names))
	var parts []oldredis.Part
	for i, name := range names {
		all[i] = &process{identity: name, gone: true}
		parts = append(parts, oldredis.Part{Key: s.key(name), Kind: oldredis.Hash},
			oldredis.Part{Key: s.key(name), Kind: oldredis.TTL})
	}
	_, err = s.store.Read(ctx, s.own("scan:"), parts, nil, func(part int, e oldredis.Entry) error {
		if parts[part].Kind == oldredis.TTL {
			all[part/2].left = time.Duration(e.Score) * time.Millisecond
		} else {
			all[part/2].read(e.ID, e.Value)
		}
		return nil
	})
	return all, err
}
