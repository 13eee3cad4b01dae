package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

const sessionColumns = `s.n, s.id, s.worker, s.lease, s.started_at, s.renewed_at, s.expires_at, s.ended_at, s.marked_at,
	s.renewals, s.starts, s.quiet, s.queues, s.kinds, (SELECT count(*) FROM owned o WHERE o.session = s.n)`

func scanSession(row []driver.Value) (daybook.Session, error) {
	s := daybook.Session{Ref: num(row[0]), ID: id(row[1]), Worker: text(row[2]),
		Lease: time.Duration(num(row[3])) * time.Microsecond, StartedAt: at(row[4]), RenewedAt: at(row[5]),
		ExpiresAt: at(row[6]), EndedAt: at(row[7]), MarkedAt: at(row[8]), Renewals: num(row[9]),
		Starts: num(row[10]) != 0, Quiet: num(row[11]) != 0}
	if len(row) > 14 {
		s.Running = int(num(row[14]))
	}
	var err error
	if s.Queues, err = scanNames(row[12]); err == nil {
		s.Kinds, err = scanNames(row[13])
	}
	return s, err
}

// scanNames reads a list of names. Most sessions are read for every batch of
// jobs and have short or no lists.
func scanNames(v driver.Value) (names []string, err error) {
	doc := text(v)
	if doc == "[]" {
		return nil, nil
	}
	return names, json.Unmarshal([]byte(doc), &names)
}

// withoutCount leaves out the last of sessionColumns, which scans owned.
var withoutCount = sessionColumns[:strings.LastIndex(sessionColumns, ", (SELECT")]

func (v *view) session(where string, arg driver.Value) (s daybook.Session, found bool, err error) {
	err = v.q.rows("SELECT "+withoutCount+" FROM session s WHERE s."+where, []driver.Value{arg}, func(row []driver.Value) (err error) {
		found = true
		s, err = scanSession(row)
		return err
	})
	return s, found, err
}

// orphanMark begins the id that stands for a session whose row is gone: its
// number follows, so that its claims can still be named and revoked.
var orphanMark = [8]byte{0xff, 'o', 'r', 'p', 'h', 'a', 'n', 0xff}

