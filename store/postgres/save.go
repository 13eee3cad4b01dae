package postgres

import (
	"context"
	"strconv"

	"github.com/daybookdev/daybook"
)

// Save carries out changes. Each statement names what the row must still be;
// the count of changed rows tells when it isn't.
func (t *tx) Save(_ context.Context, changes []daybook.Change) error {
	var revived, arrived []daybook.Change
	for _, c := range changes {
		queue, err := t.makeQueue(c.Now.Queue)
		if err != nil {
			return err
		}
		t.count(c.Now.Queue, c.Delta(), c.Eligible(t.Now()))
		switch {
		case c.Move == daybook.MoveRevive && len(changes) > 1:
			revived = append(revived, c)
		case c.Was.State == "":
			arrived = append(arrived, c)
		default:
			t.saveMove(c, queue)
		}
	}
	if len(revived) > 0 {
		t.saveRevived(revived)
	}
	if err := t.saveArrivals(arrived); err != nil {
		return err
	}
	return t.flush()
}

// saveMove carries out one change of a job that is there.
func (t *tx) saveMove(c daybook.Change, queue int64) {
	t.leave(c, queue)
	switch {
	case c.Move == daybook.MoveClaim:
		t.saveClaim(c, queue)
	case c.Move == daybook.MoveComplete: // the attempt tells
	case c.Was.State == daybook.Running && c.Now.State == daybook.Running:
		t.saveAsked(c)
	default:
		t.saveJob(c)
	}
	if c.Now.State == daybook.Waiting {
		t.enready(c, queue)
	}
	t.saveBeside(c)
}

// lane is where a job of a queue waits: see ready.
func lane(queue int64, j daybook.Job) int64 {
	if j.HeldBy != "" {
		return -queue
	}
	return queue
}

// leave takes the job out of the table that says where it is.
func (t *tx) leave(c daybook.Change, queue int64) {
	switch {
	case c.Was.State == daybook.Waiting:
		// A row that was owned and given back looks the same in ready: the
		// generation tells.
		t.later(1, "waiting jobs", `DELETE FROM daybook.ready WHERE lane = $1::int AND rank = $2::smallint
			AND run_at = $3::bigint AND seq = $4::bigint AND EXISTS (SELECT 1 FROM daybook.job
				WHERE seq = $4 AND coalesce(generation, 0) = $5::bigint)`,
			lane(queue, c.Was), rank(c.Was.Priority), int64(c.Was.RunAt), c.Was.Ref, c.Was.Generation)
	case c.Was.State == daybook.Running && c.Now.State != daybook.Running:
		session, value := sessionNumber("$3", c.Was.Session)
		t.later(1, "running jobs", "DELETE FROM daybook.owned WHERE id = $1::text::uuid AND generation = $2::bigint"+
			" AND session = "+
			session, c.Was.ID.String(), c.Was.Generation, value)
	}
}

func (t *tx) saveClaim(c daybook.Change, queue int64) {
	now := c.Now
	session, value := sessionNumber("$4", now.Session)
	var deadline any
	if now.Timeout != daybook.TimeoutDefault {
		deadline = int64(now.Deadline())
	}
	t.later(1, "running jobs", `INSERT INTO daybook.owned (id, seq, generation, session, claimed_at, queue, granted,
		suspect,
		ledger, deadline) VALUES ($1::text::uuid, $2::bigint, $3::bigint, `+session+`, $5::bigint, $6::int, $7::int,
		$8::boolean, $9::boolean, $10::bigint)`, now.ID.String(), now.Ref, now.Generation, value, int64(now.ClaimedAt),
		queue, now.GrantedAt, now.Suspect(), hasEffects(c), deadline)
}

// hasEffects says whether the job has rows in the ledger after the change.
func hasEffects(c daybook.Change) bool {
	return c.Was.Ledger || c.Was.OpenEffect != "" || c.Effect != nil || c.Now.Ledger || c.Now.OpenEffect != ""
}

func (t *tx) saveAsked(c daybook.Change) {
	session, value := sessionNumber("$3", c.Was.Session)
	t.later(1, "running jobs", `UPDATE daybook.owned SET cancel_requested_at = $4::bigint, ledger = ledger OR $5::boolean
		WHERE id = $1::text::uuid AND generation = $2::bigint AND session = `+session,
		c.Was.ID.String(), c.Was.Generation, value, null(c.Now.CancelRequestedAt), hasEffects(c))
}

