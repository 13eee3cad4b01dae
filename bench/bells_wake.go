package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	bellpg "github.com/daybookdev/daybook/bell/postgres"
	"github.com/daybookdev/daybook/store/postgres"
)

const (
	wakeRow   = "claims beyond the polls, 200 ms after a ring"
	wakePolls = "claims of idle workers that poll"
	wakeSpan  = 200 * time.Millisecond
	wakeMost  = 3
)

// wake has so many idle worker processes on the bell of PostgreSQL, enqueues one
// job now and then, and counts who asks the book because of it.
func (l *lab) wake(ctx context.Context, t *table) error {
	if !l.only.MatchString(wakeRow) {
		return nil
	}
	workers, rings, polls := 300, 60, 20*time.Second
	if l.quick {
		workers, rings, polls = 100, 20, 6*time.Second
	}
	fmt.Fprintf(l.log, "%d idle worker processes\n", workers)
	server, err := startPostgres(ctx, l.config, l.dir, "max_connections", fmt.Sprint(6*workers+100),
		"shared_preload_libraries", "pg_stat_statements")
	if err != nil {
		return err
	}
	defer server.Stop()
	place, leave, err := server.room(ctx)
	if err != nil {
		return err
	}
	defer leave()
	bell, err := bellpg.Open(ctx, place, bellpg.Options{Log: quiet()})
	if err != nil {
		return err
	}
	defer bell.Close()
	o := postgres.Options{Book: daybook.Options{Bell: bell, Log: quiet()}}
	if _, err := postgres.Up(ctx, place, o, nil); err != nil {
		return err
	}
	book, err := postgres.Open(ctx, place, o)
	if err != nil {
		return err
	}
	defer book.Close()
	stop, err := l.seatAll(ctx, place, workers)
	defer stop()
	if err != nil {
		return err
	}
	return withConn(ctx, place, func(conn *pgx.Conn) error {
		w := &waking{conn: conn, book: book}
		if _, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
			return err
		}
		if err := w.measure(ctx, rings, polls); err != nil {
			return err
		}
		name := fmt.Sprintf("%d idle processes", workers)
		t.add(wakePolls, "claims/s", name, w.polled)
		t.add(wakeRow, "claims", name, w.beyond)
		verdict := "holds"
		if w.beyond > wakeMost {
			verdict = "MISSED"
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s, %d rings: %s: %.2f more than the polls (at most %d)", name, rings,
			verdict, w.beyond, wakeMost))
		return nil
	})
}

// seatAll starts the processes and waits until all have a session and listen.
func (l *lab) seatAll(ctx context.Context, place string, workers int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			cmd.Process.Kill()
		}
		for _, cmd := range all {
			cmd.Wait()
		}
	}
	for range workers {
		cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "daybook"), "work", "--db", place, "--queue", queue,
			"--exec", "true")
		if err := cmd.Start(); err != nil {
			return stop, err
		}
		all = append(all, cmd)
	}
	if err := awaitSessions(ctx, place, workers); err != nil {
		return stop, err
	}
	err = withConn(ctx, place, func(conn *pgx.Conn) error {
		for until := time.Now().Add(4 * patience); ; <-time.After(100 * time.Millisecond) {
			var n int
			err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&n)
			if err != nil || n >= workers {
				return err
			}
			if time.Now().After(until) {
				return fmt.Errorf("%d of %d idle workers listen", n, workers)
			}
		}
	})
	<-time.After(2 * pollsSpread)
	return stop, err
}

// waking counts claims.
type waking struct {
	conn           *pgx.Conn
	book           *daybook.Book
	polled, beyond float64
}

func (w *waking) measure(ctx context.Context, rings int, polls time.Duration) error {
	before, err := w.claims(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	<-time.After(polls)
	after, err := w.claims(ctx)
	if err != nil {
		return err
	}
	w.polled = float64(after-before) / time.Since(begun).Seconds()
	asked, took := 0, time.Duration(0)
	for range rings {
		before, err := w.claims(ctx)
		begun := time.Now()
		_, failed := w.book.Enqueue(ctx, request(`{}`))
		<-time.After(wakeSpan)
		after, err2 := w.claims(ctx)
		if err := errors.Join(err, failed, err2); err != nil {
			return err
		}
		asked, took = asked+int(after-before), took+time.Since(begun)
		<-time.After(wakeSpan)
	}
	w.beyond = (float64(asked) - w.polled*took.Seconds()) / float64(rings)
	return nil
}

// claims is how many claim calls the server has carried out.
func (w *waking) claims(ctx context.Context) (n int64, err error) {
	err = w.conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
		WHERE query LIKE '%daybook.claim_jobs(%' AND query NOT LIKE '%pg_stat_statements%'`).Scan(&n)
	return n, err
}
