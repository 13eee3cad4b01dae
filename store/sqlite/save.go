package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// Save carries out changes. Claims and successes, the fast moves, go many rows
// a statement; the others one by one. Every statement names the row as it was
// read, and a row that isn't so any more refuses the whole call.
func (t *tx) Save(_ context.Context, changes []daybook.Change) error {
	for _, c := range changes {
		if c.Move != daybook.MoveClaim {
			continue
		}
		// A row that was owned and given back looks the same in ready.
		now, err := one(t.q, "SELECT generation FROM job WHERE seq = ?", c.Was.Ref)
		if err != nil {
			return err
		}
		if num(now) != c.Was.Generation {
			return sure(0, 1, "waiting jobs")
		}
	}
	return t.save(changes)
}

// save is Save for claims that this transaction itself has just read.
func (t *tx) save(changes []daybook.Change) error {
	var waiting, claims []*daybook.Job
	var successes []*daybook.Change
	for i := range changes {
		c := &changes[i]
		queue, err := t.makeQueue(c.Now.Queue)
		if err != nil {
			return err
		}
		t.count(queue, c.Delta(), c.Eligible(t.now))
		switch {
		case c.Was.State == "":
			if err := t.saveArrival(*c); err != nil {
				return err
			}
		case c.Move == daybook.MoveClaim:
			waiting, claims = append(waiting, &c.Was), append(claims, &c.Now)
		case c.Move == daybook.MoveComplete:
			successes = append(successes, c)
		default:
			if err := t.saveSlow(*c, queue); err != nil {
				return err
			}
		}
	}
	if err := t.unreadyAll(waiting); err != nil {
		return err
	}
	if err := t.saveClaims(claims); err != nil {
		return err
	}
	return t.saveSuccesses(successes)
}

// insertOwned binds what a claim call's rows of one queue share once.
var insertOwned = texts{head: "WITH v (seq, generation, deadline) AS (VALUES ", row: "(?, ?, ?)",
	tail: `) INSERT INTO owned (seq, generation, session, queue, claimed_at, deadline, granted, suspect)
		SELECT seq, generation, ?, ?, ?, deadline, ?, ? FROM v`}.cache()

// insertOwnedRun is the same for rows that follow one another and are alike in
// all: the book itself knows their numbers.
const insertOwnedRun = `INSERT INTO owned (generation, deadline, session, queue, claimed_at, granted, suspect, seq)
	SELECT ?, ?, ?, ?, ?, ?, ?, seq FROM job WHERE seq >= ? AND seq <= ?`

// deleteReady takes one waiting row away. One row a statement: a list of row
// values would make SQLite scan the table.
const deleteReady = "DELETE FROM ready WHERE lane = ? AND rank = ? AND run_at = ? AND seq = ?"

// saveClaims moves rows from ready to owned: those that are alike together.
func (t *tx) saveClaims(claims []*daybook.Job) error {
	for len(claims) > 0 {
		first, n := claims[0], 1
		for n < len(claims) && claimedAlike(first, claims[n]) {
			n++
		}
		session, err := t.sessionNumber(first.Session)
		if err != nil {
			return err
		}
		queue, err := t.queueNumber(first.Queue)
		if err != nil {
			return err
		}
		shared := []driver.Value{session, queue, int64(first.ClaimedAt), first.GrantedAt, flag(first.Suspect())}
		if err := t.saveAlikeClaims(shared, claims[:n]); err != nil {
			return err
		}
		claims = claims[n:]
	}
	return nil
}

func claimedAlike(a, b *daybook.Job) bool {
	return a.Session == b.Session && a.Queue == b.Queue && a.ClaimedAt == b.ClaimedAt && a.GrantedAt == b.GrantedAt &&
		a.Suspect() == b.Suspect()
}

// followOneAnother reports whether claims are a run: their rows stand without
// a gap, and they share generation and deadline.
func followOneAnother(claims []*daybook.Job) bool {
	first := claims[0]
	for i, j := range claims {
		if j.Ref != first.Ref+int64(i) || j.Generation != first.Generation || j.Deadline() != first.Deadline() {
			return false
		}
	}
	return true
}

func (t *tx) saveAlikeClaims(shared []driver.Value, claims []*daybook.Job) error {
	if first, n := claims[0], len(claims); n >= rangeLeast && followOneAnother(claims) {
		args := append([]driver.Value{first.Generation, int64(first.Deadline())}, shared...)
		inserted, err := t.q.exec(insertOwnedRun, append(args, first.Ref, claims[n-1].Ref)...)
		if err != nil {
			return err
		}
		return sure(inserted, int64(n), "claimed jobs")
	}
	return inChunks(len(claims), func(from, size int) error {
		owned := make([]driver.Value, 0, size*3+len(shared))
		for _, j := range claims[from : from+size] {
			owned = append(owned, j.Ref, j.Generation, int64(j.Deadline()))
		}
		_, err := t.q.exec(insertOwned[size], append(owned, shared...)...)
		return err
	})
}