func orphan(n int64) (id daybook.ID) {
	copy(id[:], orphanMark[:])
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// sessionByNumber finds a session by its row number, once a transaction.
func (v *view) sessionByNumber(n int64) (daybook.Session, error) {
	if s, ok := v.sessions[n]; ok {
		return s, nil
	}
	s, found, err := v.session("n = ?", n)
	if !found {
		s = daybook.Session{ID: orphan(n), Ref: n}
	}
	if err == nil && v.sessions != nil {
		v.sessions[n] = s
	}
	return s, err
}

// sessionNumber is a session's row number; 0 is none.
func (v *view) sessionNumber(id daybook.ID) (int64, error) {
	if id.IsZero() {
		return 0, nil
	}
	if [8]byte(id[:8]) == orphanMark {
		return int64(binary.BigEndian.Uint64(id[8:])), nil
	}
	for n, s := range v.sessions {
		if s.ID == id {
			return n, nil
		}
	}
	n, err := one(v.q, "SELECT n FROM session WHERE id = ?", blob(id))
	return num(n), err
}

// Sessions lists sessions, the newest first.
func (v *view) Sessions(_ context.Context, f daybook.SessionFilter) (list []daybook.Session, err error) {
	if !f.ID.IsZero() {
		s, found, err := v.session("id = ?", blob(f.ID))
		if err != nil || !found {
			return nil, err
		}
		if v.sessions != nil {
			v.sessions[s.Ref] = s
		}
		return []daybook.Session{s}, nil
	}
	where, args := []string{"1"}, []driver.Value{}
	add := func(condition string, arg driver.Value) {
		where, args = append(where, condition), append(args, arg)
	}
	if !f.WithEnded {
		where = append(where, "s.ended_at IS NULL")
	}
	if f.Expired != 0 {
		add("s.expires_at <= ?", int64(f.Expired))
	}
	if f.Worker != "" {
		add("s.worker = ?", f.Worker)
	}
	limit := int64(-1)
	if f.Limit > 0 {
		limit = int64(f.Limit)
	}
	err = v.q.rows("SELECT "+sessionColumns+" FROM session s WHERE "+strings.Join(where, " AND ")+
		" ORDER BY s.n DESC LIMIT ?", append(args, limit), func(row []driver.Value) error {
		s, err := scanSession(row)
		list = append(list, s)
		return err
	})
	return list, err
}

// SaveSession inserts a session or updates one that hasn't ended.
func (t *tx) SaveSession(_ context.Context, s daybook.Session) (daybook.Session, error) {
	queues, err := json.Marshal(append([]string{}, s.Queues...))
	if err != nil {
		return s, err
	}
	kinds, err := json.Marshal(append([]string{}, s.Kinds...))
	if err != nil {
		return s, err
	}
	if s.Ref == 0 {
		if _, err := t.q.exec(`INSERT INTO session (id, worker, lease, started_at, renewed_at, expires_at, starts, queues, kinds)
			VALUES (`+marks(9)+`)`, blob(s.ID), s.Worker, s.Lease.Microseconds(), int64(s.StartedAt), int64(s.RenewedAt),
			int64(s.ExpiresAt), flag(s.Starts), string(queues), string(kinds)); err != nil {
			return s, err
		}
		s, _, err := t.session("id = ?", blob(s.ID))
		return s, err
	}
	// Ended is final: neither a renewal nor a claim brings a session back.
	n, err := t.q.exec(`UPDATE session SET renewed_at = ?, expires_at = ?, ended_at = ?, marked_at = ?, renewals = ?, quiet = ?
		WHERE n = ? AND ended_at IS NULL`, int64(s.RenewedAt), int64(s.ExpiresAt), null(s.EndedAt), null(s.MarkedAt),
		s.Renewals, flag(s.Quiet), s.Ref)
	if err == nil {
		err = sure(n, 1, "live sessions")
	}
	if err == nil {
		t.sessions[s.Ref] = s
	}
	return s, err
}

// Claims loads what a session owns, or what a call was given.
func (v *view) Claims(ctx context.Context, of daybook.ClaimsOf) (daybook.Session, []daybook.Job, bool, error) {
	if !of.Call.IsZero() {
		return v.callClaims(ctx, of.Call)
	}
	s, found, err := v.session("id = ?", blob(of.Session))
	if err != nil || !found {
		return s, nil, false, err
	}
	jobs, err := v.ownedBy(s.Ref, "")
	return s, jobs, true, err
}

const ownedJobs = "SELECT " + jobColumns + ", " + ownedColumns + ` FROM owned o CROSS JOIN job j ON j.seq = o.seq`

func (v *view) ownedBy(session int64, and string, args ...driver.Value) ([]daybook.Job, error) {
	return v.jobsOf(ownedJobs+" WHERE o.session = ? "+and+" ORDER BY o.seq", append([]driver.Value{session}, args...))
}

// jobsOf scans jobColumns with ownedColumns.
func (v *view) jobsOf(query string, args []driver.Value) (jobs []daybook.Job, err error) {
	err = v.q.rows(query, args, func(row []driver.Value) error {
		j, err := v.scanJob(row)
		if err == nil {
			err = v.scanOwned(&j, row[jobWidth:])
		}
		jobs = append(jobs, j)
		return err
	})
	return jobs, err
}

func (v *view) callClaims(ctx context.Context, call daybook.ID) (s daybook.Session, jobs []daybook.Job, found bool, err error) {
	var given [][3]int64 // first row, generation, how many rows
	var session int64
	err = v.q.rows("SELECT session, given FROM call WHERE id = ?", []driver.Value{blob(call)}, func(row []driver.Value) error {
		found, session = true, num(row[0])
		return json.Unmarshal(raw(row[1]), &given)
	})
	if err != nil || !found {
		return s, nil, false, err
	}
	if s, err = v.sessionByNumber(session); err != nil {
		return s, nil, true, err
	}
	for _, g := range given {
		owned, err := v.ownedBy(session, "AND o.seq >= ? AND o.seq < ? AND o.generation = ?", g[0], g[0]+g[2], g[1])
		if err != nil {
			return s, nil, true, err
		}
		for _, j := range owned {
			args, err := one(v.q, "SELECT args FROM job WHERE seq = ?", j.Ref)
			if err != nil {
				return s, nil, true, err
			}
			j.Args = raw(args)
			jobs = append(jobs, j)
		}
	}
	return s, jobs, true, nil
}
