package postgres

import (
	"context"

	"github.com/daybookdev/daybook"
)

// completeJobs answers the time and which of the jobs are missing.
const completeJobs = `SELECT now_at, missing FROM daybook.complete_jobs($1::uuid, $2::uuid[], $3::bigint[],
	$4::text[], true, $5::bigint)`

// Complete moves a session's successes from owned to ended as one set, and
// leaves those that are not plain.
func (t *tx) Complete(_ context.Context, session daybook.ID, successes []daybook.Outcome) (left []int, err error) {
	if len(successes) == 0 {
		return nil, nil
	}
	ids, generations := make([]daybook.ID, len(successes)), make([]int64, len(successes))
	for i := range successes {
		ids[i], generations[i] = successes[i].Job, successes[i].Owner.Generation
	}
	err = t.rows(completeJobs, []any{session.String(), idList(ids), generations, resultsOf(successes), t.nowOrNull()},
		func(row []any) error {
			if t.at == 0 {
				t.at = at(row[0])
			}
			missing, _ := row[1].([]any)
			for _, n := range missing {
				left = append(left, int(num(n))-1)
			}
			return nil
		})
	return left, err
}

// resultsOf are the results, nil when there are none.
func resultsOf(successes []daybook.Outcome) any {
	var list []*string
	for i := range successes {
		if len(successes[i].Result) == 0 {
			continue // most handlers have none
		}
		if list == nil {
			list = make([]*string, len(successes))
		}
		result := string(successes[i].Result)
		list[i] = &result
	}
	if list == nil {
		return nil
	}
	return list
}
