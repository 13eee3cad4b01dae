package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

func marks(n int) string { return strings.Repeat("?, ", n-1) + "?" }

// rank orders priorities as they run: ascending rank is descending priority.
// -priority would overflow at the lowest one in 16 bits.
func rank(priority int) int64 { return int64(^priority) }

func priority(rank int64) int { return int(^rank) }

// Enqueue inserts the jobs that are new and answers the others as replays. It
// writes when all are decided, so that a refused call leaves nothing behind in
// a transaction that goes on.
func (t *tx) Enqueue(_ context.Context, jobs []daybook.NewJob) ([]daybook.Receipt, error) {
	receipts := make([]daybook.Receipt, len(jobs))
	keyed := make(map[string]int)
	ids := make(map[daybook.ID]int)
	var fresh, replayed []int
	for i, n := range jobs {
		known, receipt, err := t.known(jobs, i, keyed, ids)
		if err != nil {
			if len(jobs) > 1 && daybook.CodeOf(err) == daybook.CodeKeyConflict {
				err = &daybook.BatchError{Index: i, Err: err}
			}
			return nil, err
		}
		if receipts[i] = receipt; known {
			replayed = append(replayed, i)
			continue
		}
		receipts[i] = daybook.Receipt{ID: n.Job.ID}
		fresh = append(fresh, i)
		if n.Job.Key != "" {
			keyed[n.Job.Key] = i
		}
		if n.Known {
			ids[n.Job.ID] = i
		}
	}
	return receipts, t.accept(jobs, fresh, replayed)
}

// accept writes what a call was decided to be.
func (t *tx) accept(jobs []daybook.NewJob, fresh, replayed []int) error {
	rows := make([]daybook.Job, len(fresh))
	for n, i := range fresh {
		rows[n] = jobs[i].Enqueue(t.now)
		if jobs[i].Job.Key == "" {
			continue
		}
		if err := t.bindKey(jobs[i]); err != nil {
			return err
		}
	}
	if err := t.insert(rows); err != nil {
		return err
	}
	for _, i := range replayed {
		if jobs[i].Job.Key == "" {
			continue
		}
		if _, err := t.q.exec("UPDATE request SET replays = replays + 1, last_replay_at = ? WHERE key = ?",
			int64(t.now), jobs[i].Job.Key); err != nil {
			return err
		}
	}
	return nil
}

// known answers a request whose key or chosen id is taken, by the book or by
// an earlier request of the same call.
func (t *tx) known(jobs []daybook.NewJob, i int, keyed map[string]int, ids map[daybook.ID]int) (bool, daybook.Receipt, error) {
	n := jobs[i]
	if n.Job.Key != "" {
		if first, ok := keyed[n.Job.Key]; ok {
			r, err := n.Replay(jobs[first].Fingerprint, jobs[first].Job.ID, true)
			return true, r, err
		}
		record, found, err := t.key(n.Job.Key)
		if err != nil {
			return true, daybook.Receipt{}, err
		}
		if found {
			r, err := n.Replay(record.Fingerprint, record.Job, true)
			return true, r, err
		}
	}
	if !n.Known {
		return false, daybook.Receipt{}, nil
	}
	if first, ok := ids[n.Job.ID]; ok {
		r, err := n.Replay(jobs[first].Fingerprint, n.Job.ID, false)
		return true, r, err
	}
	return t.knownID(n)
}

func (t *tx) knownID(n daybook.NewJob) (found bool, r daybook.Receipt, err error) {
	err = t.q.rows(`SELECT q.name, j.kind, j.args, j.key FROM job j JOIN queue q ON q.n = j.queue WHERE j.id = ?`,
		[]driver.Value{blob(n.Job.ID)}, func(row []driver.Value) error {
			found = true
			if key := text(row[3]); key != n.Job.Key && n.Job.Key != "" {
				return &daybook.Error{Code: daybook.CodeKeyConflict, Field: "id",
					Text: fmt.Sprintf("job %s exists with another request key; nothing was stored", n.Job.ID)}
			}
			fingerprint, err := daybook.FingerprintOf(text(row[0]), text(row[1]), raw(row[2]))
			if err != nil {
				return err
			}
			r, err = n.Replay(fingerprint, n.Job.ID, false)
			return err
		})
	return found, r, err
}

func (t *tx) bindKey(n daybook.NewJob) error {
	_, err := t.q.exec("INSERT INTO request (key, job, fingerprint, created_at) VALUES (?, ?, ?, ?)",
		n.Job.Key, blob(n.Job.ID), n.Fingerprint[:], int64(t.now))
	return err
}

// key reads a request key's record.
func (v *view) key(key string) (k daybook.KeyRecord, found bool, err error) {
	err = v.q.rows(`SELECT key, job, fingerprint, created_at, replays, last_replay_at, ended_at, state, result
		FROM request WHERE key = ?`, []driver.Value{key}, func(row []driver.Value) error {
		found = true
		k = daybook.KeyRecord{Key: text(row[0]), Job: id(row[1]), CreatedAt: at(row[3]), Replays: num(row[4]),
			LastReplayAt: at(row[5]), EndedAt: at(row[6]), State: daybook.State(text(row[7])), Result: raw(row[8])}
		copy(k.Fingerprint[:], raw(row[2]))
		return nil
	})
	return k, found, err
}

// Key loads a request key's record.
func (v *view) Key(_ context.Context, key string) (daybook.KeyRecord, bool, error) { return v.key(key) }
