package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

const wholeJob = "SELECT " + jobColumns + ", " + ownedColumns + `, j.args, j.result
	FROM job j LEFT JOIN owned o ON o.seq = j.seq `

// Job loads one job with all that people see.
func (v *view) Job(_ context.Context, id daybook.ID) (daybook.Job, bool, error) {
	jobs, err := v.whole(wholeJob+"WHERE j.id = ?", blob(id))
	if err != nil || len(jobs) == 0 {
		return daybook.Job{}, false, err
	}
	return jobs[0], true, nil
}

// whole scans wholeJob and what hangs on each job.
func (v *view) whole(query string, args ...driver.Value) (jobs []daybook.Job, err error) {
	if v.brief {
		query = strings.Replace(query, ", j.args, j.result", ", NULL, NULL", 1)
	}
	err = v.q.rows(query, args, func(row []driver.Value) error {
		j, err := v.scanJob(row)
		if err == nil {
			err = v.scanOwned(&j, row[jobWidth:])
		}
		j.Args, j.Result = raw(row[jobWidth+6]), raw(row[jobWidth+7])
		jobs = append(jobs, j)
		return err
	})
	for i := range jobs {
		if err == nil {
			err = v.dress(&jobs[i])
		}
	}
	return jobs, err
}

// dress adds result, progress and the last error; in a brief list only that.
func (v *view) dress(j *daybook.Job) error {
	if err := v.complete(j); err != nil {
		return err
	}
	if v.brief {
		return v.addError(j)
	}
	if j.State == daybook.Succeeded && j.Result == nil {
		result, err := one(v.q, "SELECT result FROM ended WHERE seq = ? AND outcome = 1", j.Ref)
		if err != nil {
			return err
		}
		j.Result = raw(result)
	}
	progress, err := one(v.q, "SELECT progress FROM progress WHERE seq = ?", j.Ref)
	if err != nil {
		return err
	}
	j.Progress = raw(progress)
	return v.addError(j)
}

func (v *view) addError(j *daybook.Job) error {
	return v.q.rows(`SELECT error, error_kind, trace, cut FROM ended WHERE seq = ? AND error IS NOT NULL
		ORDER BY generation DESC LIMIT 1`, []driver.Value{j.Ref}, func(row []driver.Value) error {
		j.LastError = scanProblem(row)
		return nil
	})
}

func scanProblem(row []driver.Value) *daybook.Problem {
	if row[0] == nil {
		return nil
	}
	return &daybook.Problem{Text: text(row[0]), Kind: text(row[1]), Trace: text(row[2]), Cut: num(row[3]) != 0}
}

// Jobs lists a page. Each state is listed from the table that holds it, in an
// order that table has: see Book.Jobs.
func (v *view) Jobs(ctx context.Context, f daybook.Filter) (daybook.Page[daybook.Job], error) {
	after, err := openCursor(f.Cursor)
	if err != nil {
		return daybook.Page[daybook.Job]{}, err
	}
	v.brief = f.Brief
	defer func() { v.brief = false }()
	if f.Reason != "" && f.State == "" {
		f.State = daybook.SetAside
	}
	switch {
	case f.Key != "":
		return v.byKey(ctx, f)
	case f.State == daybook.Waiting || f.Held:
		return v.listWaiting(f, after)
	case f.State == daybook.Running:
		return v.list(f, "JOIN owned w ON w.seq = j.seq", "1", after)
	case f.State == daybook.Succeeded:
		return v.listSucceeded(f, after)
	case f.State != "":
		return v.list(f, "", "j.state = "+strconv.FormatInt(slowCode(f.State), 10), after)
	}
	return v.list(f, "", "1", after)
}

func (v *view) byKey(ctx context.Context, f daybook.Filter) (page daybook.Page[daybook.Job], err error) {
	record, found, err := v.key(f.Key)
	if err != nil || !found {
		return page, err
	}
	j, found, err := v.Job(ctx, record.Job)
	if err == nil && found && (f.State == "" || f.State == j.State) && (f.Queue == "" || f.Queue == j.Queue) &&
		(f.Kind == "" || f.Kind == j.Kind) {
		page.Items = []daybook.Job{j}
	}
	return page, err
}

// conditions are the filter's parts that any table's list has.
func (v *view) conditions(f daybook.Filter) (where []string, args []driver.Value, err error) {
	if f.Queue != "" {
		n, err := v.queueNumber(f.Queue)
		if err != nil {
			return nil, nil, err
		}
		where, args = append(where, "j.queue = ?"), append(args, n)
	}
	for _, c := range []struct{ column, value string }{{"j.kind", f.Kind}, {"j.reason", string(f.Reason)}, {"j.held_by", f.HeldBy}} {
		if c.value != "" {
			where, args = append(where, c.column+" = ?"), append(args, c.value)
		}
	}
	if f.Held {
		where = append(where, "j.held_by IS NOT NULL")
	}
	return where, args, nil
}

// list pages newest first.
func (v *view) list(f daybook.Filter, join, base string, after []int64) (daybook.Page[daybook.Job], error) {
	where, args, err := v.conditions(f)
	if err != nil {
		return daybook.Page[daybook.Job]{}, err
	}
	if len(after) == 1 {
		where, args = append(where, "j.seq < ?"), append(args, after[0])
	}
	where = append(where, base)
	jobs, err := v.whole(wholeJob+join+" WHERE "+strings.Join(where, " AND ")+" ORDER BY j.seq DESC LIMIT ?",
		append(args, int64(f.Limit)+1)...)
	return pageOf(jobs, f.Limit, func(j daybook.Job) []int64 { return []int64{j.Ref} }), err
}

