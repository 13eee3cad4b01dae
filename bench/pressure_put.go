package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook/bench/raw"
)

func nothing() error { return nil }

// holdSnapshot opens a transaction that has an id and a snapshot of its own, as
// a backup or a forgotten psql has, and has so many jobs processed on both
// sides before anything counts. Nothing of them can be vacuumed on the one.
func holdSnapshot(jobs int) put {
	return func(ctx context.Context, s *scales) (func() error, error) {
		conn, err := pgx.Connect(ctx, s.under.place)
		if err != nil {
			return nil, err
		}
		release := func() error { return conn.Close(context.WithoutCancel(ctx)) }
		for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT txid_current()"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return nil, errors.Join(err, release())
			}
		}
		for done := 0; done < jobs; done += s.jobsEach() {
			var rates [2]float64
			for i, to := range []*side{&s.under, &s.without} {
				r, err := s.turn(ctx, to)
				if err != nil {
					return nil, errors.Join(err, release())
				}
				rates[i] = r.PerSecond
			}
			fmt.Fprintf(s.log, "after %d jobs: %s jobs/s, without %s\n", done, number(rates[0]), number(rates[1]))
		}
		return release, nil
	}
}

// spread has the jobs come in on so many queues, and the worker listen on all.
func spread(queues int) put {
	return func(_ context.Context, s *scales) (func() error, error) {
		s.under.queues = queues
		return nothing, nil
	}
}

// seat has workers beside the measured one that have nothing to do.
func seat(workers int) put {
	return func(ctx context.Context, s *scales) (func() error, error) {
		const make = "SELECT daybook.make_queues(ARRAY['" + idleQueue + "'])"
		err := withConn(ctx, s.under.place, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, make)
			return err
		})
		s.under.beside = func(ctx context.Context) (func() error, error) {
			return startIdle(ctx, order{Step: "idle", Place: s.under.place, Jobs: workers})
		}
		return nothing, err
	}
}

// startIdle starts the process with the idle workers and waits until all of
// them poll, each at its own time. They end with the process's input.
func startIdle(ctx context.Context, o order) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argument, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, peerCommand, pressedSystem, string(argument))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		input.Close()
		return cmd.Wait()
	}
	if err := awaitSessions(ctx, o.Place, o.Jobs); err != nil {
		return nil, errors.Join(err, stop())
	}
	time.Sleep(pollsSpread)
	return stop, nil
}

// awaitSessions waits until so many workers have a session.
func awaitSessions(ctx context.Context, place string, workers int) error {
	return withConn(ctx, place, func(conn *pgx.Conn) error {
		for until := time.Now().Add(2 * patience); ; time.Sleep(100 * time.Millisecond) {
			var n int
			err := conn.QueryRow(ctx, "SELECT count(*) FROM daybook.session WHERE ended_at IS NULL").Scan(&n)
			switch {
			case err != nil:
				return err
			case n >= workers:
				return nil
			case time.Now().After(until):
				return fmt.Errorf("%d of %d idle workers have a session", n, workers)
			}
		}
	})
}

// countDead is how many dead rows the tables hold, as far as the server knows.
func countDead(ctx context.Context, place string) (n float64, err error) {
	err = withConn(ctx, place, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables").Scan(&n)
	})
	return n, err
}

// finish fills the one side's history with jobs that succeeded, evenly over the
// last six days, as retention leaves them.
func finish(jobs int) put {
	return func(ctx context.Context, s *scales) (func() error, error) {
		return nothing, s.loadJobs(ctx, s.under.place, jobs, finishedDays, finishedSession, finishedJobs)
	}
}

// pileUp fills the one side with jobs that came in over the last hours and
// weren't worked, and with some that are for later. The worker begins at the
// front, and there is no end of it.
func pileUp(waiting, scheduled int) put {
	return func(ctx context.Context, s *scales) (func() error, error) {
		s.under.full = true
		err := s.loadJobs(ctx, s.under.place, waiting, waitingJobs)
		if err == nil {
			err = s.loadJobs(ctx, s.under.place, scheduled, scheduledJobs)
		}
		return nothing, err
	}
}

