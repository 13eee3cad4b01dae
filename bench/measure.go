package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook/bench/raw"
)

// trial measures one system in one row of the table, or in a few that belong
// together. It gets an empty place to work in each time, fills it, and times
// only what the row names.
type trial struct {
	row    string
	system string
	run    func(ctx context.Context, s *stopwatch, place string) error
}

// ours tells what a run is about: without it there is nothing to compare.
func (tr trial) ours() bool {
	return strings.HasPrefix(tr.system, "daybook") || strings.HasPrefix(tr.system, "raw")
}

// room gives a trial an empty place, the name of a file or the address of a
// database, and says how to clear it away.
type room func(ctx context.Context, tr trial) (place string, leave func(), err error)

// fileRoom is a file in a folder, for SQLite.
func fileRoom(dir string) room {
	file := filepath.Join(dir, "bench.db")
	return func(context.Context, trial) (string, func(), error) {
		return file, func() {
			for _, end := range []string{"", "-wal", "-shm"} {
				os.Remove(file + end)
			}
		}, nil
	}
}

// stopwatch times the part of a trial that counts.
type stopwatch struct {
	row      string // of the table
	profile  string // file for a processor profile, or ""
	readings []reading
}

// reading is one number of one trial: a rate, a cost or a latency.
type reading struct {
	row, unit string
	value     float64
}

// Units of readings. Only of rates more is better.
const (
	perSecond = "jobs/s"
	perJob    = "µs/job"
	millis    = "ms"
	walBytes  = "WAL B/job"
	megabytes = "MB at most"
)

var fileName = strings.NewReplacer(" ", "-", ",", "", "/", "-")

// add notes one number. What isn't known here is zero, and left out.
func (s *stopwatch) add(row, unit string, value float64) {
	if value > 0 {
		s.readings = append(s.readings, reading{row, unit, value})
	}
}

// time runs what counts, which puts n jobs through.
func (s *stopwatch) time(n int, fn func() error) error {
	return s.count(func() (int, error) { return n, fn() })
}

// count runs what counts, which tells how many jobs it put through.
func (s *stopwatch) count(fn func() (int, error)) error {
	runtime.GC()
	if s.profile != "" {
		f, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	wall, cpu := time.Now(), raw.ProcessorTime()
	n, err := fn()
	if err != nil {
		return err
	}
	took, used := time.Since(wall), raw.ProcessorTime()-cpu
	s.add(s.row, perSecond, float64(n)/took.Seconds())
	s.add(s.row, perJob, float64(used.Microseconds())/float64(n))
	return nil
}

// latencies records how long each of many jobs took.
func (s *stopwatch) latencies(row string, all []time.Duration) {
	slices.Sort(all)
	for _, p := range []int{50, 95, 99} {
		at := all[min(len(all)-1, len(all)*p/100)]
		s.add(fmt.Sprintf("%s, p%d", row, p), millis, float64(at.Microseconds())/1000)
	}
}

// measure runs the trials round by round. Every other round goes backwards, so
// that nobody is always the one after the disk's busiest neighbour.
func (t *table) measure(ctx context.Context, c config, in room, trials []trial) error {
	trials = slices.DeleteFunc(trials, func(tr trial) bool { return !c.only.MatchString(tr.row) })
	for round := range c.rounds {
		for i := range trials {
			tr := trials[i]
			if round%2 == 1 {
				tr = trials[len(trials)-1-i]
			}
			if t.failed(tr) {
				continue
			}
			fmt.Fprintf(c.log, "round %d of %d: %s, %s\n", round+1, c.rounds, tr.row, tr.system)
			if err := t.once(ctx, c, in, tr); err != nil {
				return fmt.Errorf("%s, %s: %w", tr.row, tr.system, err)
			}
		}
	}
	return nil
}

// once runs a trial and keeps what it read. A peer that fails is noted and
// left out from then on: the others' numbers are worth having.
func (t *table) once(ctx context.Context, c config, in room, tr trial) error {
	s := &stopwatch{row: tr.row}
	if c.profile != "" && tr.system == "daybook" {
		s.profile = filepath.Join(c.profile, fileName.Replace(tr.row)+".pprof")
	}
	err := inRoom(ctx, in, tr, s)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && tr.ours():
		return err
	case err != nil:
		fmt.Fprintln(c.log, "  failed:", err)
		t.fail(tr, err)
		return nil
	}
	for _, r := range s.readings {
		t.add(r.row, r.unit, tr.system, r.value)
	}
	return nil
}

func inRoom(ctx context.Context, in room, tr trial, s *stopwatch) error {
	place, leave, err := in(ctx, tr)
	if err != nil {
		return err
	}
	defer leave()
	return tr.run(ctx, s, place)
}

// syncsPerSecond says how fast the directory's disk is: how often a second
// 4 KiB can be appended and forced out, one after the other. Tens of thousands
// mean that no disk is behind it.
func syncsPerSecond(dir string) float64 {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const times = 200
	page, begun := make([]byte, 4096), time.Now()
	for range times {
		if _, err := f.Write(page); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
	}
	return times / time.Since(begun).Seconds()
}
