package sqlite

import (
	"context"
	"database/sql/driver"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// Review counts jobs of a state that slow moves lead to by what the ledger has
// against another attempt: of the ledger it reads only what is open or says that
// the handler's work happened, each by a small index.
func (v *view) Review(_ context.Context, f daybook.Filter) (counts daybook.Reviewed, err error) {
	where, args, err := v.conditions(f)
	if err != nil {
		return counts, err
	}
	where = append(where, "j.state <> 0", "j.state = "+strconv.FormatInt(slowCode(f.State), 10))
	if f.Key != "" {
		where, args = append(where, "j.key = ?"), append(args, f.Key)
	}
	of := "WHERE " + strings.Join(where, " AND ")
	n, err := one(v.q, "SELECT count(*) FROM job j "+of, args...)
	if err != nil {
		return counts, err
	}
	counts.Matched = num(n)
	against := `FROM (SELECT seq, name, policy, 0 AS done FROM effect INDEXED BY effect_open WHERE state = 'open' UNION ALL
		SELECT seq, name, policy, 1 FROM effect INDEXED BY effect_happened WHERE name = 'handler' AND state = 'done') f
		CROSS JOIN job j ON j.seq = f.seq ` + of
	if n, err = one(v.q, "SELECT count(DISTINCT f.seq) "+against, args...); err != nil {
		return counts, err
	}
	counts.Against = num(n)
	err = v.q.rows("SELECT f.name, f.policy, f.done, count(DISTINCT f.seq) "+against+" GROUP BY 1, 2, 3", args,
		func(row []driver.Value) error {
			counts.Effects = append(counts.Effects, daybook.ReviewedEffect{Name: text(row[0]),
				Policy: daybook.Policy(text(row[1])), Done: num(row[2]) != 0, Jobs: num(row[3])})
			return nil
		})
	return counts, err
}
