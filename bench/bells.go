package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/daybookdev/daybook/internal/brokertest"
)

// ownBell is the bell of a program whose bell is in its own database.
const ownBell = "postgres:"

// Rows of the table of bells.
const (
	crowdRow = "enqueue, 64 clients"
	crowd    = 64
	noBell   = "no bell"
)

// measureBells measures what a bell costs those who enqueue, how soon it makes a
// job start, and how many it wakes. River and graphile-worker are beside.
func measureBells(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	server, err := startPostgres(ctx, c, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	t.Notes = append(t.Notes, server.about())
	fmt.Fprintln(c.log, "building Daybook")
	_, err = command(ctx, nil, "go", "build", "-C", "..", "-o", dir+string(filepath.Separator), "./internal/bellpeer",
		"./cmd/daybook")
	if err != nil {
		return err
	}
	l := &lab{config: c, server: server, dir: dir}
	bells, stop, err := l.bells(t)
	defer stop()
	if err != nil {
		return err
	}
	peers, err := l.programs(ctx, t)
	if err != nil {
		return err
	}
	if err := t.measure(ctx, c, l.room(nil), l.bellTrials(bells, peers)); err != nil {
		return err
	}
	if c.only.MatchString(crowdRow) {
		t.compare("postgres", noBell)
	}
	if err := l.wake(ctx, t); err != nil {
		return err
	}
	t.Notes = append(t.Notes, bellNotes...)
	return t.finish(c, out)
}

var bellNotes = []string{
	"enqueue: one job a commit; one other end of the bell hears the rings",
	"latency: from enqueue's return to the handler's first line, in one process with two books and two ends of the " +
		"bell, as two processes have them; one book: both share one, with the bell of PostgreSQL; the worker at its " +
		"defaults, the peers at their fastest settings",
}

// bells are Daybook with each of them, on servers of their own, which stop ends.
// One whose server isn't installed is left out, with the reason.
func (l *lab) bells(t *table) (programs []program, stop func(), err error) {
	var stops []func() error
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	add := func(name, url string) {
		p := program{system: name, share: 1, bell: url, command: []string{filepath.Join(l.dir, "bellpeer")}}
		programs = append(programs, p)
	}
	add(noBell, "")
	add("postgres", ownBell)
	add("one book", ownBell)
	programs[len(programs)-1].oneBook = true
	if s, err := brokertest.Open(brokertest.RedisProgram()); err == nil {
		stops = append(stops, s.Stop)
		add("redis", "redis://"+s.Addr())
	} else {
		t.Notes = append(t.Notes, "redis is left out: "+err.Error())
	}
	if s, err := brokertest.OpenNATS(); err == nil {
		stops = append(stops, s.Stop)
		add("nats", s.URL())
		add("jetstream", s.URL()+"?jetstream=1")
	} else {
		t.Notes = append(t.Notes, "nats is left out: "+err.Error())
	}
	if s, err := brokertest.OpenRabbitMQ(); err == nil {
		stops = append(stops, s.Stop)
		add("rabbitmq", s.URL())
	} else {
		t.Notes = append(t.Notes, "rabbitmq is left out: "+err.Error())
	}
	return programs, stop, nil
}

// bellTrials are the rows, the bells beside each other and the peers.
func (l *lab) bellTrials(bells, peers []program) (trials []trial) {
	for _, p := range bells {
		if p.system == noBell || p.bell == ownBell && !p.oneBook {
			trials = append(trials, trial{crowdRow, p.system, l.crowd(p)})
		}
	}
	for _, p := range bells {
		if p.system != noBell {
			trials = append(trials, trial{hearRow, p.system, l.latency(p)})
		}
	}
	for _, p := range peers {
		if p.system == "river" || p.system == "graphile-worker" {
			trials = append(trials, trial{hearRow, p.system, l.latency(p)})
		}
	}
	return trials
}

// crowd enqueues one by one from many clients.
func (l *lab) crowd(p program) func(context.Context, *stopwatch, string) error {
	during := min(5*time.Second, max(200*time.Millisecond, time.Duration(l.jobs)*25*time.Microsecond))
	return func(ctx context.Context, s *stopwatch, place string) error {
		if _, err := p.run(ctx, order{Step: "migrate", Place: place}); err != nil {
			return err
		}
		r, err := p.run(ctx, order{Step: "single", Place: place, Seconds: during.Seconds(), Clients: crowd})
		s.add(crowdRow, perSecond, r.PerSecond)
		return errors.Join(err, ctx.Err())
	}
}
