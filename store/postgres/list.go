package postgres

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Jobs lists a page. Each state is listed from the table that holds it, in an
// order that table has: see Book.Jobs.
func (v *view) Jobs(_ context.Context, f daybook.Filter) (page daybook.Page[daybook.Job], err error) {
	if f.Reason != "" && f.State == "" {
		f.State = daybook.SetAside
	}
	if f.Held {
		f.State = daybook.Waiting
	}
	v.brief = f.Brief
	defer func() { v.brief = false }()
	numbers := []int{1} // in this list's cursor
	switch f.State {
	case daybook.Waiting:
		numbers = []int{4}
	case daybook.Succeeded:
		numbers = []int{1, 2}
	}
	after, _, err := openCursor(f.Cursor, numbers...)
	switch {
	case err != nil:
		return page, err
	case f.Key != "":
		return v.byKey(f)
	case f.State == "":
		return v.listNewest(f, after)
	case f.State == daybook.Waiting:
		return v.listWaiting(f, after)
	case f.State == daybook.Running:
		return v.listRunning(f, after)
	case f.State == daybook.Succeeded:
		return v.listSucceeded(f, after)
	}
	return v.listSlow(f, slowCode(f.State), after)
}

func (v *view) byKey(f daybook.Filter) (page daybook.Page[daybook.Job], err error) {
	j, found, err := v.whole("j.id = (SELECT k.job FROM daybook.request k WHERE k.key = $1::text)", f.Key)
	if err == nil && found && (f.State == "" || f.State == j.State) && (f.Queue == "" || f.Queue == j.Queue) &&
		(f.Kind == "" || f.Kind == j.Kind) {
		page.Items = []daybook.Job{j}
	}
	return page, err
}

// conditions are the filter's parts that any list of jobs j has.
func conditions(f daybook.Filter, p *params) string {
	all := "true"
	if f.Queue != "" {
		all += " AND j.queue = " + numberOf(f.Queue, p)
	}
	for _, c := range []struct{ column, value string }{
		{"kind", f.Kind}, {"reason", string(f.Reason)}, {"held_by", f.HeldBy}} {
		if c.value != "" {
			all += " AND j." + c.column + " = " + p.add(c.value) + "::text"
		}
	}
	if f.Held {
		all += " AND j.held_by IS NOT NULL"
	}
	return all
}

// numberOf is the number of a queue; that of an unknown one is NULL.
func numberOf(queue string, p *params) string {
	return "(SELECT q.n FROM daybook.queue q WHERE q.name = " + p.add(queue) + "::text)"
}

// listed is a job and its place in the list.
type listed struct {
	daybook.Job
	place []int64
}

// list loads whole jobs. from selects them as j, in order and cut to what a
// page needs, with the columns that order them; those are also the place of a
// row. So the joins hang on few rows, and their order is the order of from.
func (v *view) list(from string, p params, order ...string) (jobs []listed, err error) {
	places := ""
	for _, o := range order {
		column, _, _ := strings.Cut(o, " ")
		places += ", j." + column
	}
	query := "SELECT " + v.wholeColumns() + places + " FROM (" + from + ") j" + wholeJoins +
		" ORDER BY j." + strings.Join(order, ", j.")
	err = v.look(query, p, func(row []any) error {
		j, err := scanWhole(row)
		l := listed{Job: j}
		for _, n := range row[wholeWidth:] {
			l.place = append(l.place, num(n))
		}
		jobs = append(jobs, l)
		return err
	})
	return jobs, err
}

// pageOf cuts a list that was asked for one row too many.
func pageOf(jobs []listed, limit int) (page daybook.Page[daybook.Job]) {
	for i := range min(len(jobs), limit) {
		page.Items = append(page.Items, jobs[i].Job)
	}
	if len(jobs) > limit {
		page.Cursor = closeCursor(jobs[limit-1].place, "")
	}
	return page
}