// rangeLeast is from how many rows on a range is worth its statements.
const rangeLeast = 8

// deleteRange takes a run of neighbours away: claims come in the order of ready.
const deleteRange = `DELETE FROM ready WHERE lane = +? AND rank = +? AND (run_at, seq) >= (?, ?)
	AND (run_at, seq) <= (?, ?)`

// unreadyAll takes claimed rows out of ready: as a range where they are all
// that the range holds, else one by one.
func (t *tx) unreadyAll(claims []*daybook.Job) error {
	for len(claims) > 0 {
		n := 1
		for n < len(claims) && neighbours(claims[n-1], claims[n]) {
			n++
		}
		if n < rangeLeast {
			if err := t.unready(claims[0]); err != nil {
				return err
			}
			claims = claims[1:]
			continue
		}
		if err := t.unreadyRange(claims[:n]); err != nil {
			return err
		}
		claims = claims[n:]
	}
	return nil
}

// neighbours reports whether b may stand behind a in one range of ready.
func neighbours(a, b *daybook.Job) bool {
	return a.Queue == b.Queue && a.Priority == b.Priority && a.HeldBy == b.HeldBy &&
		(a.RunAt < b.RunAt || a.RunAt == b.RunAt && a.Ref < b.Ref)
}

func (t *tx) unreadyRange(claims []*daybook.Job) error {
	first, err := t.readyKey(claims[0])
	if err != nil {
		return err
	}
	last := claims[len(claims)-1]
	args := append(first, int64(last.RunAt), last.Ref)
	n, err := one(t.q, "SELECT count(*) "+strings.TrimPrefix(deleteRange, "DELETE "), args...)
	if err != nil {
		return err
	}
	if num(n) != int64(len(claims)) { // others stand between: suspects, other kinds, expired ones
		for _, c := range claims {
			if err := t.unready(c); err != nil {
				return err
			}
		}
		return nil
	}
	changed, err := t.q.exec(deleteRange, args...)
	if err != nil {
		return err
	}
	return sure(changed, int64(len(claims)), "waiting jobs")
}

// unready takes a waiting job's row out of ready.
func (t *tx) unready(j *daybook.Job) error {
	key, err := t.readyKey(j)
	if err != nil {
		return err
	}
	n, err := t.q.exec(deleteReady, key...)
	if err != nil {
		return err
	}
	return sure(n, 1, "waiting jobs")
}

// readyKey is where a waiting job's row is in ready.
func (v *view) readyKey(j *daybook.Job) ([]driver.Value, error) {
	lane, err := v.queueNumber(j.Queue)
	if j.HeldBy != "" {
		lane = -lane
	}
	return []driver.Value{lane, rank(j.Priority), int64(j.RunAt), j.Ref}, err
}

var (
	insertSuccess = texts{head: `INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at,
		started_at, result) VALUES `, row: "(" + marks(9) + ")"}.cache()
	// The owner is in the statement: a claim that was revoked or given again
	// since it was read is not deleted, and the count tells.
	deleteOwned = texts{head: "WITH o (seq, generation, session) AS (VALUES ", row: "(?, ?, ?)",
		tail: `) DELETE FROM owned WHERE seq IN (SELECT w.seq FROM o CROSS JOIN owned w
			ON w.seq = o.seq AND w.generation = o.generation AND w.session = o.session)`}.cache()
)

// saveSuccesses moves rows from owned to ended.
func (t *tx) saveSuccesses(changes []*daybook.Change) error {
	return inChunks(len(changes), func(from, size int) error {
		owned := make([]driver.Value, 0, size*3)
		ended := make([]driver.Value, 0, size*9)
		for _, c := range changes[from : from+size] {
			session, err := t.sessionNumber(c.Was.Session)
			if err != nil {
				return err
			}
			a := c.Attempt
			owned = append(owned, c.Was.Ref, c.Was.Generation, session)
			ended = append(ended, c.Was.Ref, a.Generation, a.Through, session, outcomeCode(a.Outcome), int64(a.ClaimedAt),
				int64(a.EndedAt), null(a.StartedAt), nullJSON(a.Result))
		}
		n, err := t.q.exec(deleteOwned[size], owned...)
		if err == nil {
			err = sure(n, int64(size), "completions")
		}
		if err == nil {
			_, err = t.q.exec(insertSuccess[size], ended...)
		}
		return err
	})
}

