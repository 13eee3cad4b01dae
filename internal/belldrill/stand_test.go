package belldrill

import (
	"context"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
)

// standMost is how long the drill waits for the next job to start, above a fault
// that stops everything.
const standMost = time.Minute

// stands ends a drill that stands still, with what tells why: jobs that didn't
// run, sessions at the server, what workers and bells counted, and where every
// goroutine is.
func (d *drill) stands() {
	d.Helper()
	d.mu.Lock()
	ran, missing := len(d.runs), 0
	for _, id := range d.accepted {
		if d.runs[id] > 0 {
			continue
		}
		if missing++; missing <= 5 {
			j, err := d.book.Job(d.Context(), id)
			d.Logf("job %+v, %v", j, err)
		}
	}
	d.mu.Unlock()
	for _, of := range d.stats {
		d.Logf("worker %+v", of())
	}
	for _, end := range d.ends {
		d.Logf("bell %+v", end.Stats())
	}
	d.sessions()
	stacks := make([]byte, 1<<20)
	d.Logf("%s", stacks[:runtime.Stack(stacks, true)])
	d.Fatalf("nothing started for %s: %d of %d jobs have run", standMost, ran, len(d.accepted))
}

// sessions logs what the server's sessions do.
func (d *drill) sessions() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	db, err := pgx.Connect(ctx, d.url)
	if err != nil {
		d.Log(err)
		return
	}
	defer db.Close(ctx)
	rows, err := db.Query(ctx, `SELECT pid || ' ' || coalesce(state, '') || ' ' || coalesce(wait_event, '') || ' ' ||
		coalesce(now() - xact_start, '0') || ' ' || left(query, 100) FROM pg_stat_activity
		WHERE datname = current_database()`)
	if err != nil {
		d.Log(err)
		return
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range lines {
		d.Log(line)
	}
	if err != nil {
		d.Log(err)
	}
}