// byArrival loads a page whose cursor is the job's number, and cuts it. It adds
// the limit to from.
func (v *view) byArrival(f daybook.Filter, from string, p params) (daybook.Page[daybook.Job], error) {
	jobs, err := v.list(from+" LIMIT "+p.add(int64(f.Limit)+1)+"::bigint", p, "seq DESC")
	return pageOf(jobs, f.Limit), err
}

// first is the number that those of a page by arrival stay below.
func first(after []int64) int64 {
	if after == nil {
		return math.MaxInt64
	}
	return after[0]
}

// listNewest pages through all jobs, the newest first, in the order of the
// primary key.
func (v *view) listNewest(f daybook.Filter, after []int64) (daybook.Page[daybook.Job], error) {
	var p params
	return v.byArrival(f, "SELECT j.* FROM daybook.job j WHERE "+conditions(f, &p)+
		" AND j.seq < "+p.add(first(after))+"::bigint ORDER BY j.seq DESC", p)
}

// listSlow pages through a state that job.state tells, the newest first. Its
// order is that of job_slow and of no other index.
func (v *view) listSlow(f daybook.Filter, code int64, after []int64) (daybook.Page[daybook.Job], error) {
	var p params
	state := strconv.FormatInt(code, 10)
	return v.byArrival(f, "SELECT j.* FROM daybook.job j WHERE "+conditions(f, &p)+" AND j.state <> 0 AND j.state >= "+
		state+" AND (j.state, j.seq) < ("+state+", "+p.add(first(after))+"::bigint) ORDER BY j.state DESC, j.seq DESC", p)
}

// listRunning pages through owned, the newest jobs first. It sorts what runs
// now, and looks jobs up by job_id until the page is full.
func (v *view) listRunning(f daybook.Filter, after []int64) (daybook.Page[daybook.Job], error) {
	var p params
	return v.byArrival(f, `SELECT j.* FROM (SELECT o.id, o.seq FROM daybook.owned o
			WHERE o.seq < `+p.add(first(after))+`::bigint ORDER BY o.seq DESC OFFSET 0) o
		CROSS JOIN LATERAL (SELECT j.* FROM daybook.job j WHERE j.id = o.id AND `+conditions(f, &p)+` OFFSET 0) j
		ORDER BY o.seq DESC`, p)
}

// listWaiting pages in the order in which jobs would run: by queue, then
// priority, then when they became eligible. Held jobs come before all others,
// since they will not run.
func (v *view) listWaiting(f daybook.Filter, after []int64) (daybook.Page[daybook.Job], error) {
	held := f.Held || f.HeldBy != ""
	lanes := []string{"true"}
	switch {
	case f.Queue == "" && held:
		lanes = []string{"r.lane < 0"}
	case f.Queue != "" && held:
		lanes = []string{"r.lane = -"}
	case f.Queue != "" && after != nil && after[0] > 0:
		lanes = []string{"r.lane = "}
	case f.Queue != "":
		lanes = []string{"r.lane = -", "r.lane = "} // one after the other, each in the order of its index
	}
	var jobs []listed
	for _, lane := range lanes {
		if len(jobs) > f.Limit {
			break
		}
		more, err := v.waitingIn(f, after, lane)
		if err != nil {
			return daybook.Page[daybook.Job]{}, err
		}
		jobs = append(jobs, more...)
	}
	return pageOf(jobs, f.Limit), nil
}