// saveJob writes what the job's own row tells of slow moves. Its generation
// there is that of the last slow move, so a running job's row has an older
// one; the owned row that leave deleted held the current one.
func (t *tx) saveJob(c daybook.Change) {
	now, was := c.Now, c.Was
	guard := "coalesce(generation, 0) = $14::bigint"
	if was.State == daybook.Running {
		guard = "coalesce(generation, 0) < $14::bigint"
	}
	t.later(1, "jobs", `UPDATE daybook.job SET state = $1::smallint, run_at = $2::bigint, expires_at = $3::bigint,
		generation = $4::bigint, failures = $5::int, crashes = $6::int, first_claimed_at = $7::bigint, ended_at = $8::bigint,
		reason = $9::text, held_by = $10::text, result = $11::text WHERE seq = $12::bigint AND state = $13::smallint AND
			`+guard,
		slowCode(now.State), int64(now.RunAt), null(now.ExpiresAt), now.Generation, nullInt(int64(now.Failures)),
		nullInt(int64(now.Crashes)), null(now.FirstClaimedAt), null(now.EndedAt), nullText(now.Reason), nullText(now.HeldBy),
		nullJSON(now.Result), was.Ref, slowCode(was.State), was.Generation)
}

// enready puts a waiting job's row into ready.
func (t *tx) enready(c daybook.Change, queue int64) {
	j := c.Now
	t.later(1, "waiting jobs", `INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, suspect, ledger, expires_at)
		VALUES ($1::int, $2::smallint, $3::bigint, $4::bigint, $5::text, $6::boolean, $7::boolean, $8::bigint)`,
		lane(queue, j), rank(j.Priority), int64(j.RunAt), j.Ref, j.Kind, j.Suspect(), hasEffects(c), null(j.ExpiresAt))
}

// saveBeside writes what goes with a change: attempt, effect and event.
func (t *tx) saveBeside(c daybook.Change) {
	if c.Attempt != nil {
		t.saveAttempt(c)
	}
	if c.Effect != nil {
		t.saveEffect(c.Was.Ref, *c.Effect)
		if c.Now.State == daybook.Running { // the set of completions passes it by from here on
			t.later(1, "running jobs", "UPDATE daybook.owned SET ledger = true WHERE id = $1::text::uuid", c.Now.ID.String())
		}
	}
	t.saveEvent(c.Was.Ref, c.Event)
}

// saveAttempt appends the attempt that a change ended, and folds the two
// before it when both are plain releases: the newest stays as it is, so that a
// repeated report finds it.
func (t *tx) saveAttempt(c daybook.Change) {
	a := *c.Attempt
	if a.Outcome == daybook.OutcomeReleased && !c.Was.Ledger {
		t.later(anyCount, "", "SELECT daybook.fold_releases($1::bigint)", c.Was.Ref)
	}
	session, value := sessionNumber("$4", a.Session)
	var p daybook.Problem
	if a.Error != nil {
		p = *a.Error
	}
	var through any
	if a.Through != a.Generation {
		through = a.Through
	}
	t.later(1, "attempts", `INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome, through,
		started_at,
		first, count, worker, why, error, error_kind, trace, cut, result) VALUES ($1::bigint, $2::bigint, $3::bigint,
			`+session+`,
		$5::bigint, $6::smallint, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::text, $12::text, $13::text, $14::text,
		$15::text, $16::boolean, $17::text)`, int64(a.EndedAt), c.Was.Ref, a.Generation, value, int64(a.ClaimedAt),
		outcomeCode(a.Outcome), through, null(a.StartedAt), nullInt(a.First), nullInt(a.Count), workerOf(a), nullText(a.Why),
		errorText(a.Error), nullText(p.Kind), nullText(p.Trace), nullTrue(p.Cut), nullJSON(a.Result))
}

// workerOf is the name to keep with an attempt; a success is told by its session.
func workerOf(a daybook.Attempt) any {
	if a.Outcome == daybook.OutcomeSucceeded {
		return nil
	}
	return nullText(a.Worker)
}

