package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// measurePostgres measures Daybook, the raw limit and the peers, each in
// processes of its own, on a PostgreSQL and a Redis that nobody else uses.
func measurePostgres(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	server, err := startPostgres(ctx, c, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	t.Notes = append(t.Notes, server.about())
	l := &lab{config: c, server: server, dir: dir}
	programs, err := l.programs(ctx, t)
	if err != nil {
		return err
	}
	if err := t.measure(ctx, c, l.room(programs), l.trials(programs)); err != nil {
		return err
	}
	for _, other := range []string{"raw", "raw 100", "river", "graphile-worker", "asynq"} {
		t.compare("daybook", other)
	}
	t.Notes = append(t.Notes, postgresNotes...)
	return t.finish(c, out)
}

var postgresNotes = []string{
	"raw: rows that move from ready to owned to ended, 2 connections, claims and completions of 1,000; raw 100: of 100",
	"work: preloaded jobs, from the worker's start until the database has all as completed; one worker process",
	"in bulk: one connection, 1,000 a call; asynq has no such call; µs/job: processor time of client or worker alone",
	"latency: from enqueue's return to the handler's first line, in one process; from enqueue's call: with the enqueue",
	"ratio: the median of the rounds' ratios, since rounds meet different loads",
}

// everybody is all systems, in the table's order. The slow ones get a share of
// the jobs.
func everybody() []program {
	return []program{
		{system: "raw", share: 1, noHear: true},
		{system: "raw 100", share: 0.5, workOnly: true},
		{system: "daybook", share: 1},
		{system: "river", share: 1},
		{system: "river 500", share: 1, workOnly: true},
		{system: "gue", share: 0.15},
		{system: "graphile-worker", share: 0.5, node: true},
		{system: "pg-boss", share: 0.1, node: true},
		{system: "asynq", share: 0.25, redis: true, noBulk: true},
		{system: "bullmq", share: 0.25, redis: true, node: true},
	}
}

// programs are the systems that can be measured here. What can't be had is
// left out, with the reason in the notes.
func (l *lab) programs(ctx context.Context, t *table) (here []program, err error) {
	var noRedis, noNode error
	if l.redis, noRedis = findProgram("redis-server", redisMissing); noRedis == nil {
		t.Notes = append(t.Notes, aboutRedis(ctx, l.redis))
	}
	node, noNode := nodePeers(ctx, l.config, l.dir)
	t.Notes = append(t.Notes, versions())
	goPeers := peers()
	for _, p := range everybody() {
		var reason error
		switch {
		case p.redis && noRedis != nil:
			reason = noRedis
		case p.node && noNode != nil:
			reason = noNode
		case !p.node && goPeers[p.system] == nil:
			continue // not in this build
		}
		if reason != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s is left out: %v", p.system, reason))
			continue
		}
		if err := p.find(node, l.dir); err != nil {
			return nil, err
		}
		here = append(here, p)
	}
	return here, ctx.Err()
}

// versions says which releases are compared.
func versions() string {
	var named []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "github.com/riverqueue/river", "github.com/vgarvardt/gue/v5", "github.com/hibiken/asynq",
				"github.com/jackc/pgx/v5":
				named = append(named, filepath.Base(strings.TrimSuffix(m.Path, "/v5"))+" "+m.Version)
			}
		}
	}
	for name, version := range nodeVersions() {
		named = append(named, name+" v"+version)
	}
	slices.Sort(named)
	return strings.Join(named, ", ")
}
