package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// ScratchPrefix begins the names of schemas whose book may be broken: they are
// made for that, and dropped after it.
const ScratchPrefix = "daybook_selftest_"

// Break puts one row of a scratch book against an invariant, past every guard
// that the store has, so that a test of the checker sees it fire. It refuses
// any book whose schema doesn't begin with ScratchPrefix, and one that has no
// job to break that way.
func Break(ctx context.Context, book *daybook.Book, invariant string) error {
	s, err := of(book)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(s.schema), ScratchPrefix) {
		return daybook.Fail(daybook.CodeRefused, "only a book in a schema %s… may be broken, not %s",
			ScratchPrefix, s.Describe())
	}
	sql, ok := breaks[invariant]
	if !ok {
		return daybook.Invalid("invariant", "%q is not one that this store knows how to break", invariant)
	}
	changed, err := s.force(ctx, sql)
	if err == nil && changed == 0 {
		err = daybook.Fail(daybook.CodeRefused, "the book has no job to break %s with", invariant)
	}
	return s.schema.friendly("breaking "+invariant, err)
}

// force runs statements past every rule of the store, in one transaction, and
// tells how many rows they changed.
func (s *Store) force(ctx context.Context, sql string) (changed int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var now int64
		if err := tx.QueryRow(ctx, s.schema.in("SELECT daybook.clock()")).Scan(&now); err != nil {
			return err
		}
		fill := strings.NewReplacer("{now}", strconv.FormatInt(now, 10), "{pass}", daybook.Time(now).String(),
			"{hour}", micros(time.Hour))
		for statement := range strings.SplitSeq(fill.Replace(pick.Replace(sql)), ";\n") {
			tag, err := tx.Exec(ctx, s.schema.in(statement), pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				return err
			}
			changed += tag.RowsAffected()
		}
		return nil
	})
	return changed, err
}

// pick names the row that a statement breaks: the oldest of its sort.
var pick = strings.NewReplacer(
	"{waiting}", "(SELECT min(seq) FROM daybook.ready)",
	"{running}", "(SELECT min(seq) FROM daybook.owned)",
	"{its session}", "(SELECT session FROM daybook.owned ORDER BY seq LIMIT 1)",
	"{done}", "(SELECT min(seq) FROM daybook.ended WHERE outcome = 1)",
	"{aside}", "(SELECT min(seq) FROM daybook.job WHERE state = 4)",
	"{snoozed}", "(SELECT min(r.seq) FROM daybook.ready r JOIN daybook.ended e ON e.seq = r.seq AND e.outcome = 3)",
	"{keyed}", "(SELECT min(seq) FROM daybook.job WHERE key IS NOT NULL)",
	"{passed}", "INSERT INTO daybook.setting SELECT '"+daybook.SettingPass+"', '{pass}' FROM daybook.job LIMIT 1"+
		" ON CONFLICT (name) DO UPDATE SET value = excluded.value",
	"{effect}", "INSERT INTO daybook.effect (seq, name, policy, key, begun_at, state, generation, doubled)",
	"{attempt}", "INSERT INTO daybook.ended (seq, generation, session, outcome, claimed_at, filed_at)",
	"{one counting row}", "ctid = (SELECT min(ctid) FROM daybook.outbox)",
)

