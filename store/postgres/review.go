package postgres

import (
	"context"
	"slices"
	"strconv"

	"github.com/daybookdev/daybook"
)

// Review counts jobs of a state that slow moves lead to by what the ledger has
// against another attempt: of the ledger it reads only what is open or says that
// the handler's work happened, each by a small index.
func (v *view) Review(_ context.Context, f daybook.Filter) (counts daybook.Reviewed, err error) {
	var p params
	where := conditions(f, &p)
	if f.Key != "" {
		where += " AND j.id = (SELECT k.job FROM daybook.request k WHERE k.key = " + p.add(f.Key) + "::text)"
	}
	where = "j.state <> 0 AND j.state = " + strconv.FormatInt(slowCode(f.State), 10) + " AND " + where
	const against = ` (SELECT seq, name, policy, false AS done FROM daybook.effect WHERE state = 'open' UNION ALL
			SELECT seq, name, policy, true FROM daybook.effect WHERE name = 'handler' AND state = 'done') f
		ON f.seq = j.seq WHERE `
	err = v.reading(v.ask("SELECT f.name, f.policy, f.done, count(*) FROM daybook.job j LEFT JOIN"+against+where+
		" GROUP BY 1, 2, 3", p, func(row []any) error {
		counts.Matched += num(row[3])
		if row[0] != nil {
			counts.Against += num(row[3])
			counts.Effects = append(counts.Effects, daybook.ReviewedEffect{Name: text(row[0]),
				Policy: daybook.Policy(text(row[1])), Done: truth(row[2]), Jobs: num(row[3])})
		}
		return nil
	}))
	if err != nil || len(counts.Effects) < 2 {
		return counts, err
	}
	// A job with two of them was counted twice.
	safe := counts.Matched - counts.Against
	return counts, v.reading(v.ask("SELECT count(DISTINCT j.seq) FROM daybook.job j JOIN"+against+where, p,
		func(row []any) error {
			counts.Against = num(row[0])
			counts.Matched = safe + counts.Against
			return nil
		}))
}

// reading runs statements that may have to read whole tables: most of one may
// match. The two sides of a join meet once, not once a job, and nothing is sorted,
// whatever their statistics say.
func (v *view) reading(list ...statement) error {
	if v.s != nil { // until the transaction ends, which is soon
		list = slices.Concat(settings("plan_cache_mode = force_custom_plan", "jit = off", "enable_nestloop = off",
			"enable_mergejoin = off", "enable_sort = off"), list)
	}
	_, err := v.now(list...)
	return err
}
