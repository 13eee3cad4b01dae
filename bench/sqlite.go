package main

import (
	"context"
	"io"
)

func measureSQLite(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	if err := t.measure(ctx, c, fileRoom(dir), sqliteTrials(c)); err != nil {
		return err
	}
	t.compare("daybook", "raw")
	t.compare("daybook", "raw by row")
	t.compare("daybook", "raw+")
	t.compare("daybook", "river")
	t.Notes = append(t.Notes,
		"raw: one narrow table, a statement a batch; by row: a statement a row; raw+: with unique id and history",
		"ratio: the median of the rounds' ratios, since rounds meet different loads",
		"latency: from the call that enqueues to the handler's first line, its commit included")
	return t.finish(c, out)
}

// sqliteTrials are the measurements, those of one row side by side.
func sqliteTrials(c config) []trial {
	fast, slow := c.jobs, c.jobs/20
	samples := 5 * latencyRate
	if c.quick {
		samples = 2 * latencyRate
	}
	const enqueue100, enqueue1 = "enqueue, batch 100", "enqueue, batch 1"
	const both, each = "claim+complete, batch 100", "claim, then complete"
	const work, latency = "work, no-op handler", "latency at 200/s"
	return []trial{
		{enqueue100, "raw", rawEnqueue(rawFast, fast, 100)},
		{enqueue100, "raw by row", rawEnqueue(rawByRow, fast, 100)},
		{enqueue100, "raw+", rawEnqueue(rawWhole, fast, 100)},
		{enqueue100, "daybook", bookEnqueue(fast, 100)},
		{enqueue100, "river", riverEnqueue(fast/5, 100)},
		{enqueue1, "raw", rawEnqueue(rawFast, slow, 1)},
		{enqueue1, "raw+", rawEnqueue(rawWhole, slow, 1)},
		{enqueue1, "daybook", bookEnqueue(slow, 1)},
		{enqueue1, "river", riverEnqueue(slow, 1)},
		{both, "raw", rawWork(rawFast, fast, true)},
		{both, "raw by row", rawWork(rawByRow, fast, true)},
		{both, "raw+", rawWork(rawWhole, fast, true)},
		{both, "daybook", bookWork(fast, 2)},
		{each, "raw", rawWork(rawFast, fast, false)},
		{each, "raw+", rawWork(rawWhole, fast, false)},
		{each, "daybook", bookWork(fast, 1)},
		{work, "daybook", bookHandle(fast)},
		{work, "river", riverHandle(slow)},
		{latency, "daybook", bookLatency(samples)},
		{latency, "river", riverLatency(samples)},
	}
}