// breaks has the statements for every invariant.
var breaks = map[string]string{
	"one-place": `INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, expires_at)
		SELECT queue, rank, coalesce(run_at, enqueued_at), seq, kind, expires_at FROM daybook.job WHERE seq = {running}`,
	"place-agrees": "UPDATE daybook.ready SET suspect = true WHERE seq = {waiting}",
	"known-state":  "UPDATE daybook.job SET state = 9 WHERE seq = {aside}",
	"one-outcome": `{attempt} SELECT seq, generation, session, 2, claimed_at, claimed_at FROM daybook.owned
		WHERE seq = {running}`,
	"final-stays": `{attempt} SELECT seq, generation + 1, session, 3, claimed_at, filed_at FROM daybook.ended
		WHERE outcome = 1 AND seq = {done}`,
	"generation-history": "UPDATE daybook.job SET generation = generation + 7 WHERE seq = {aside}",
	"running-session":    "UPDATE daybook.owned SET session = -1 WHERE seq = {running}",
	"lost-revoked": `{passed};
UPDATE daybook.owned SET claimed_at = claimed_at - 2 * {hour} WHERE seq = {running};
UPDATE daybook.session SET ended_at = {now} - {hour} WHERE n = {its session}`,
	"run-limit": `{passed};
UPDATE daybook.owned SET claimed_at = claimed_at - 25 * {hour} WHERE seq = {running}`,
	"failures-limit":  "UPDATE daybook.job SET failures = 20 WHERE seq = {waiting}",
	"claim-after-end": "UPDATE daybook.session SET ended_at = {now} - {hour} WHERE n = {its session}",
	"success-effects": `{effect} SELECT seq, 'charge', 'ask', 'k', claimed_at, 'open', generation, false
		FROM daybook.ended WHERE seq = {done}`,
	"effect-owner": `{effect} SELECT seq, 'charge', 'ask', 'k', run_at, 'done', 99, false
		FROM daybook.ready WHERE seq = {waiting}`,
	"effect-doubled": `{effect} SELECT seq, 'charge', 'ask', 'k', claimed_at, 'done', generation, true
		FROM daybook.ended WHERE seq = {done}`,
	"paused-claim": `UPDATE daybook.queue SET paused_at = {now} - {hour}
		WHERE n = (SELECT queue FROM daybook.owned WHERE seq = {running})`,
	"held-claim":   "UPDATE daybook.job SET held_by = 'nobody' WHERE seq = {running}",
	"aside-reason": "UPDATE daybook.job SET reason = NULL WHERE seq = {aside}",
	"cancel-kept": `INSERT INTO daybook.event (seq, at, what, generation)
		SELECT seq, claimed_at, 'cancel asked', generation - 1 FROM daybook.owned WHERE seq = {running}`,
	"expired-claim": `UPDATE daybook.job SET expires_at = (SELECT claimed_at FROM daybook.owned WHERE seq = {running})
		WHERE seq = {running}`,
	"moved-still": "UPDATE daybook.job SET state = 7, reason = NULL WHERE seq = {aside}",
	"origin-once": `DROP INDEX daybook.job_origin;
UPDATE daybook.job SET origin = '{"system":"old","id":"1"}' WHERE seq IN ({waiting}, {aside})`,
	"snooze-limit": "UPDATE daybook.job SET first_claimed_at = first_claimed_at - 744 * {hour} WHERE seq = {snoozed}",
	"size-limit":   `UPDATE daybook.job SET args = '"' || repeat('x', 1200000) || '"' WHERE seq = {waiting}`,
	"args-json":    "UPDATE daybook.job SET args = '{' WHERE seq = {waiting}",
	"rows-with-job": `INSERT INTO daybook.event (seq, at, what)
		SELECT seq + 1000, {now}, 'expired' FROM daybook.job ORDER BY seq DESC LIMIT 1`,
	"key-kept": "DELETE FROM daybook.request WHERE key = (SELECT key FROM daybook.job WHERE seq = {keyed})",
	"key-fingerprint": `UPDATE daybook.request SET fingerprint = decode(repeat('00', 32), 'hex')
		WHERE key = (SELECT key FROM daybook.job WHERE seq = {keyed})`,
	"key-one-job": "UPDATE daybook.job SET key = (SELECT key FROM daybook.job WHERE seq = {keyed}) WHERE seq = {waiting}",
	"key-end": `INSERT INTO daybook.request (key, job, fingerprint, created_at)
		SELECT 'gone', gen_random_uuid(), decode(repeat('00', 32), 'hex'), {now} FROM daybook.job LIMIT 1`,
	"lease-length": "UPDATE daybook.session SET expires_at = renewed_at + lease + {hour} WHERE n = {its session}",
	"ring-queue": `INSERT INTO daybook.outbox (queue, at, ring)
		SELECT 999999, at, true FROM daybook.outbox WHERE {one counting row}`,
	"conservation": "UPDATE daybook.outbox SET accepted = coalesce(accepted, 0) + 1 WHERE {one counting row}",
	"counts-true": `UPDATE daybook.outbox SET waiting = coalesce(waiting, 0) + 1, running = coalesce(running, 0) - 1
		WHERE {one counting row}`,
}
