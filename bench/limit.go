package main

import (
	"context"

	"github.com/daybookdev/daybook/bench/raw"
)

func rawTable(ctx context.Context, file string, whole bool) (*raw.Table, error) {
	return raw.Open(ctx, file, raw.Options{Driver: "sqlite", Synchronous: "FULL", Whole: whole})
}

func rawEnqueue(n, batch int, whole bool) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		t, err := rawTable(ctx, file, whole)
		if err != nil {
			return err
		}
		defer t.Close()
		return s.time(n, func() error { return t.Enqueue(ctx, n, batch) })
	}
}

func rawWork(n int, fused, whole bool) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		t, err := rawTable(ctx, file, whole)
		if err != nil {
			return err
		}
		defer t.Close()
		if err := t.Enqueue(ctx, n, 1000); err != nil {
			return err
		}
		return s.time(n, func() error { return t.Work(ctx, 100, fused) })
	}
}
