package main

import (
	"context"
	"time"
)

// numbered are the args of a job whose latency is measured.
type numbered struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

// meter enqueues at a steady rate and notes when each handler began.
type meter struct {
	asked, sent, begun []time.Time // by job: when enqueue was called, when it returned, when the handler began
	handled            chan struct{}
}

const latencyRate = 200 // jobs a second

func newMeter(n int) *meter {
	times := func() []time.Time { return make([]time.Time, n) }
	return &meter{times(), times(), times(), make(chan struct{}, n)}
}

func (m *meter) began(n int) {
	m.begun[n] = time.Now()
	m.handled <- struct{}{}
}

// drive enqueues one job after the other, each at its time, and waits until
// all have begun.
func (m *meter) drive(ctx context.Context, enqueue func(n int) error) error {
	first := time.Now()
	for n := range m.sent {
		time.Sleep(time.Until(first.Add(time.Duration(n) * time.Second / latencyRate)))
		m.asked[n] = time.Now()
		if err := enqueue(n); err != nil {
			return err
		}
		m.sent[n] = time.Now()
	}
	for range m.sent {
		select {
		case <-m.handled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// since says how long after each of these times the job's handler began. It
// can begin before enqueue has returned; then it is 0.
func (m *meter) since(from []time.Time) []time.Duration {
	took := make([]time.Duration, len(from))
	for n := range took {
		took[n] = max(0, m.begun[n].Sub(from[n]))
	}
	return took
}
