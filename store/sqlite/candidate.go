package sqlite

import (
	"bytes"
	"database/sql/driver"
	"time"

	"github.com/daybookdev/daybook"
)

// candidateColumns are what most waiting jobs are made of. Reading a column
// through the driver costs as much as finding a row, so they are few: names, traces
// and args come as one, the terms of retrying as one, and enqueued_at only when it
// isn't run_at. Jobs that have more to them (attempts, an expiry, an origin)
// have no terms and are loaded in full.
const candidateColumns = `j.seq, j.id, CAST(j.kind ||
	CASE WHEN j.trace IS NULL THEN ' ' ELSE char(9) || j.trace || char(9) END || j.args AS BLOB), j.run_at,
	CASE WHEN j.enqueued_at <> j.run_at THEN j.enqueued_at END, j.key,
	CASE WHEN j.generation = 0 AND j.first_claimed_at IS NULL AND j.expires_at IS NULL AND j.origin IS NULL
		AND j.failures = 0 AND j.crashes = 0 THEN (j.timeout << 15) | (j.max_failures << 1) | (j.set_aside_lost <> 0) END`

// Parameters have a plus where SQLite would plan anew for another value: for an
// equality when the value becomes or was 0 or 1, for a limit always.
const (
	due        = `AND r.run_at <= ? AND (r.expires_at IS NULL OR r.expires_at > ?) `
	inOrder    = `ORDER BY r.run_at, r.seq LIMIT +?`
	eligibleIn = "SELECT " + candidateColumns + ` FROM ready r CROSS JOIN job j ON j.seq = r.seq
		WHERE r.lane = +? AND r.rank = +? ` + due + `AND r.suspect = 0 `
	suspectsIn = "SELECT " + candidateColumns + ` FROM ready r INDEXED BY ready_suspect CROSS JOIN job j ON j.seq = r.seq
		WHERE r.suspect <> 0 AND r.lane = +? AND r.rank = +? ` + due
)

// candidates runs a query of candidateColumns.
func (k *claiming) candidates(query string, args []driver.Value, priority, most int) ([]daybook.Job, error) {
	jobs := make([]daybook.Job, 0, min(most, 256))
	var more []int
	kind := ""
	err := k.q.rows(query, args, func(row []driver.Value) error {
		if row[6] == nil {
			more = append(more, len(jobs))
		}
		j := daybook.Job{Ref: num(row[0]), ID: id(row[1]), Queue: k.queue, State: daybook.Waiting, Priority: priority,
			RunAt: at(row[3]), EnqueuedAt: at(row[3]), Key: text(row[5])}
		if row[4] != nil {
			j.EnqueuedAt = at(row[4])
		}
		j.Timeout, j.MaxFailures, j.OnLost = terms(num(row[6]))
		named, args, trace := named(row[2].([]byte))
		if string(named) != kind {
			kind = string(named)
		}
		j.Kind, j.Args, j.Traceparent, j.Tracestate = kind, args, trace.Parent, trace.State
		jobs = append(jobs, j)
		return nil
	})
	if err == nil && len(more) > 0 {
		err = k.loadMore(jobs, more)
	}
	return jobs, err
}

// named takes apart what candidateColumns puts together: no name has a space or a
// tab, and no trace a tab.
func named(all []byte) (kind, args []byte, trace daybook.Trace) {
	end := bytes.IndexAny(all, " \t")
	kind, args = all[:end], all[end+1:]
	if all[end] == '\t' {
		column, rest, _ := bytes.Cut(args, []byte("\t"))
		args, trace = rest, daybook.TraceOfColumn(string(column))
	}
	return kind, args, trace
}

// terms takes apart what candidateColumns puts together: a run limit of up to
// a year in microseconds, the limit of failures in 14 bits, and on_lost.
func terms(packed int64) (timeout time.Duration, maxFailures int, onLost daybook.OnLost) {
	onLost = daybook.LostRetry
	if packed&1 != 0 {
		onLost = daybook.LostSetAside
	}
	return time.Duration(packed>>15) * time.Microsecond, int(packed>>1) & (1<<14 - 1), onLost
}

// loadMore loads the jobs at these places in full.
func (k *claiming) loadMore(jobs []daybook.Job, places []int) error {
	ids := make([]daybook.ID, len(places))
	for n, i := range places {
		ids[n] = jobs[i].ID
	}
	full, err := k.lock(ids)
	if err != nil {
		return err
	}
	for n, i := range places {
		args := jobs[i].Args
		jobs[i] = full[n]
		jobs[i].Args = args
	}
	return nil
}