// waitingIn reads ready in the order of its primary key. A condition on the
// lane that ends open wants the queue's number.
func (v *view) waitingIn(f daybook.Filter, after []int64, lane string) ([]listed, error) {
	var p params
	ready := lane
	if f.Queue != "" {
		ready += numberOf(f.Queue, &p)
	}
	if f.Kind != "" {
		ready += " AND r.kind = " + p.add(f.Kind) + "::text"
	}
	if after != nil {
		ready += " AND (r.lane, r.rank, r.run_at, r.seq) > (" + p.add(after[0]) + "::int, " + p.add(after[1]) +
			"::smallint, " + p.add(after[2]) + "::bigint, " + p.add(after[3]) + "::bigint)"
	}
	const order = "r.lane, r.rank, r.run_at, r.seq"
	from := `SELECT j.*, r.lane AS ready_lane, r.rank AS ready_rank, r.run_at AS ready_at FROM daybook.ready r
		CROSS JOIN LATERAL (SELECT j.* FROM daybook.job j WHERE j.seq = r.seq AND ` + conditions(f, &p) + ` OFFSET 0) j
		WHERE ` + ready + ` ORDER BY ` + order + ` LIMIT ` + p.add(int64(f.Limit)+1) + `::bigint`
	return v.list(from, p, "ready_lane", "ready_rank", "ready_at", "seq")
}

// listSucceeded pages by when jobs ended, the latest first. The few that a
// person settled as succeeded have no attempt that says so and come last.
func (v *view) listSucceeded(f daybook.Filter, after []int64) (page daybook.Page[daybook.Job], err error) {
	settled := slowCode(daybook.Succeeded)
	if len(after) == 1 {
		return v.listSlow(f, settled, after)
	}
	jobs, err := v.completed(f, after)
	page = pageOf(jobs, f.Limit)
	if err != nil || page.Cursor != "" {
		return page, err
	}
	rest := f
	rest.Limit = max(1, f.Limit-len(page.Items))
	more, err := v.listSlow(rest, settled, nil)
	if len(page.Items) == f.Limit { // a full page, and perhaps the settled ones behind it
		if len(more.Items) > 0 {
			page.Cursor = closeCursor([]int64{math.MaxInt64}, "")
		}
		return page, err
	}
	page.Items, page.Cursor = append(page.Items, more.Items...), more.Cursor
	return page, err
}

// The windows in which the history is read, from now back: the first is short,
// since a busy book has its page there, and each is longer than the one before.
const (
	windowFirst  = int64(time.Second / time.Microsecond)
	windowGrowth = 8
)

// completed loads a page of successes by when they were filed, which is when
// the job ended. No index has that order, on purpose: every completion would
// pay for it. A window of time is read from the partitions that it meets, by
// their ended_filed, and sorted.
func (v *view) completed(f daybook.Filter, after []int64) (jobs []listed, err error) {
	top, low := int64(math.MaxInt64), int64(0)
	if after != nil {
		top, low = after[0], after[0]
	} else if low = int64(v.Now()); v.bad != nil {
		return nil, v.bad
	}
	for length := windowFirst; err == nil && len(jobs) <= f.Limit && top > 0; length *= windowGrowth {
		low = max(low-length, 0)
		var more []listed
		more, err = v.completedIn(f, low, top, after, f.Limit+1-len(jobs))
		jobs, top = append(jobs, more...), low
	}
	return jobs, err
}

// completedIn loads what was filed after low and not after top.
func (v *view) completedIn(f daybook.Filter, low, top int64, after []int64, limit int) ([]listed, error) {
	var p params
	window := "e.outcome = 1 AND e.filed_at > " + p.add(low) + "::bigint AND e.filed_at <= " + p.add(top) + "::bigint"
	if after != nil {
		window += " AND (e.filed_at, e.seq) < (" + p.add(after[0]) + "::bigint, " + p.add(after[1]) + "::bigint)"
	}
	from := `SELECT j.*, d.filed_at AS listed_at FROM (SELECT e.seq, e.filed_at FROM daybook.ended e
			WHERE ` + window + ` ORDER BY e.filed_at DESC, e.seq DESC OFFSET 0) d
		CROSS JOIN LATERAL (SELECT j.* FROM daybook.job j WHERE j.seq = d.seq AND ` + conditions(f, &p) + ` OFFSET 0) j
		ORDER BY d.filed_at DESC, d.seq DESC LIMIT ` + p.add(int64(limit)) + `::bigint`
	return v.list(from, p, "listed_at DESC", "seq DESC")
}
