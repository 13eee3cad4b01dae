package main

import (
	"context"
	"sync"
	"time"
)

// numbered are the args of a job whose latency is measured.
type numbered struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

// meter enqueues at a steady rate and notes when each handler began.
type meter struct {
	sent []time.Time
	took []time.Duration
	left sync.WaitGroup
}

const latencyRate = 200 // jobs a second

func newMeter(short bool) *meter {
	n := 5 * latencyRate
	if short {
		n = 2 * latencyRate
	}
	return &meter{sent: make([]time.Time, n), took: make([]time.Duration, n)}
}

func (m *meter) began(n int) {
	m.took[n] = time.Since(m.sent[n])
	m.left.Done()
}

// drive enqueues one job after the other, each at its time, and waits until
// all have begun.
func (m *meter) drive(ctx context.Context, enqueue func(n int) error) error {
	m.left.Add(len(m.sent))
	begun := time.Now()
	for n := range m.sent {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / latencyRate)))
		m.sent[n] = time.Now()
		if err := enqueue(n); err != nil {
			return err
		}
	}
	all := make(chan struct{})
	go func() { m.left.Wait(); close(all) }()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
