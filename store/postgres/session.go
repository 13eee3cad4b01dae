package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/daybookdev/daybook"
)

const sessionColumns = `s.n, s.id, s.worker, s.lease, s.started_at, s.renewed_at, s.expires_at, s.ended_at, s.marked_at,
	s.renewals, s.starts, s.quiet, s.queues, s.kinds`

func scanSession(row []any) (daybook.Session, error) {
	s := daybook.Session{Ref: num(row[0]), ID: id(row[1]), Worker: text(row[2]),
		Lease: time.Duration(num(row[3])) * time.Microsecond, StartedAt: at(row[4]), RenewedAt: at(row[5]),
		ExpiresAt: at(row[6]), EndedAt: at(row[7]), MarkedAt: at(row[8]), Renewals: num(row[9]),
		Starts: truth(row[10]), Quiet: truth(row[11])}
	if len(row) > 14 {
		s.Running = int(num(row[14]))
	}
	var err error
	if s.Queues, err = scanNames(row[12]); err == nil {
		s.Kinds, err = scanNames(row[13])
	}
	return s, err
}

// scanNames reads a list of names; most sessions have short or no lists.
func scanNames(v any) (names []string, err error) {
	doc := text(v)
	if doc == "[]" {
		return nil, nil
	}
	return names, json.Unmarshal([]byte(doc), &names)
}

