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

// trial measures one system in one row of the table. It gets a new file each
// time, fills it, and times only what the row names.
type trial struct {
	row    string
	system string
	run    func(ctx context.Context, s *stopwatch, file string) error
}

// stopwatch times the part of a trial that counts.
type stopwatch struct {
	profile  string // file for a processor profile, or ""
	wall     time.Time
	cpu      time.Duration
	readings []reading
}

// reading is one number of one trial: a rate, a cost or a latency.
type reading struct {
	suffix, unit string
	value        float64
}

// Units of readings. Only of rates more is better.
const (
	perSecond = "jobs/s"
	perJob    = "µs/job"
	millis    = "ms"
)

var fileName = strings.NewReplacer(" ", "-", ",", "", "/", "-")

// time runs what counts, which puts n jobs through.
func (s *stopwatch) time(n int, fn func() error) error {
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
	if err := fn(); err != nil {
		return err
	}
	took, used := time.Since(wall), raw.ProcessorTime()-cpu
	s.readings = append(s.readings, reading{"", perSecond, float64(n) / took.Seconds()})
	if used > 0 {
		s.readings = append(s.readings, reading{"", perJob, float64(used.Microseconds()) / float64(n)})
	}
	return nil
}

// latencies records how long each of many jobs took.
func (s *stopwatch) latencies(all []time.Duration) {
	slices.Sort(all)
	for _, p := range []int{50, 95, 99} {
		at := all[min(len(all)-1, len(all)*p/100)]
		s.readings = append(s.readings, reading{fmt.Sprintf(", p%d", p), millis, float64(at.Microseconds()) / 1000})
	}
}

// measure runs the trials round by round. Every other round goes backwards, so
// that nobody is always the one after the disk's busiest neighbour.
func (t *table) measure(ctx context.Context, c config, dir string, trials []trial) error {
	trials = slices.DeleteFunc(trials, func(tr trial) bool { return !c.only.MatchString(tr.row) })
	for i := range trials {
		t.row(trials[i].row, perSecond) // rows in this order, whichever way the first round goes
	}
	for round := range c.rounds {
		for i := range trials {
			tr := trials[i]
			if round%2 == 1 {
				tr = trials[len(trials)-1-i]
			}
			fmt.Fprintf(c.log, "round %d of %d: %s, %s\n", round+1, c.rounds, tr.row, tr.system)
			s := &stopwatch{}
			if c.profile != "" && tr.system == "daybook" {
				s.profile = filepath.Join(c.profile, fileName.Replace(tr.row)+".pprof")
			}
			if err := t.once(ctx, tr, s, filepath.Join(dir, "bench.db")); err != nil {
				return fmt.Errorf("%s, %s: %w", tr.row, tr.system, err)
			}
		}
	}
	return nil
}

func (t *table) once(ctx context.Context, tr trial, s *stopwatch, file string) error {
	err := tr.run(ctx, s, file)
	for _, end := range []string{"", "-wal", "-shm"} {
		os.Remove(file + end)
	}
	if err == nil {
		err = ctx.Err()
	}
	for _, r := range s.readings {
		t.add(tr.row+r.suffix, r.unit, tr.system, r.value)
	}
	return err
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
