package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookdev/daybook/bench/raw"
)

// program is one peer's: this very program again, or one for Node.
type program struct {
	system   string
	command  []string
	node     bool    // it is written for Node
	redis    bool    // its database is a Redis
	share    float64 // of the jobs that a fast system gets
	noBulk   bool    // it has no bulk enqueue
	workOnly bool    // another setting of a system that has the other rows
	noHear   bool    // it has no worker that could be idle
	bell     string  // address of its bell's server; "postgres:" is its database
	oneBook  bool    // whoever enqueues and whoever works share a book, and so an end of the bell
}

// find sets the command: a program of Node's, or else this one.
func (p *program) find(node, dir string) error {
	if p.node {
		p.command = []string{node, filepath.Join(dir, "node", p.system+".mjs")}
		return nil
	}
	self, err := os.Executable()
	p.command = []string{self, peerCommand, p.system}
	return err
}

// run carries out one step in a process of its own.
func (p program) run(ctx context.Context, o order) (r report, err error) {
	o.Args = raw.Args
	o.OneBook = p.oneBook
	if o.Bell = p.bell; o.Bell == ownBell {
		o.Bell = o.Place
	}
	argument, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	args := append(p.command[1:len(p.command):len(p.command)], string(argument))
	printed, err := command(ctx, nil, p.command[0], args...)
	if err != nil {
		return r, fmt.Errorf("%s: %w", o.Step, err)
	}
	return r, json.Unmarshal(printed, &r)
}

// jobs is how many this system gets where a fast one gets n.
func (p program) jobs(n int) int { return max(100, int(p.share*float64(n))) }

// lab is what the trials on servers share.
type lab struct {
	config
	server *postgresServer
	redis  string // the program, or ""
	dir    string
}

// Rows of the table.
const (
	workRow   = "work, no-op handler"
	bulkRow   = "enqueue in bulk"
	singleRow = "enqueue, 8 clients"
	hearRow   = "latency at 200/s"
	askRow    = "latency from enqueue's call"
	wholeRow  = "from enqueue to completed"
)

// room is a fresh database in the server that the program wants.
func (l *lab) room(programs []program) room {
	redis := map[string]bool{}
	for _, p := range programs {
		redis[p.system] = p.redis
	}
	return func(ctx context.Context, tr trial) (string, func(), error) {
		if redis[tr.system] {
			return redisRoom(ctx, l.redis, l.dir)
		}
		return l.server.room(ctx)
	}
}

// trials are all rows of the programs, those of one row side by side.
func (l *lab) trials(programs []program) []trial {
	var work, single, hear []trial
	for _, p := range programs {
		work = append(work, trial{workRow, p.system, l.life(p)})
		if p.workOnly {
			continue
		}
		single = append(single, trial{singleRow, p.system, l.single(p)})
		if !p.noHear {
			hear = append(hear, trial{hearRow, p.system, l.latency(p)})
		}
	}
	return append(append(work, single...), hear...)
}

// life preloads jobs in bulk and has them worked off.
func (l *lab) life(p program) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, place string) error {
		n := p.jobs(l.jobs)
		if _, err := p.run(ctx, order{Step: "migrate", Place: place}); err != nil {
			return err
		}
		fill, enqueued, err := l.logged(ctx, p, order{Step: "fill", Place: place, Jobs: n})
		if err != nil {
			return err
		}
		if !p.redis {
			if err := analyze(ctx, place); err != nil {
				return err
			}
		}
		work, worked, err := l.logged(ctx, p, order{Step: "work", Place: place, Jobs: n, Profile: s.profile})
		if err != nil {
			return err
		}
		s.add(workRow, perSecond, work.PerSecond)
		s.add(workRow, perJob, work.Micros)
		s.add(workRow, megabytes, work.PeakBytes/1e6)
		if !p.noBulk && !p.workOnly {
			s.add(bulkRow, perSecond, fill.PerSecond)
			s.add(bulkRow, perJob, fill.Micros)
		}
		if !p.workOnly {
			s.add(bulkRow, walBytes, enqueued/float64(n))
		}
		s.add(workRow, walBytes, worked/float64(n))
		s.add(wholeRow, walBytes, (enqueued+worked)/float64(n))
		return nil
	}
}

// logged carries out a step and tells how much write-ahead log that made.
func (l *lab) logged(ctx context.Context, p program, o order) (r report, bytes float64, err error) {
	if p.redis {
		r, err = p.run(ctx, o)
		return r, 0, err
	}
	before, err := l.server.written(ctx)
	if err != nil {
		return r, 0, err
	}
	if r, err = p.run(ctx, o); err != nil {
		return r, 0, err
	}
	after, err := l.server.written(ctx)
	return r, after - before, err
}

// single enqueues one by one for a while.
func (l *lab) single(p program) func(context.Context, *stopwatch, string) error {
	const least, most = 200 * time.Millisecond, 5 * time.Second
	during := min(most, max(least, time.Duration(l.jobs)*25*time.Microsecond))
	return func(ctx context.Context, s *stopwatch, place string) error {
		if _, err := p.run(ctx, order{Step: "migrate", Place: place}); err != nil {
			return err
		}
		o := order{Step: "single", Place: place, Seconds: during.Seconds(), Profile: s.profile}
		r, err := p.run(ctx, o)
		s.add(singleRow, perSecond, r.PerSecond)
		s.add(singleRow, perJob, r.Micros)
		return err
	}
}

// latency enqueues at a steady rate, so that the worker is mostly idle.
func (l *lab) latency(p program) func(context.Context, *stopwatch, string) error {
	samples := min(5*latencyRate, max(100, l.jobs/100))
	return func(ctx context.Context, s *stopwatch, place string) error {
		if _, err := p.run(ctx, order{Step: "migrate", Place: place}); err != nil {
			return err
		}
		r, err := p.run(ctx, order{Step: "latency", Place: place, Jobs: samples, Profile: s.profile})
		if err != nil {
			return err
		}
		s.latencies(hearRow, durations(r.Millis))
		s.latencies(askRow, durations(r.Whole))
		return nil
	}
}

func durations(millis []float64) (list []time.Duration) {
	for _, ms := range millis {
		list = append(list, time.Duration(ms*float64(time.Millisecond)))
	}
	return list
}