// saveSlow carries out one change of any kind.
func (t *tx) saveSlow(c daybook.Change, queue int64) error {
	if err := t.leave(c); err != nil {
		return err
	}
	if c.Was.State == daybook.Running && c.Now.State == daybook.Running {
		if err := t.saveAsked(c); err != nil {
			return err
		}
	} else if err := t.saveJob(c); err != nil {
		return err
	}
	if c.Now.State == daybook.Waiting {
		if err := t.enready(c.Now); err != nil {
			return err
		}
	}
	return t.saveBeside(c)
}

// enready puts a waiting job's row into ready.
func (t *tx) enready(j daybook.Job) error {
	key, err := t.readyKey(&j)
	if err != nil {
		return err
	}
	_, err = t.q.exec(`INSERT INTO ready (lane, rank, run_at, seq, suspect, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
		append(key, flag(j.Suspect()), null(j.ExpiresAt))...)
	return err
}

// saveArrival inserts a job that moved in. Its origin is unique: a second
// import of it is refused by the index.
func (t *tx) saveArrival(c daybook.Change) error {
	j := c.Now
	origin, err := json.Marshal(j.Origin)
	if err != nil {
		return fmt.Errorf("writing an origin: %w", err)
	}
	last, err := one(t.q, lastSeq)
	if err != nil {
		return err
	}
	queue, err := t.makeQueue(j.Queue)
	if err != nil {
		return err
	}
	c.Now.Ref, c.Was.Ref = num(last)+1, num(last)+1
	n, err := t.q.exec(`INSERT INTO job (seq, id, queue, kind, rank, state, run_at, max_failures, set_aside_lost, timeout,
		enqueued_at, expires_at, key, ended_at, reason, held_by, origin, trace, args,
		failures) VALUES (`+marks(20)+`) ON CONFLICT DO NOTHING`,
		c.Now.Ref, blob(j.ID), queue, j.Kind, rank(j.Priority), slowCode(j.State), int64(j.RunAt), int64(j.MaxFailures),
		flag(j.OnLost == daybook.LostSetAside), j.Timeout.Microseconds(), int64(j.EnqueuedAt), null(j.ExpiresAt), nullText(j.Key),
		null(j.EndedAt), nullText(j.Reason), nullText(j.HeldBy), string(origin), nullText(j.Trace().Column()),
		string(j.Args), int64(j.Failures))
	if err == nil {
		err = sure(n, 1, "new origins")
	}
	if err == nil && j.State == daybook.Waiting {
		err = t.enready(c.Now)
	}
	if err != nil {
		return err
	}
	return t.saveBeside(c)
}

// leave takes the job out of the table that says where it is.
func (t *tx) leave(c daybook.Change) error {
	switch {
	case c.Was.State == daybook.Waiting:
		return t.unready(&c.Was)
	case c.Was.State == daybook.Running && c.Now.State != daybook.Running:
		session, err := t.sessionNumber(c.Was.Session)
		if err != nil {
			return err
		}
		n, err := t.q.exec("DELETE FROM owned WHERE seq = ? AND generation = ? AND session = ?",
			c.Was.Ref, c.Was.Generation, session)
		if err != nil {
			return err
		}
		return sure(n, 1, "running jobs")
	}
	return nil
}

func (t *tx) saveAsked(c daybook.Change) error {
	session, err := t.sessionNumber(c.Was.Session)
	if err != nil {
		return err
	}
	n, err := t.q.exec("UPDATE owned SET cancel_requested_at = ? WHERE seq = ? AND generation = ? AND session = ?",
		null(c.Now.CancelRequestedAt), c.Was.Ref, c.Was.Generation, session)
	if err != nil {
		return err
	}
	return sure(n, 1, "running jobs")
}

// saveJob writes what the job's own row tells of slow moves. Its generation
// there is that of the last slow move, so a running job's row has an older
// one; the owned row that leave deleted held the current one.
func (t *tx) saveJob(c daybook.Change) error {
	now, was := c.Now, c.Was
	guard, generation := "generation = ?", was.Generation
	if was.State == daybook.Running {
		guard = "generation < ?"
	}
	n, err := t.q.exec(`UPDATE job SET state = ?, run_at = ?, expires_at = ?, generation = ?, failures = ?, crashes = ?,
		first_claimed_at = ?, ended_at = ?, reason = ?, held_by = ?, result = ? WHERE seq = ? AND state = ? AND `+guard,
		slowCode(now.State), int64(now.RunAt), null(now.ExpiresAt), now.Generation, int64(now.Failures), int64(now.Crashes),
		null(now.FirstClaimedAt), null(now.EndedAt), nullText(now.Reason), nullText(now.HeldBy), nullJSON(now.Result),
		was.Ref, slowCode(was.State), generation)
	if err != nil {
		return err
	}
	return sure(n, 1, "jobs")
}

// saveBeside writes what goes with a change: attempt, effect and event.
func (t *tx) saveBeside(c daybook.Change) error {
	if c.Attempt != nil {
		if err := t.saveAttempt(c); err != nil {
			return err
		}
	}
	if c.Effect != nil {
		if err := t.saveEffect(c.Was.Ref, *c.Effect); err != nil {
			return err
		}
	}
	return t.saveEvent(c.Was.Ref, c.Event)
}

// saveAttempt appends the attempt that a change ended, and folds the two
// before it when both are plain releases: the newest stays as it is, so that a
// repeated report finds it.
func (t *tx) saveAttempt(c daybook.Change) error {
	if c.Attempt.Outcome == daybook.OutcomeReleased && !c.Was.Ledger {
		if err := t.fold(c.Was.Ref); err != nil {
			return err
		}
	}
	return t.insertAttempt(c.Was.Ref, *c.Attempt)
}

func (t *tx) insertAttempt(seq int64, a daybook.Attempt) error {
	session, err := t.sessionNumber(a.Session)
	if err != nil {
		return err
	}
	var p daybook.Problem
	if a.Error != nil {
		p = *a.Error
	}
	_, err = t.q.exec(`INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at, started_at, first,
		count, worker, why, error, error_kind, trace, cut, result) VALUES (`+marks(17)+`)`,
		seq, a.Generation, a.Through, session, outcomeCode(a.Outcome), int64(a.ClaimedAt), int64(a.EndedAt), null(a.StartedAt),
		nullInt(a.First), nullInt(a.Count), nullText(a.Worker), nullText(a.Why), errorText(a.Error), nullText(p.Kind),
		nullText(p.Trace), flag(p.Cut), nullJSON(a.Result))
	return err
}

func errorText(p *daybook.Problem) driver.Value {
	if p == nil {
		return nil
	}
	return p.Text
}

func (t *tx) fold(seq int64) error {
	two, err := t.attempts("WHERE e.seq = ? ORDER BY e.generation DESC LIMIT 2", seq)
	if err != nil || len(two) < 2 {
		return err
	}
	folded, ok := two[0].Fold(two[1])
	if !ok {
		return nil
	}
	for _, a := range two {
		if _, err := t.q.exec("DELETE FROM ended WHERE seq = ? AND generation = ?", seq, a.Generation); err != nil {
			return err
		}
	}
	return t.insertAttempt(seq, folded)
}

// SaveOwned writes start and progress of running jobs.
func (t *tx) SaveOwned(_ context.Context, jobs []daybook.Job) error {
	for _, j := range jobs {
		session, err := t.sessionNumber(j.Session)
		if err != nil {
			return err
		}
		n, err := t.q.exec("UPDATE owned SET started_at = ? WHERE seq = ? AND generation = ? AND session = ?",
			null(j.StartedAt), j.Ref, j.Generation, session)
		if err == nil {
			err = sure(n, 1, "running jobs")
		}
		if err == nil && j.Progress != nil {
			_, err = t.q.exec(`INSERT INTO progress (seq, generation, progress) VALUES (?, ?, ?) ON CONFLICT DO UPDATE
				SET generation = excluded.generation, progress = excluded.progress`, j.Ref, j.Generation, string(j.Progress))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SaveCall remembers what a claim call was given: runs of rows that follow one
// another at one generation.
func (t *tx) SaveCall(_ context.Context, call daybook.ID, s daybook.Session, jobs []daybook.Job) error {
	given := append(make([]byte, 0, 64), '[')
	for len(jobs) > 0 {
		first, n := &jobs[0], 1
		for n < len(jobs) && jobs[n].Ref == first.Ref+int64(n) && jobs[n].Generation == first.Generation {
			n++
		}
		if len(given) > 1 {
			given = append(given, ',')
		}
		given = strconv.AppendInt(append(given, '['), first.Ref, 10)
		given = strconv.AppendInt(append(given, ','), first.Generation, 10)
		given = append(strconv.AppendInt(append(given, ','), int64(n), 10), ']')
		jobs = jobs[n:]
	}
	_, err := t.q.exec("INSERT INTO call (id, session, at, given) VALUES (?, ?, ?, ?)", blob(call), s.Ref, int64(t.now),
		string(append(given, ']')))
	return err
}
