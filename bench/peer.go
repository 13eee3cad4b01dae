package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook/bench/raw"
)

// peer is a job system as the bench drives it: one value in one process of its
// own, which ends when its step is done. Peers that aren't written in Go do
// the same in node/common.mjs.
type peer interface {
	// migrate makes the schema in an empty database.
	migrate(ctx context.Context) error
	// enqueue commits one job. Several clients call it at once.
	enqueue(ctx context.Context, args string) error
	// enqueueMany commits n jobs, bulk of them a call.
	enqueueMany(ctx context.Context, n int) error
	// run works until ctx ends, and calls handle in each handler.
	run(ctx context.Context, handle func(args []byte)) error
	// left counts the jobs that the database doesn't have as completed.
	left(ctx context.Context) (int, error)
}

// peers are made by name of system, and get the address of their database.
func peers() map[string]func(ctx context.Context, place string) (peer, error) {
	return map[string]func(ctx context.Context, place string) (peer, error){
		"raw":             openRows(1000),
		"raw 100":         openRows(100),
		"daybook":         openBookPG,
		"daybook 100 16":  openBookPG100(16),
		"daybook 100":     openBookPG100(httpClients),
		"daybook http 16": openBookHTTP(16),
		"daybook http":    openBookHTTP(httpClients),
		"river":           openRiverPG(1000),
		"river 500":       openRiverPG(500),
		"gue":             openGue,
		"asynq":           openAsynq,
	}
}

const (
	bulk    = 1000 // jobs a call of bulk enqueue
	clients = 8    // that enqueue one by one
	warm    = 10   // jobs before latency counts: by then the worker listens
)

// peerCommand makes this program a peer's.
const peerCommand = "peer"

