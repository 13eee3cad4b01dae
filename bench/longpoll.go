package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// How many clients wait for work at once, how long each call of theirs waits, and
// for how long they are watched.
const (
	waiting     = 200
	waitingCall = 20 * time.Second
	waitingFor  = 60 * time.Second
	waitingSlow = 5 * time.Second // quick
)

// measureLongPoll tells what many clients cost that wait for work over HTTP: the
// server's memory, and what it asks PostgreSQL.
func measureLongPoll(ctx context.Context, c config, dir string, out io.Writer) error {
	server, err := startPostgres(ctx, c, dir, "shared_preload_libraries", "pg_stat_statements",
		"pg_stat_statements.track", "top")
	if err != nil {
		return err
	}
	defer server.Stop()
	url, drop, err := server.room(ctx)
	if err != nil {
		return err
	}
	defer drop()
	if err := withConn(ctx, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements")
		return err
	}); err != nil {
		return err
	}
	if err := buildDaybook(ctx, c, dir); err != nil {
		return err
	}
	s, err := serve(ctx, url)
	if err != nil {
		return err
	}
	defer s.stop()
	base, err := memoryOf(s.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	polling, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	errs := make([]error, waiting)
	client := newHTTPClient(waiting)
	for i := range errs {
		all.Go(func() {
			w := httpWorker{client: client, url: s.url}
			for errs[i] == nil && polling.Err() == nil {
				var given httpClaims
				errs[i] = w.post(polling, "/v1/claims", claimBody(w.session, 1, waitingCall), &given)
				w.session = given.Session
			}
		})
	}
	watched := waitingFor
	if c.quick {
		watched = waitingSlow
	}
	fmt.Fprintf(c.log, "%d clients wait, watched for %s\n", waiting, watched)
	statements, err := watchStatements(ctx, url, watched)
	stop()
	all.Wait()
	for _, e := range errs {
		if e != nil && polling.Err() == nil || e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return err
	}
	peak, err := memoryOf(s.cmd.Process.Pid, "VmHWM")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n%d clients, calls that wait %s, watched for %s:\n"+
		"server's memory: %.0f MiB at rest, %.0f MiB at most (wanted < 150)\n"+
		"statements: %.1f a second, %.3f for each client (wanted < 1)\n", server.about(), waiting, waitingCall, watched,
		base, peak, statements, statements/waiting)
	return err
}

// watchStatements counts what a database is asked in a second, once everybody
// began: two seconds on.
func watchStatements(ctx context.Context, url string, watched time.Duration) (perSecond float64, err error) {
	count := func(conn *pgx.Conn) (n float64, err error) {
		err = conn.QueryRow(ctx, "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements").Scan(&n)
		return n, err
	}
	err = withConn(ctx, url, func(conn *pgx.Conn) error {
		time.Sleep(2 * time.Second)
		before, err := count(conn)
		if err != nil {
			return err
		}
		begun := time.Now()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watched):
		}
		after, err := count(conn)
		perSecond = (after - before) / time.Since(begun).Seconds()
		return err
	})
	return perSecond, err
}

// memoryOf is a process's memory in MiB: VmRSS now, or VmHWM at most.
func memoryOf(pid int, what string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), what+":")
	var kilobytes float64
	_, err = fmt.Sscanf(after, "%f kB", &kilobytes)
	return kilobytes / 1024, err
}