func (v *view) session(where string, arg any) (s daybook.Session, found bool, err error) {
	err = v.rows("SELECT "+sessionColumns+" FROM daybook.session s WHERE s."+where, []any{arg},
		func(row []any) (err error) {
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

// sessionNumber is an SQL expression for the number of the session whose id is
// parameter p, and the parameter's value. Nobody has the number 0.
func sessionNumber(p string, id daybook.ID) (expression string, value any) {
	if [8]byte(id[:8]) == orphanMark {
		return p + "::bigint", int64(binary.BigEndian.Uint64(id[8:]))
	}
	if id.IsZero() {
		return p + "::bigint", int64(0)
	}
	return "coalesce((SELECT n FROM daybook.session WHERE id = " + p + "::text::uuid), 0)", id.String()
}

// Sessions of a write locks what it finds: a session that is named can't end
// meanwhile, and one past its lease can't be renewed between this look and its
// end. Of the latter it passes by those that somebody else holds, since they are
// being renewed or claim.
func (t *tx) Sessions(_ context.Context, f daybook.SessionFilter) ([]daybook.Session, error) {
	if f.ID.IsZero() {
		lock := ""
		if f.Expired != 0 {
			lock = " FOR NO KEY UPDATE OF s SKIP LOCKED"
		}
		return t.listSessions(f, lock)
	}
	s, found, err := t.session("id = $1::text::uuid FOR NO KEY UPDATE", f.ID.String())
	if err != nil || !found {
		return nil, err
	}
	return []daybook.Session{s}, nil
}

// Sessions lists sessions, the newest first.
func (v *view) Sessions(_ context.Context, f daybook.SessionFilter) ([]daybook.Session, error) {
	if !f.ID.IsZero() {
		s, found, err := v.session("id = $1::text::uuid", f.ID.String())
		if err != nil || !found {
			return nil, err
		}
		return []daybook.Session{s}, nil
	}
	return v.listSessions(f, "")
}

func (v *view) listSessions(f daybook.SessionFilter, lock string) (list []daybook.Session, err error) {
	err = v.rows("SELECT "+sessionColumns+`, (SELECT count(*) FROM daybook.owned o WHERE o.session + 0 = s.n)
		FROM daybook.session s WHERE ($1::boolean OR s.ended_at IS NULL) AND ($2::bigint IS NULL OR s.expires_at <= $2)
		AND ($3::text IS NULL OR s.worker = $3) ORDER BY s.arrival DESC LIMIT $4::bigint`+lock,
		[]any{f.WithEnded, null(f.Expired), nullText(f.Worker), nullInt(int64(f.Limit))}, func(row []any) error {
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
		s.Ref = sessionRef()
		t.later(1, "sessions", `INSERT INTO daybook.session (n, id, worker, lease, started_at, renewed_at, expires_at,
			starts, queues, kinds) VALUES ($1::bigint, $2::text::uuid, $3::text, $4::bigint, $5::bigint, $6::bigint,
			$7::bigint, $8::boolean, $9::text, $10::text)`, s.Ref, s.ID.String(), s.Worker, s.Lease.Microseconds(),
			int64(s.StartedAt), int64(s.RenewedAt), int64(s.ExpiresAt), s.Starts, string(queues), string(kinds))
		return s, t.flush()
	}
	// Ended is final: neither a renewal nor a claim brings a session back.
	t.later(1, "live sessions", `UPDATE daybook.session SET renewed_at = $2::bigint, expires_at = $3::bigint,
		ended_at = $4::bigint, marked_at = $5::bigint, renewals = $6::bigint, quiet = $7::boolean
		WHERE n = $1::bigint AND ended_at IS NULL`, s.Ref, int64(s.RenewedAt), int64(s.ExpiresAt), null(s.EndedAt),
		null(s.MarkedAt), s.Renewals, s.Quiet)
	return s, t.flush()
}

// renewIdle is Session.Renew, of a session that owns nothing. One that was ended
// by a rival whom it waited for is looked at again, and stays as it is.
const renewIdle = `UPDATE daybook.session s SET renewed_at = t.at, expires_at = t.at + s.lease, marked_at = NULL,
	renewals = s.renewals + 1
	FROM (SELECT coalesce($2::bigint, daybook.clock()) AS at OFFSET 0) t
	WHERE s.id = $1::uuid AND s.ended_at IS NULL AND NOT EXISTS (SELECT FROM daybook.owned o WHERE o.session + 0 = s.n)
	RETURNING s.expires_at, s.quiet`

// RenewIdle renews in one round trip. A claim that is being given to the session
// just now isn't seen yet, and isn't lost by that: only what two renewals didn't
// list is.
func (t *tx) RenewIdle(_ context.Context, session daybook.ID) (r daybook.Renewal, done bool, err error) {
	if t.s == nil || t.before == nil || len(t.kept) > 0 || len(t.deltas) > 0 {
		return r, false, nil // it would end what was begun
	}
	err = t.raw(renewIdle, []any{session.String(), t.nowOrNull()}, true, func(row cells) error {
		r.LeaseUntil, r.Quiet, done = row.at(0), row.truth(1), true
		return nil
	})
	return r, done, err
}

// sessionRef is a number that no session had: random, since a sequence may
// repeat itself after a failover that lost commits.
func sessionRef() int64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if n := int64(binary.BigEndian.Uint64(b[:]) >> 1); n != 0 {
			return n
		}
	}
}

// Claims loads what a session owns, or what a call was given.
func (v *view) Claims(_ context.Context, of daybook.ClaimsOf) (daybook.Session, []daybook.Job, bool, error) {
	if !of.Call.IsZero() {
		return v.callClaims(of.Call)
	}
	s, found, err := v.session("id = $1::text::uuid", of.Session.String())
	if err != nil || !found {
		return s, nil, false, err
	}
	jobs, err := v.ownedWhere("", "own.session + 0 = $1::bigint", s.Ref)
	return s, jobs, true, err
}

// Claims of a write locks the session: who renews it or ends it waits.
func (t *tx) Claims(ctx context.Context, of daybook.ClaimsOf) (daybook.Session, []daybook.Job, bool, error) {
	if !of.Call.IsZero() {
		t.later(anyCount, "", "SELECT daybook.lock_call($1::text::uuid)", of.Call.String())
		return t.view.Claims(ctx, of)
	}
	s, found, err := t.session("id = $1::text::uuid FOR NO KEY UPDATE", of.Session.String())
	if err != nil || !found {
		return s, nil, false, err
	}
	jobs, err := t.ownedWhere("", "own.session + 0 = $1::bigint", s.Ref)
	return s, jobs, true, err
}

// ownedWhere loads owned jobs with a further column behind jobColumns.
func (v *view) ownedWhere(column, where string, args ...any) (jobs []daybook.Job, err error) {
	err = v.rows("SELECT "+jobColumns+column+" FROM daybook.owned own JOIN daybook.job j ON j.id = own.id"+jobJoins+
		" WHERE "+where+" ORDER BY j.seq", args, func(row []any) error {
		j, err := scanJob(row)
		if column != "" {
			j.Args = raw(row[jobWidth])
		}
		jobs = append(jobs, j)
		return err
	})
	return jobs, err
}

func (v *view) callClaims(call daybook.ID) (s daybook.Session, jobs []daybook.Job, found bool, err error) {
	var number, session int64
	err = v.rows("SELECT n, session FROM daybook.call WHERE id = $1::text::uuid", []any{call.String()},
		func(row []any) error {
			found, number, session = true, num(row[0]), num(row[1])
			return nil
		})
	if err != nil || !found {
		return s, nil, false, err
	}
	s, known, err := v.session("n = $1::bigint", session)
	if err != nil {
		return s, nil, true, err
	}
	if !known {
		s = daybook.Session{ID: orphan(session), Ref: session}
	}
	jobs, err = v.ownedWhere(", j.args", "own.session + 0 = $1::bigint AND own.call = $2::bigint", session, number)
	return s, jobs, true, err
}

// SaveCall remembers what a claim call was given: its claims carry its number.
func (t *tx) SaveCall(_ context.Context, call daybook.ID, s daybook.Session, jobs []daybook.Job) error {
	ids := make([]daybook.ID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	t.later(int64(len(jobs)), "claims of a call", `WITH c AS (INSERT INTO daybook.call (id, session, at)
		VALUES ($1::text::uuid, $2::bigint, coalesce($3::bigint, daybook.clock())) RETURNING n)
		UPDATE daybook.owned SET call = c.n FROM c WHERE id = ANY ($4::text[]::uuid[]) AND session = $2`,
		call.String(), s.Ref, t.nowOrNull(), texts(ids))
	return t.flush()
}