// listWaiting pages in the order in which jobs would run: by queue, then
// priority, then when they became eligible. Held jobs come before a queue's
// others, since they will not run.
func (v *view) listWaiting(f daybook.Filter, after []int64) (page daybook.Page[daybook.Job], err error) {
	where, args, err := v.conditions(f)
	if err != nil {
		return page, err
	}
	where = append(where, "1")
	if len(after) == 4 {
		where = append(where, "(r.lane, r.rank, r.run_at, r.seq) > (?, ?, ?, ?)")
		for _, n := range after {
			args = append(args, n)
		}
	}
	if f.Queue != "" {
		n, err := v.queueNumber(f.Queue)
		if err != nil {
			return page, err
		}
		where, args = append(where, "r.lane IN (?, ?)"), append(args, n, -n)
	}
	query := strings.Replace(wholeJob, "FROM job j", "FROM ready r CROSS JOIN job j ON j.seq = r.seq", 1)
	jobs, err := v.whole(query+" WHERE "+strings.Join(where, " AND ")+
		" ORDER BY r.lane, r.rank, r.run_at, r.seq LIMIT ?", append(args, int64(f.Limit)+1)...)
	if err != nil {
		return page, err
	}
	lanes := make([]int64, len(jobs))
	for i, j := range jobs {
		key, err := v.readyKey(&j)
		if err != nil {
			return page, err
		}
		lanes[i] = num(key[0])
	}
	i := -1
	return pageOf(jobs, f.Limit, func(j daybook.Job) []int64 {
		for i = range jobs {
			if jobs[i].Ref == j.Ref {
				break
			}
		}
		return []int64{lanes[i], rank(j.Priority), int64(j.RunAt), j.Ref}
	}), nil
}

// listSucceeded pages by when jobs ended, the latest first. The few that a
// person settled as succeeded have no attempt that says so and come last.
func (v *view) listSucceeded(f daybook.Filter, after []int64) (page daybook.Page[daybook.Job], err error) {
	settled := "j.state = " + strconv.FormatInt(slowCode(daybook.Succeeded), 10)
	if len(after) == 1 {
		return v.list(f, "", settled, after)
	}
	where, args, err := v.conditions(f)
	if err != nil {
		return page, err
	}
	where = append(where, "d.outcome = 1")
	if len(after) == 2 {
		where, args = append(where, "(d.ended_at, d.seq) < (?, ?)"), append(args, after[0], after[1])
	}
	query := strings.Replace(wholeJob, "FROM job j", "FROM ended d INDEXED BY ended_success CROSS JOIN job j ON j.seq = d.seq", 1)
	jobs, err := v.whole(query+" WHERE "+strings.Join(where, " AND ")+" ORDER BY d.ended_at DESC, d.seq DESC LIMIT ?",
		append(args, int64(f.Limit)+1)...)
	if err != nil {
		return page, err
	}
	page = pageOf(jobs, f.Limit, func(j daybook.Job) []int64 { return []int64{int64(j.EndedAt), j.Ref} })
	if page.Cursor != "" {
		return page, nil
	}
	rest := f
	if rest.Limit -= len(page.Items); rest.Limit == 0 { // a full page, and perhaps the settled ones behind it
		rest.Limit = 1
		more, err := v.list(rest, "", settled, nil)
		if len(more.Items) > 0 {
			page.Cursor = closeCursor([]int64{math.MaxInt64})
		}
		return page, err
	}
	more, err := v.list(rest, "", settled, nil)
	page.Items, page.Cursor = append(page.Items, more.Items...), more.Cursor
	return page, err
}

// pageOf cuts a list that was asked for one row too many.
func pageOf[T any](items []T, limit int, key func(T) []int64) daybook.Page[T] {
	page := daybook.Page[T]{Items: items}
	if len(items) > limit {
		page.Items = items[:limit]
		page.Cursor = closeCursor(key(items[limit-1]))
	}
	return page
}

// A cursor is the place of the last row of a page. It is opaque to callers.

func closeCursor(key []int64) string {
	parts := make([]string, len(key))
	for i, n := range key {
		parts[i] = strconv.FormatInt(n, 36)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, ".")))
}

func openCursor(cursor string) ([]int64, error) {
	if cursor == "" {
		return nil, nil
	}
	bad := daybook.Invalid("cursor", "is not one that a list gave")
	doc, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(doc) > 128 {
		return nil, bad
	}
	var key []int64
	for part := range strings.SplitSeq(string(doc), ".") {
		n, err := strconv.ParseInt(part, 36, 64)
		if err != nil {
			return nil, bad
		}
		key = append(key, n)
	}
	return key, nil
}

// Setting reads a value of the book itself.
func (v *view) Setting(_ context.Context, name string) (string, error) {
	value, err := one(v.q, "SELECT value FROM setting WHERE name = ?", name)
	return text(value), err
}

// SaveSetting writes a value where it is still was.
func (t *tx) SaveSetting(_ context.Context, name, was, value string) (bool, error) {
	var n int64
	var err error
	if value == "" {
		n, err = t.q.exec("DELETE FROM setting WHERE name = ? AND value = ?", name, was)
	} else if was == "" {
		n, err = t.q.exec("INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", name, value)
	} else {
		n, err = t.q.exec("UPDATE setting SET value = ? WHERE name = ? AND value = ?", value, name, was)
	}
	if err != nil {
		return false, fmt.Errorf("setting %s: %w", name, err)
	}
	return n == 1, nil
}
