package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

// weights say how heavy each pressure is.
type weights struct {
	snapshot, finished, queues, idle, waiting, scheduled int
	peers                                                bool
}

// Weights that the flags leave open, and those of a quick run.
var (
	fullWeights = weights{snapshot: 1_000_000, finished: 5_000_000, queues: 10_000, idle: 1000, waiting: 10_000_000,
		scheduled: 1_000_000}
	quickWeights = weights{snapshot: 200_000, finished: 1_000_000, queues: 10_000, idle: 1000, waiting: 1_000_000,
		scheduled: 100_000}
)

func (w *weights) flags(f *flag.FlagSet) {
	about := func(what string, full, quick int) string {
		return fmt.Sprintf("%s (default %d, quick %d)", what, full, quick)
	}
	f.IntVar(&w.snapshot, "snapshot", 0, about("-pressure: jobs processed under a held snapshot, then measured",
		fullWeights.snapshot, quickWeights.snapshot))
	f.IntVar(&w.finished, "finished", 0, about("-pressure: finished jobs; 50000000 are 25 GB and 15 minutes",
		fullWeights.finished, quickWeights.finished))
	f.IntVar(&w.queues, "queues", 0, about("-pressure: queues", fullWeights.queues, quickWeights.queues))
	f.IntVar(&w.idle, "idle", 0, about("-pressure: idle workers", fullWeights.idle, quickWeights.idle))
	f.IntVar(&w.waiting, "waiting", 0, about("-pressure: jobs in the backlog", fullWeights.waiting, quickWeights.waiting))
	f.IntVar(&w.scheduled, "scheduled", 0, about("-pressure: jobs scheduled for later", fullWeights.scheduled,
		quickWeights.scheduled))
	f.BoolVar(&w.peers, "peers", false, "-pressure: River under a held snapshot too, with a fifth of the jobs")
}

// complete fills in what the flags leave open.
func (w *weights) complete(quick bool) error {
	from := fullWeights
	if quick {
		from = quickWeights
	}
	for to, open := range map[*int]int{&w.snapshot: from.snapshot, &w.finished: from.finished, &w.queues: from.queues,
		&w.idle: from.idle, &w.waiting: from.waiting, &w.scheduled: from.scheduled} {
		if *to < 0 {
			return fmt.Errorf("-snapshot, -finished, -queues, -idle, -waiting and -scheduled want 1 or more, got %d", *to)
		}
		if *to == 0 {
			*to = open
		}
	}
	return nil
}

// pressure is something that weighs on a book.
type pressure struct {
	name  string
	least float64 // how much of the rate without it must be left; 0 is not ours
	river bool    // River's book and not ours
	share float64 // how many times the jobs of a turn; 0 is once
	dead  bool    // count dead rows
	put   put
}

// put puts a pressure on the one side; lift ends it.
type put func(ctx context.Context, s *scales) (lift func() error, err error)

// mostSlower is how many times the claim's p99 without pressure it may be.
const mostSlower = 2

// Units that the pressures are read in, beside jobs/s.
const (
	claimMedian = "p50 of claims, ms"
	claimWorst  = "p99 of claims, ms"
	claimFirst  = "first claim, ms"
	deadRows    = "dead rows"
)

// pressures is all of them, in the table's order.
func (w weights) pressures() []pressure {
	list := []pressure{
		{name: "snapshot held for " + whole(w.snapshot) + " jobs", least: 0.8, dead: true, put: holdSnapshot(w.snapshot)},
		{name: whole(w.finished) + " finished jobs", least: 0.9, put: finish(w.finished)},
		{name: whole(w.queues) + " queues", least: 0.8, put: spread(w.queues)},
		// A turn is to last longer than the pause between two renewals: they come in waves.
		{name: whole(w.idle) + " idle workers", least: 0.8, share: 4, put: seat(w.idle)},
		{name: "backlog of " + whole(w.waiting) + ", " + whole(w.scheduled) + " scheduled", least: 0.8,
			put: pileUp(w.waiting, w.scheduled)},
	}
	if w.peers {
		list = append(list, pressure{name: "snapshot held for " + whole(w.snapshot/5) + " jobs", river: true, share: 0.2,
			dead: true, put: holdSnapshot(w.snapshot / 5)})
	}
	return list
}

