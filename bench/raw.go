package main

import (
	"context"

	"github.com/daybookdev/daybook/bench/raw"
)

// The raw tables: the fastest that the driver does, the same written as most
// programs are, and the fastest with what any job table needs in the end.
var (
	rawFast  = raw.Options{Driver: "sqlite", Synchronous: "FULL"}
	rawByRow = raw.Options{Driver: "sqlite", Synchronous: "FULL", ByRow: true}
	rawWhole = raw.Options{Driver: "sqlite", Synchronous: "FULL", Whole: true}
)

func rawEnqueue(o raw.Options, n, batch int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		t, err := raw.Open(ctx, file, o)
		if err != nil {
			return err
		}
		defer t.Close()
		return s.time(n, func() error { return t.Enqueue(ctx, n, batch) })
	}
}

func rawWork(o raw.Options, n int, fused bool) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		t, err := raw.Open(ctx, file, o)
		if err != nil {
			return err
		}
		defer t.Close()
		if err := t.Enqueue(ctx, n, 100); err != nil {
			return err
		}
		return s.time(n, func() error { return t.Work(ctx, 100, fused) })
	}
}
