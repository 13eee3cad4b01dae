package sqlite

const attempt = "INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at) "

// everyWay has the ways in which a row can be against an invariant, beside
// those that Break knows.
var everyWay = []struct {
	invariant, what, sql string
	fullOnly             bool
}{
	{"one-place", "nowhere", "DELETE FROM ready WHERE seq = {waiting}", true},
	{"one-place", "owned and gone", "DELETE FROM job WHERE seq = {running}", false},
	{"one-place", "set aside and owned", "UPDATE job SET state = 4 WHERE seq = {running}", false},
	{"one-place", "ended and waiting", "UPDATE job SET state = 5 WHERE seq = {waiting}", false},
	{"one-place", "succeeded twice over", "UPDATE job SET state = 3 WHERE seq = {done}", false},
	{"place-agrees", "waits at another priority",
		"UPDATE ready SET rank = rank + 1 WHERE seq = {waiting}", false},
	{"place-agrees", "waits for another time",
		"UPDATE ready SET run_at = run_at + 1 WHERE seq = {waiting}", false},
	{"place-agrees", "waits in another lane",
		"UPDATE ready SET lane = -lane WHERE seq = {waiting}", false},
	{"place-agrees", "waits with another expiry",
		"UPDATE ready SET expires_at = 1 WHERE seq = {waiting}", false},
	{"place-agrees", "waits and gone", "DELETE FROM job WHERE seq = {waiting}", false},
	{"place-agrees", "runs in another queue",
		"UPDATE owned SET queue = queue + 1 WHERE seq = {running}", false},
	{"place-agrees", "runs with another limit",
		"UPDATE owned SET deadline = deadline + 1 WHERE seq = {running}", false},
	{"place-agrees", "runs as a suspect", "UPDATE owned SET suspect = 1 WHERE seq = {running}", false},
	{"known-state", "a code of no state", "UPDATE job SET state = 2 WHERE seq = {aside}", false},
	{"known-state", "a negative code", "UPDATE job SET state = -1 WHERE seq = {aside}", false},
	{"known-state", "a code of no outcome", "UPDATE ended SET outcome = 9 WHERE seq = {aside}", false},
	{"one-outcome", "two rows for one generation",
		"UPDATE ended SET through = 2 WHERE seq = {aside};\n" + attempt +
			"SELECT seq, 2, 2, session, 2, claimed_at, ended_at FROM ended WHERE seq = {aside}", false},
	{"final-stays", "runs after success",
		attempt + `SELECT seq, 1, 1, session, 1, claimed_at, claimed_at FROM owned
		WHERE seq = {running}`, false},
	{"final-stays", "waits after a cancelled attempt",
		`UPDATE ended SET outcome = 5 WHERE seq = {snoozed}`, false},
	{"final-stays", "runs after a cancelled attempt",
		attempt + `SELECT seq, 0, 0, session, 5, claimed_at, claimed_at
		FROM owned WHERE seq = {running}`, false},
	{"final-stays", "runs after it was cancelled",
		`INSERT INTO event (seq, at, what) VALUES ({running}, {now}, 'cancelled')`, false},
	{"final-stays", "waits after it was cancelled",
		`INSERT INTO event (seq, at, what) VALUES ({waiting}, {now}, 'cancelled')`, false},
	{"final-stays", "waits after it expired",
		`INSERT INTO event (seq, at, what) VALUES ({waiting}, {now}, 'expired')`, false},
	{"final-stays", "waits after it moved out",
		`INSERT INTO event (seq, at, what) VALUES ({waiting}, {now}, 'moved out')`, false},
	{"generation-history", "a generation without history",
		"UPDATE owned SET generation = generation + 1 WHERE seq = {running}", false},
	{"generation-history", "a generation that fell",
		"UPDATE owned SET generation = 0 WHERE seq = {running}", false},
	{"generation-history", "history without a generation", "DELETE FROM ended WHERE seq = {aside}", false},
	{"generation-history", "a gap",
		"UPDATE ended SET generation = 3, through = 3 WHERE seq = {done}", false},
	{"generation-history", "a row for too many", "UPDATE ended SET through = 5 WHERE seq = {done}", false},
	{"generation-history", "a folded row that lies",
		"UPDATE ended SET first = 1, count = 7 WHERE seq = {done}", false},
	{"running-session", "a session swept away", "DELETE FROM session WHERE n = {its session}", false},
	{"lost-revoked", "marked and never ended", `{passed};
UPDATE session SET expires_at = {now} - 2 * {hour}, marked_at = {now} - {hour}
	WHERE n = {its session}`, false},
	{"lost-revoked", "never marked",
		"{passed};\nUPDATE session SET expires_at = {now} - 2 * {hour} WHERE n = {its session}", false},
	{"failures-limit", "too many crashes", "UPDATE job SET crashes = 5 WHERE seq = {waiting}", false},
	{"claim-after-end", "an attempt that ended since", `UPDATE session SET ended_at = {now} - {hour}
		WHERE n = (SELECT session FROM ended WHERE seq = {done})`, false},
	{"success-effects", "of a settled success",
		`{effect} SELECT seq, 'charge', 'ask', 'k', run_at, 'open', 1, 0 FROM job WHERE seq = {aside};
UPDATE job SET state = 3 WHERE seq = {aside}`, false},
	{"paused-claim", "an attempt that ended since", `UPDATE queue SET paused_at = {now} - {hour}
		WHERE n = (SELECT queue FROM job WHERE seq = {done})`, false},
	{"aside-reason", "a reason to no purpose",
		"UPDATE job SET reason = 'lost' WHERE seq = {waiting}", false},
	{"cancel-kept", "waits",
		"INSERT INTO event (seq, at, what, generation) VALUES ({waiting}, {now}, 'cancel asked', 1)", false},
	{"expired-claim", "runs after it expired",
		"INSERT INTO event (seq, at, what) VALUES ({running}, {now}, 'expired')", false},
	{"expired-claim", "an attempt that ended since",
		"UPDATE job SET expires_at = 5 WHERE seq = {done}", false},
	{"moved-still", "runs after it moved",
		"INSERT INTO event (seq, at, what) VALUES ({running}, {now}, 'moved out')", false},
	{"size-limit", "result", "UPDATE ended SET result = hex(zeroblob(600000)) WHERE seq = {done}", false},
	{"size-limit", "settled result",
		"UPDATE job SET result = hex(zeroblob(600000)) WHERE seq = {aside}", false},
	{"size-limit", "error", "UPDATE ended SET error = hex(zeroblob(9000)) WHERE seq = {aside}", false},
	{"size-limit", "trace", "UPDATE ended SET trace = hex(zeroblob(9000)) WHERE seq = {aside}", false},
	{"size-limit", "progress", "INSERT INTO progress VALUES ({running}, 1, hex(zeroblob(3000)))", false},
	{"args-json", "not text", "UPDATE job SET args = '' WHERE seq = {waiting}", false},
	{"args-json", "two documents", "UPDATE job SET args = '{} {}' WHERE seq = {waiting}", false},
	{"rows-with-job", "attempts", "DELETE FROM job WHERE seq = {done}", true},
	{"key-fingerprint", "other args", `UPDATE job SET args = '{"other":1}' WHERE seq = {keyed}`, false},
	{"key-end", "an end without a state",
		`INSERT INTO request (key, job, fingerprint, created_at, ended_at)
		VALUES ('gone', randomblob(16), zeroblob(32), {now}, {now})`, false},
	{"ring-queue", "a queue gone",
		"DELETE FROM queue WHERE n = (SELECT queue FROM job WHERE seq = {keyed})", false},
	{"counts-true", "one that waits too few", "DELETE FROM ready WHERE seq = {waiting}", false},
	{"counts-true", "one that runs too many",
		`INSERT INTO owned (seq, generation, session, queue, claimed_at, deadline, granted)
		SELECT seq + 1000, generation, session, queue, claimed_at, deadline, granted FROM owned
		WHERE seq = {running}`, false},
	{"counts-true", "more successes than were counted",
		`UPDATE outbox SET succeeded = succeeded - 1, running = running + 1
		WHERE succeeded > 0 AND queue = (SELECT queue FROM job WHERE seq = {done});
UPDATE outbox SET running = running - 1, waiting = waiting + 1 WHERE n = (SELECT min(n) FROM outbox
	WHERE queue = (SELECT queue FROM job WHERE seq = {done}))`, false},
}
