package postgres

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// wholeColumns are a job as people see it: jobColumns, and behind them what
// only they look at, which a brief list spares the large part of. wholeJoins are
// their tables. Who has an error has made a slow move, so that the many that
// never did spare the look for one.
func (v *view) wholeColumns() string {
	if v.brief {
		return jobColumns + `, NULL, NULL, NULL, x.error, x.error_kind, x.trace, x.cut`
	}
	return jobColumns + `, j.args, coalesce(d.result, j.result), p.progress, x.error, x.error_kind, x.trace, x.cut`
}

const (
	wholeWidth = jobWidth + 7
	wholeJoins = jobJoins + ` LEFT JOIN daybook.progress p ON p.seq = j.seq
		LEFT JOIN LATERAL (SELECT e.error, e.error_kind, e.trace, e.cut FROM daybook.ended e
			WHERE e.seq = j.seq AND e.error IS NOT NULL AND j.generation IS NOT NULL
			ORDER BY e.generation DESC LIMIT 1) x ON true`
)

// scanWhole reads wholeColumns.
func scanWhole(row []any) (daybook.Job, error) {
	j, err := scanJob(row)
	rest := row[jobWidth:]
	j.Args, j.Result, j.Progress = raw(rest[0]), raw(rest[1]), raw(rest[2])
	j.LastError = scanProblem(rest[3:7])
	return j, err
}

func scanProblem(row []any) *daybook.Problem {
	if row[0] == nil {
		return nil
	}
	return &daybook.Problem{Text: text(row[0]), Kind: text(row[1]), Trace: text(row[2]), Cut: truth(row[3])}
}

// ask makes a statement of a query.
func (v *view) ask(query string, args []any, scan func(row []any) error) statement {
	return statement{query: v.schema.in(query), args: args, scan: scan, want: anyCount}
}

// Most reads want few rows of a large table, by an index that is there for them.
// The planner may not know that the table is large: its statistics are old, or
// it planned when the table was empty and kept the plan. So reads are planned
// anew, with indexes preferred, and compiling them would take longer than they do.
var byIndex = []string{"plan_cache_mode = force_custom_plan", "enable_seqscan = off", "jit = off"}

// inOrder is byIndex where the index has the order that is asked for: a bitmap of
// it would be sorted anew for each few rows.
var inOrder = append(slices.Clip(byIndex), "enable_bitmapscan = off")

// settings makes settings of the transaction, all in one statement.
func settings(list ...string) []statement {
	calls := make([]string, len(list))
	for i, s := range list {
		name, value, _ := strings.Cut(s, " = ")
		if value = "'" + value + "'"; value == "'DEFAULT'" {
			value = "NULL"
		}
		calls[i] = "set_config('" + name + "', " + value + ", true)"
	}
	return []statement{{query: "SELECT " + strings.Join(calls, ", "), want: anyCount}}
}

// planned runs statements in one round trip under byIndex.
func (v *view) planned(list ...statement) error { return v.under(byIndex, list...) }

// under runs statements in one round trip under settings that end with them.
// Somebody else's transaction keeps its own.
func (v *view) under(set []string, list ...statement) error {
	if v.s != nil {
		reset := make([]string, len(set))
		for i, s := range set {
			name, _, _ := strings.Cut(s, " = ")
			reset[i] = name + " = DEFAULT"
		}
		list = slices.Concat(settings(set...), list, settings(reset...))
	}
	_, err := v.now(list...)
	return err
}

// look runs one query by planned.
func (v *view) look(query string, args []any, scan func(row []any) error) error {
	return v.planned(v.ask(query, args, scan))
}

// Job loads one job with all that people see.
func (v *view) Job(_ context.Context, id daybook.ID) (daybook.Job, bool, error) {
	return v.whole("j.id = $1::text::uuid", id.String())
}

// whole loads the one job for which a condition on j holds.
func (v *view) whole(where string, args ...any) (j daybook.Job, found bool, err error) {
	query := "SELECT " + v.wholeColumns() + " FROM daybook.job j" + wholeJoins + " WHERE " + where
	err = v.look(query, args, func(row []any) (err error) {
		found = true
		j, err = scanWhole(row)
		return err
	})
	return j, found, err
}

// Key loads a request key's record, by its primary key.
func (v *view) Key(_ context.Context, key string) (k daybook.KeyRecord, found bool, err error) {
	err = v.look(readKey, []any{key}, scanKey(&k, &found))
	return k, found, err
}

// The fingerprint travels as text, which every driver reads the same way.
const readKey = `SELECT k.key, k.job, encode(k.fingerprint, 'hex'), k.created_at, k.replays, k.last_replay_at,
	k.ended_at, k.state, k.result FROM daybook.request k WHERE k.key = $1::text`

// scanKey reads readKey.
func scanKey(k *daybook.KeyRecord, found *bool) func(row []any) error {
	return func(row []any) error {
		*found = true
		*k = daybook.KeyRecord{Key: text(row[0]), Job: id(row[1]), CreatedAt: at(row[3]), Replays: num(row[4]),
			LastReplayAt: at(row[5]), EndedAt: at(row[6]), State: daybook.State(text(row[7])), Result: raw(row[8])}
		fingerprint, err := hex.DecodeString(text(row[2]))
		copy(k.Fingerprint[:], fingerprint)
		return err
	}
}

// params are the parameters of a statement while its text is put together.
type params []any

// add takes a value and names it.
func (p *params) add(value any) string {
	*p = append(*p, value)
	return "$" + strconv.Itoa(len(*p))
}