// measurePressure measures Daybook under each pressure beside Daybook without,
// in turns. Each has a server of its own: an old snapshot in one database keeps
// the rows of the others of its server too, since everybody's newer snapshots
// reach back to it.
func measurePressure(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	var labs [2]*lab
	for i := range labs {
		server, err := startPostgres(ctx, c, dir)
		if err != nil {
			return err
		}
		defer server.Stop()
		labs[i] = &lab{config: c, server: server, dir: dir}
	}
	t.Notes = append(t.Notes, "two servers, one without the pressure: "+labs[0].server.about(), versions())
	measured := slices.DeleteFunc(c.pressures(), func(p pressure) bool { return !c.only.MatchString(p.name) })
	for _, p := range measured {
		if err := weigh(ctx, labs, t, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for _, system := range []string{"daybook", "river"} {
		t.compare(system, system+without)
	}
	for _, p := range measured {
		t.judge(p)
	}
	t.Notes = append(t.Notes, pressureNotes...)
	return t.finish(c, out)
}

var pressureNotes = []string{
	"each turn: preloaded jobs, a worker process of its own; what counts are nine tenths, after the first; with idle " +
		"workers four times the jobs",
	"claims: from asking for a connection to the commit; of up to 1,000 jobs each; the first: of a new process",
	fmt.Sprintf("idle workers: in one process over %d connections, each with its session, its renewals, its polls "+
		"and its reconciler, on a queue that has nothing", idleConns),
}

// judge says whether a pressure weighs no more than it may.
func (t *table) judge(p pressure) {
	if p.least == 0 {
		return
	}
	ratio := "daybook/daybook" + without
	rate, slower := t.row(p.name, perSecond).Ratio[ratio], t.row(p.name, claimWorst).Ratio[ratio]
	verdict := "holds"
	if rate < p.least || slower > mostSlower {
		verdict = "MISSED"
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%s: %s: %.2f of the rate (wanted %.1f), p99 of claims %.2f times "+
		"(at most %d)", p.name, verdict, rate, p.least, slower, mostSlower))
}

// without is behind a system's name where there is no pressure.
const without = ", without"

// scales are the two sides of one pressure.
type scales struct {
	*lab
	pressure
	under, without side
}

// side is one book, and how it is worked.
type side struct {
	system string // in the table
	place  string
	queues int                                                      // that its jobs are in; 0 is one
	full   bool                                                     // it has jobs enough
	beside func(ctx context.Context) (stop func() error, err error) // what runs beside the worker; nil is nothing
}

// weigh measures one pressure.
func weigh(ctx context.Context, labs [2]*lab, t *table, p pressure) error {
	s := &scales{lab: labs[0], pressure: p}
	name := "daybook"
	if p.river {
		name = "river"
	}
	for i, to := range []*side{&s.under, &s.without} {
		place, leave, err := labs[i].server.room(ctx)
		if err != nil {
			return err
		}
		defer leave()
		*to = side{system: name + []string{"", without}[i], place: place}
		if err := s.migrate(ctx, to); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.log, "%s: putting it on\n", p.name)
	lift, err := p.put(ctx, s)
	if err != nil {
		return err
	}
	err = s.rounds(ctx, t)
	if lifting := lift(); err == nil {
		err = lifting
	}
	return err
}

// rounds works the two sides in turns. Every other round goes backwards.
func (s *scales) rounds(ctx context.Context, t *table) error {
	for round := range s.lab.rounds {
		turns := []*side{&s.under, &s.without}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, to := range turns {
			fmt.Fprintf(s.log, "round %d of %d: %s, %s", round+1, s.lab.rounds, s.name, to.system)
			r, err := s.turn(ctx, to)
			if err != nil {
				return fmt.Errorf("%s: %w", to.system, err)
			}
			fmt.Fprintf(s.log, ": %s jobs/s\n", number(r.PerSecond))
			if err := s.note(ctx, t, to, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn fills the side, unless it is full, and has it worked off.
func (s *scales) turn(ctx context.Context, to *side) (r report, err error) {
	o := order{Place: to.place, Jobs: s.jobsEach(), Queues: to.queues, Backlog: to.full}
	if !to.full {
		o.Step = "fill"
		if _, err := s.run(ctx, o); err != nil {
			return r, err
		}
	}
	if to.beside != nil {
		stop, err := to.beside(ctx)
		if err != nil {
			return r, err
		}
		defer stop()
	}
	o.Step = "work"
	return s.run(ctx, o)
}

// note keeps what a turn read.
func (s *scales) note(ctx context.Context, t *table, to *side, r report) error {
	t.add(s.name, perSecond, to.system, r.PerSecond)
	if len(r.Millis) > 0 {
		slices.Sort(r.Millis)
		for unit, p := range map[string]int{claimMedian: 50, claimWorst: 99} {
			t.add(s.name, unit, to.system, r.Millis[min(len(r.Millis)-1, len(r.Millis)*p/100)])
		}
		t.add(s.name, claimFirst, to.system, r.First)
	}
	if !s.dead {
		return nil
	}
	dead, err := countDead(ctx, to.place)
	t.add(s.name, deadRows, to.system, dead)
	return err
}

// migrate makes the schema.
func (s *scales) migrate(ctx context.Context, to *side) error {
	_, err := s.run(ctx, order{Step: "migrate", Place: to.place})
	return err
}

// run carries out a step in a process of its own.
func (s *scales) run(ctx context.Context, o order) (report, error) {
	p := program{system: pressedSystem}
	if s.river {
		p.system = "river"
	}
	if err := p.find("", ""); err != nil {
		return report{}, err
	}
	return p.run(ctx, o)
}

func (s *scales) jobsEach() int {
	if s.share > 0 {
		return max(100, int(s.share*float64(s.jobs)))
	}
	return s.jobs
}

// whole shows a count with its thousands apart.
func whole(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return number(float64(n))
}

// pollsSpread is how long it takes until workers that began together poll at
// times of their own.
const pollsSpread = 6 * time.Second