// loadBatch is how many jobs one transaction loads.
const loadBatch = 250_000

// loadJobs has the server itself make jobs, as enqueue, claim and complete leave
// them: the last statement for a range of numbers at a time, after the others.
// Then it does what autovacuum does after such growth.
func (l *lab) loadJobs(ctx context.Context, place string, jobs int, statements ...string) error {
	return withConn(ctx, place, func(conn *pgx.Conn) error {
		last := len(statements) - 1
		for _, sql := range statements[:last] {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		for from := 1; from <= jobs; from += loadBatch {
			to := min(from+loadBatch-1, jobs)
			if _, err := conn.Exec(ctx, statements[last], from, to, jobs, queue, kind, raw.Args); err != nil {
				return err
			}
			fmt.Fprintf(l.log, "loaded %d of %d jobs\n", to, jobs)
		}
		for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// What the loads share: jobs number $1 to $2 of $3, their arrival spread over a
// span that ends now, with ids as enqueuers make them.
const loadHead = `WITH q AS MATERIALIZED
		(SELECT (daybook.make_queues(ARRAY[$4::text]))[1] AS queue, daybook.clock() AS now_at),
	given AS (SELECT n, q.queue, q.now_at - %[1]s + n * (%[1]s / $3::bigint) AS at
		FROM q, generate_series($1::bigint, $2::bigint) n),
	j AS (INSERT INTO daybook.job AS j (enqueued_at, id, queue, rank, kind, args, run_at)
		SELECT g.at, (lpad(to_hex(g.at / 1000), 12, '0') || '7' || substr(r, 1, 3) || 'a' || substr(r, 4, 15))::uuid,
			g.queue, -1, $5::text, $6::text, %[2]s
		FROM given g CROSS JOIN LATERAL md5(g.n::text || random()) r ORDER BY g.n
		RETURNING j.seq, j.queue, j.rank, j.kind, j.enqueued_at, coalesce(j.run_at, j.enqueued_at) AS run_at)`

const (
	loadReady = `,
	r AS (INSERT INTO daybook.ready (run_at, seq, lane, rank, kind)
		SELECT j.run_at, j.seq, j.queue, j.rank, j.kind FROM j)
	INSERT INTO daybook.sums AS s (queue, waiting, accepted) SELECT j.queue, count(*), count(*) FROM j GROUP BY j.queue
		ON CONFLICT (queue) DO UPDATE SET waiting = s.waiting + excluded.waiting,
			accepted = s.accepted + excluded.accepted`
	loadEnded = `,
	e AS (INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome)
		SELECT j.enqueued_at + 30000, j.seq, 1, s.n, j.enqueued_at + 10000, 1
		FROM j, (SELECT n FROM daybook.session WHERE worker = 'yesterday') s)
	INSERT INTO daybook.sums AS s (queue, succeeded, accepted, attempts)
		SELECT j.queue, count(*), count(*), count(*) FROM j GROUP BY j.queue
		ON CONFLICT (queue) DO UPDATE SET succeeded = s.succeeded + excluded.succeeded,
			accepted = s.accepted + excluded.accepted, attempts = s.attempts + excluded.attempts`
	finishedDays    = `SELECT daybook.make_day(daybook.clock() - n * 86400000000) FROM generate_series(0, 7) n`
	finishedSession = `INSERT INTO daybook.session (n, id, worker, lease, started_at, renewed_at, expires_at, ended_at)
		SELECT 1, gen_random_uuid(), 'yesterday', 30000000, now_at - 700000000000, now_at, now_at, now_at
		FROM daybook.clock() now_at`
)

const hour, sixDays = "3600000000::bigint", "(6 * 86400000000)::bigint"

var (
	waitingJobs   = fmt.Sprintf(loadHead, "6 * "+hour, "NULL::bigint") + loadReady
	scheduledJobs = fmt.Sprintf(loadHead, "60000000::bigint", "g.at + "+hour+" * (24 + g.n % 720)") + loadReady
	finishedJobs  = fmt.Sprintf(loadHead, sixDays, "NULL::bigint") + loadEnded
)