func errorText(p *daybook.Problem) any {
	if p == nil {
		return nil
	}
	return p.Text
}

// SaveOwned writes start and progress of running jobs.
func (t *tx) SaveOwned(_ context.Context, jobs []daybook.Job) error {
	for _, j := range jobs {
		session, value := sessionNumber("$3", j.Session)
		t.later(1, "running jobs", "UPDATE daybook.owned SET started_at = $4::bigint WHERE id = $1::text::uuid"+
			" AND generation = $2::bigint AND session = "+
			session, j.ID.String(), j.Generation, value, null(j.StartedAt))
		if j.Progress != nil {
			t.later(1, "progress", `INSERT INTO daybook.progress (seq, generation, progress) VALUES ($1::bigint, $2::bigint,
				$3::text)
				ON CONFLICT (seq) DO UPDATE SET generation = excluded.generation, progress = excluded.progress`,
				j.Ref, j.Generation, string(j.Progress))
		}
	}
	return t.flush()
}

// SaveRefusals keeps what fenced owners said: the first time counts.
func (t *tx) SaveRefusals(_ context.Context, refusals []daybook.Refusal) error {
	for _, r := range refusals {
		t.later(anyCount, "", `INSERT INTO daybook.refusal (seq, generation, session, operation, at, said)
			SELECT seq, $2::bigint, $3::text::uuid, $4::text, $5::bigint, $6::text FROM daybook.job WHERE id = $1::text::uuid
			ON CONFLICT DO NOTHING`, r.Job.String(), r.Generation, r.Session.String(), r.Operation, int64(r.At),
			nullText(r.Said))
	}
	return nil
}

// makeQueue finds a queue's number or makes the queue.
func (t *tx) makeQueue(name string) (int64, error) {
	if n, ok := t.queues[name]; ok {
		return n, nil
	}
	find := "SELECT n FROM daybook.queue WHERE name = $1::text"
	n, err := t.one(find, name)
	if err == nil && n == nil {
		t.later(anyCount, "", "INSERT INTO daybook.queue (name) VALUES ($1::text) ON CONFLICT DO NOTHING", name)
		n, err = t.one(find, name)
	}
	if err == nil && n == nil {
		err = daybook.Fail(daybook.CodeInternal, "queue %s was made and isn't there", name)
	}
	if err == nil {
		t.queues[name] = num(n)
	}
	return num(n), err
}

// Setting reads a value of the book itself.
func (v *view) Setting(_ context.Context, name string) (string, error) {
	value, err := v.one("SELECT value FROM daybook.setting WHERE name = $1::text", name)
	return text(value), err
}

// PeekSetting is one round trip.
func (v *view) PeekSetting(ctx context.Context, name string) (value string, now daybook.Time, err error) {
	if v.s == nil || v.before == nil {
		value, err = v.Setting(ctx, name)
		return value, v.Now(), err
	}
	err = v.raw("SELECT (SELECT value FROM daybook.setting WHERE name = $1::text), daybook.clock()", []any{name}, true,
		func(row cells) error {
			value, now = row.text(0), row.at(1)
			return nil
		})
	return value, now, err
}

// Setting of a write notices first whether the database lost commits, when the
// incarnation is asked for: what is claimed from here on must be above all that
// was.
func (t *tx) Setting(ctx context.Context, name string) (string, error) {
	if name != daybook.SettingIncarnation {
		return t.view.Setting(ctx, name)
	}
	n, err := t.one("SELECT daybook.current_incarnation()")
	if num(n) == 0 {
		return "", err
	}
	return strconv.FormatInt(num(n), 10), err
}

// SaveSetting writes a value where it is still was, or takes it away.
func (t *tx) SaveSetting(_ context.Context, name, was, value string) (bool, error) {
	query := "UPDATE daybook.setting SET value = $2::text WHERE name = $1::text AND value = $3::text"
	args := []any{name, value, was}
	switch {
	case value == "":
		query = "DELETE FROM daybook.setting WHERE name = $1::text AND value = $2::text"
		args = []any{name, was}
	case was == "":
		query = "INSERT INTO daybook.setting (name, value) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING"
		args = args[:2]
	}
	n, err := t.exec(query, args...)
	return n == 1, err
}