// order is what such a program is told to do: its one argument, as JSON.
type order struct {
	Step    string  `json:"step"`  // migrate, fill, single, work or latency
	Place   string  `json:"place"` // the address of the database
	Jobs    int     `json:"jobs,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // of single
	Args    string  `json:"args"`
	Profile string  `json:"profile,omitempty"` // file
	Queues  int     `json:"queues,omitempty"`  // that the jobs are in, under pressure; 0 is one
	Backlog bool    `json:"backlog,omitempty"` // there are more jobs than are to be worked, under pressure
	Bell    string  `json:"bell,omitempty"`    // address of the bell's server
	OneBook bool    `json:"one_book,omitempty"`
	Clients int     `json:"clients,omitempty"` // of single; 0 is 8
}

// report is what it answers.
type report struct {
	PerSecond float64   `json:"per_second"`
	Micros    float64   `json:"micros"`     // of processor time in this process, a job
	PeakBytes float64   `json:"peak_bytes"` // of memory of this process; 0 where that isn't known
	Millis    []float64 `json:"millis"`     // from enqueue's return to the handler; under pressure, of claims
	Whole     []float64 `json:"whole"`      // from enqueue's call to the handler
	First     float64   `json:"first"`      // of them, under pressure: of the process
}

// runPeer is the whole of a peer's program.
func runPeer(ctx context.Context, system, argument string, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(argument), &o); err != nil {
		return err
	}
	r, err := o.asPeer(ctx, system)
	if err != nil {
		return err
	}
	r.PeakBytes = peakMemory()
	return json.NewEncoder(out).Encode(r)
}

func (o order) asPeer(ctx context.Context, system string) (report, error) {
	if system == pressedSystem {
		return o.pressed(ctx, os.Stdin)
	}
	open := peers()[system]
	if open == nil {
		return report{}, fmt.Errorf("there is no peer %q", system)
	}
	p, err := open(ctx, o.Place)
	if err != nil {
		return report{}, err
	}
	if c, ok := p.(interface{ close() }); ok {
		defer c.close()
	}
	return o.carryOut(ctx, p)
}

func (o order) carryOut(ctx context.Context, p peer) (r report, err error) {
	s := &stopwatch{profile: o.Profile}
	switch o.Step {
	case "migrate":
		err = p.migrate(ctx)
	case "fill":
		err = s.time(o.Jobs, func() error { return p.enqueueMany(ctx, o.Jobs) })
	case "single":
		err = s.count(func() (int, error) { return o.single(ctx, p) })
	case "work":
		err = s.time(o.Jobs, func() error { return o.work(ctx, p) })
	case "latency":
		r.Millis, r.Whole, err = o.latency(ctx, p)
	default:
		err = fmt.Errorf("there is no step %q", o.Step)
	}
	for _, read := range s.readings {
		switch read.unit {
		case perSecond:
			r.PerSecond = read.value
		case perJob:
			r.Micros = read.value
		}
	}
	return r, err
}

// single enqueues one by one from several clients until the time is over.
func (o order) single(ctx context.Context, p peer) (int, error) {
	until := time.Now().Add(time.Duration(o.Seconds * float64(time.Second)))
	var done atomic.Int64
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil && time.Now().Before(until) {
				errs[i] = p.enqueue(ctx, o.Args)
				done.Add(1)
			}
		})
	}
	all.Wait()
	return int(done.Load()), errors.Join(errs...)
}

// work runs what is preloaded, until the database has it all as completed. It
// asks the database only when all handlers have returned, so that the
// question costs nobody anything.
func (o order) work(ctx context.Context, p peer) error {
	var handled atomic.Int64
	all := make(chan struct{})
	ctx = running(ctx, p, func([]byte) {
		if handled.Add(1) == int64(o.Jobs) {
			close(all)
		}
	})
	for before := int64(-1); ; {
		select {
		case <-all:
			return completed(ctx, p)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
		}
		now := handled.Load()
		if now == before {
			return fmt.Errorf("no more than %d of %d handlers began", now, o.Jobs)
		}
		before = now
	}
}

// patience is how long a worker may do nothing before it is given up.
const patience = 30 * time.Second

// running starts the worker. The context ends with its error.
func running(ctx context.Context, p peer, handle func(args []byte)) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		err := p.run(ctx, handle)
		if err == nil {
			err = errors.New("the worker stopped by itself")
		}
		cancel(err)
	}()
	return ctx
}

// completed waits until the database has all jobs as completed.
func completed(ctx context.Context, p peer) error {
	until := time.Now().Add(patience)
	for {
		left, err := p.left(ctx)
		switch {
		case err != nil:
			return err
		case left == 0:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d jobs have run and are not completed", left)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// latency measures how soon after enqueue's return a handler begins when the
// worker is idle. Worker and client share this process, hence one clock.
func (o order) latency(ctx context.Context, p peer) (sent, asked []float64, err error) {
	m, warmed := newMeter(o.Jobs), make(chan struct{}, warm)
	ctx = running(ctx, p, func(args []byte) {
		var a numbered
		if json.Unmarshal(args, &a) == nil && a.N >= 0 {
			m.began(a.N)
			return
		}
		warmed <- struct{}{}
	})
	enqueue := func(n int) error {
		args, err := json.Marshal(numbered{n, strings.Repeat("x", 80)})
		if err != nil {
			return err
		}
		return p.enqueue(ctx, string(args))
	}
	for range warm {
		if err := enqueue(-1); err != nil {
			return nil, nil, err
		}
		select {
		case <-warmed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	if err := m.drive(ctx, enqueue); err != nil {
		return nil, nil, err
	}
	return inMillis(m.since(m.sent)), inMillis(m.since(m.asked)), nil
}

func inMillis(list []time.Duration) (all []float64) {
	for _, took := range list {
		all = append(all, float64(took.Microseconds())/1000)
	}
	return all
}

// peakMemory is the most that this process held so far, where the system says.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes float64
	if _, err := fmt.Sscanf(after, "%f kB", &kilobytes); err != nil {
		return 0
	}
	return kilobytes * 1024
}

// sample is one job of a bulk enqueue.
func sample() json.RawMessage { return json.RawMessage(raw.Args) }

// inBulk cuts n jobs into calls.
func inBulk(n int, call func(size int) error) error {
	for left := n; left > 0; left -= bulk {
		if err := call(min(bulk, left)); err != nil {
			return err
		}
	}
	return nil
}
