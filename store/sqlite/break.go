package sqlite

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Break puts one row of a scratch book against an invariant, past every guard
// that the store has, so that a test of the checker sees it fire. It refuses
// any book that isn't in memory, and one that has no job to break that way.
func Break(ctx context.Context, book *daybook.Book, invariant string) error {
	s, err := of(book)
	if err != nil {
		return err
	}
	if s.path != Memory {
		return daybook.Fail(daybook.CodeRefused, "only a book in memory may be broken, not %s", s.Describe())
	}
	sql, ok := breaks[invariant]
	if !ok {
		return daybook.Invalid("invariant", "%q is not one that this store knows how to break", invariant)
	}
	return s.alone(ctx, "breaking a scratch book", func() error {
		now := s.clock()
		fill := strings.NewReplacer("{now}", strconv.FormatInt(int64(now), 10), "{pass}", now.String(),
			"{hour}", micros(time.Hour))
		before, err := one(s.own, "SELECT total_changes()")
		if err == nil {
			err = script(s.own, fill.Replace(pick.Replace(sql))+";\n")
		}
		if err != nil {
			return s.friendly("breaking "+invariant, err)
		}
		after, err := one(s.own, "SELECT total_changes()")
		if err == nil && num(after) == num(before) {
			err = daybook.Fail(daybook.CodeRefused, "the book has no job to break %s with", invariant)
		}
		return s.friendly("breaking "+invariant, err)
	})
}

// pick names the row that a statement breaks: the oldest of its sort.
var pick = strings.NewReplacer(
	"{waiting}", "(SELECT min(seq) FROM ready)",
	"{running}", "(SELECT min(seq) FROM owned)",
	"{its session}", "(SELECT session FROM owned ORDER BY seq LIMIT 1)",
	"{done}", "(SELECT min(seq) FROM ended WHERE outcome = 1)",
	"{aside}", "(SELECT min(seq) FROM job WHERE state = 4)",
	"{snoozed}", "(SELECT min(r.seq) FROM ready r JOIN ended e ON e.seq = r.seq AND e.outcome = 3)",
	"{keyed}", "(SELECT min(seq) FROM job WHERE key IS NOT NULL)",
	"{passed}", "INSERT INTO setting VALUES ('"+daybook.SettingPass+"', '{pass}')"+
		" ON CONFLICT DO UPDATE SET value = excluded.value",
	"{effect}", "INSERT INTO effect (seq, name, policy, key, begun_at, state, generation, doubled)",
)

// breaks has the statements for every invariant.
var breaks = map[string]string{
	"one-place": `INSERT INTO ready (lane, rank, run_at, seq, expires_at)
		SELECT queue, rank, run_at, seq, expires_at FROM job WHERE seq = {running}`,
	"place-agrees": "UPDATE ready SET suspect = 1 WHERE seq = {waiting}",
	"known-state":  "UPDATE job SET state = 9 WHERE seq = {aside}",
	"one-outcome": `INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at)
		SELECT seq, generation, generation, session, 2, claimed_at, claimed_at FROM owned WHERE seq = {running}`,
	"final-stays": `INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at)
		SELECT seq, generation + 1, generation + 1, session, 3, claimed_at, ended_at FROM ended
		WHERE outcome = 1 AND seq = {done}`,
	"generation-history": "UPDATE job SET generation = generation + 7 WHERE seq = {aside}",
	"running-session":    "UPDATE owned SET session = -1 WHERE seq = {running}",
	"lost-revoked": `{passed};
UPDATE owned SET claimed_at = claimed_at - 2 * {hour}, deadline = deadline - 2 * {hour} WHERE seq = {running};
UPDATE session SET ended_at = {now} - {hour} WHERE n = {its session}`,
	"run-limit": `{passed};
UPDATE owned SET claimed_at = claimed_at - (deadline - {now}) - {hour}, deadline = {now} - {hour}
	WHERE seq = {running}`,
	"failures-limit":  "UPDATE job SET failures = max_failures WHERE seq = {waiting}",
	"claim-after-end": "UPDATE session SET ended_at = {now} - {hour} WHERE n = {its session}",
	"success-effects": `{effect} SELECT seq, 'charge', 'ask', 'k', claimed_at, 'open', generation, 0
		FROM ended WHERE seq = {done}`,
	"effect-owner": `{effect} SELECT seq, 'charge', 'ask', 'k', run_at, 'done', 99, 0
		FROM job WHERE seq = {waiting}`,
	"effect-doubled": `{effect} SELECT seq, 'charge', 'ask', 'k', claimed_at, 'done', generation, 1
		FROM ended WHERE seq = {done}`,
	"paused-claim": `UPDATE queue SET paused_at = {now} - {hour}
		WHERE n = (SELECT queue FROM owned WHERE seq = {running})`,
	"held-claim":   "UPDATE job SET held_by = 'nobody' WHERE seq = {running}",
	"aside-reason": "UPDATE job SET reason = NULL WHERE seq = {aside}",
	"cancel-kept": `INSERT INTO event (seq, at, what, generation)
		SELECT seq, claimed_at, 'cancel asked', generation - 1 FROM owned WHERE seq = {running}`,
	"expired-claim": `UPDATE job SET expires_at = (SELECT claimed_at FROM owned WHERE seq = {running})
		WHERE seq = {running}`,
	"moved-still": "UPDATE job SET state = 7, reason = NULL WHERE seq = {aside}",
	"origin-once": `DROP INDEX job_origin;
UPDATE job SET origin = '{"system":"old","id":"1"}' WHERE seq IN ({waiting}, {aside})`,
	"snooze-limit":  "UPDATE job SET first_claimed_at = first_claimed_at - 744 * {hour} WHERE seq = {snoozed}",
	"size-limit":    `UPDATE job SET args = '"' || hex(zeroblob(600000)) || '"' WHERE seq = {waiting}`,
	"args-json":     "UPDATE job SET args = '{' WHERE seq = {waiting}",
	"rows-with-job": "INSERT INTO event (seq, at, what) SELECT max(seq) + 1000, {now}, 'expired' FROM job",
	"key-kept":      "DELETE FROM request WHERE key = (SELECT key FROM job WHERE seq = {keyed})",
	"key-fingerprint": `UPDATE request SET fingerprint = zeroblob(32)
		WHERE key = (SELECT key FROM job WHERE seq = {keyed})`,
	"key-one-job": "UPDATE job SET key = (SELECT key FROM job WHERE seq = {keyed}) WHERE seq = {waiting}",
	"key-end": `INSERT INTO request (key, job, fingerprint, created_at)
		VALUES ('gone', randomblob(16), zeroblob(32), {now})`,
	"lease-length": "UPDATE session SET expires_at = renewed_at + lease + {hour} WHERE n = {its session}",
	"ring-queue": `INSERT INTO outbox (queue, at, ring, ` + countColumns + `)
		SELECT 999, at, 1, ` + countColumns + ` FROM outbox ORDER BY n LIMIT 1`,
	"conservation": "UPDATE outbox SET accepted = accepted + 1 WHERE n = (SELECT min(n) FROM outbox)",
	"counts-true": `UPDATE outbox SET waiting = waiting + 1, running = running - 1
		WHERE n = (SELECT min(n) FROM outbox)`,
}
