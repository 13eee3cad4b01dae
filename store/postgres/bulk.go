package postgres

import (
	"github.com/daybookdev/daybook"
)

// chunk is how many jobs one statement inserts.
const chunk = 1000

// insert writes new jobs with the next round trip, in order.
func (t *tx) insert(jobs []daybook.NewJob) error {
	for len(jobs) > 0 {
		n := min(chunk, len(jobs))
		t.insertChunk(jobs[:n])
		jobs = jobs[n:]
	}
	return nil
}

const insertJobs = `SELECT daybook.insert_jobs($1::bigint, $2::text[], $3::int[], $4::text[]::uuid[], $5::text[], $6::text[],
	$7::int[], $8::bigint[], $9::bigint[], $10::bigint[], $11::int[], $12::boolean[], $13::bigint[], $14::text[])`

func (t *tx) insertChunk(jobs []daybook.NewJob) {
	queues, which := queuesOf(jobs)
	ids, kinds, args := make([]string, len(jobs)), make([]string, len(jobs)), make([]string, len(jobs))
	for i := range jobs {
		j := &jobs[i].Job
		ids[i], kinds[i], args[i] = j.ID.String(), j.Kind, string(j.Args)
	}
	t.later(anyCount, "", insertJobs, t.nowOrNull(), queues, which, ids, kinds, args,
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return rank(n.Job.Priority), n.Job.Priority != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return int64(n.Job.RunAt), n.Job.RunAt != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return n.In.Microseconds(), n.In > 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return int64(n.Job.ExpiresAt), n.Job.ExpiresAt != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) {
			return int64(n.Job.MaxFailures), n.Job.MaxFailures != daybook.MaxFailuresDefault
		}), asideOf(jobs),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) {
			return n.Job.Timeout.Microseconds(), n.Job.Timeout != daybook.TimeoutDefault
		}), keysOf(jobs))
}

// queuesOf are the names of the jobs' queues and, unless there is only one,
// which of them is each job's, counted from 1.
func queuesOf(jobs []daybook.NewJob) (names []string, which any) {
	places := map[string]int64{}
	list := make([]int64, len(jobs))
	for i := range jobs {
		name := jobs[i].Job.Queue
		if i > 0 && name == jobs[i-1].Job.Queue {
			list[i] = list[i-1]
			continue
		}
		place, known := places[name]
		if !known {
			names = append(names, name)
			place = int64(len(names))
			places[name] = place
		}
		list[i] = place
	}
	if len(names) == 1 {
		return names, nil
	}
	return names, list
}

// numbers are a column of the jobs, NULL where it is the default, and nil when
// it is that for all of them.
func numbers(jobs []daybook.NewJob, of func(*daybook.NewJob) (n int64, given bool)) any {
	var list []*int64
	for i := range jobs {
		n, given := of(&jobs[i])
		if !given {
			continue
		}
		if list == nil {
			list = make([]*int64, len(jobs))
		}
		list[i] = &n
	}
	if list == nil {
		return nil
	}
	return list
}

func asideOf(jobs []daybook.NewJob) any {
	var list []bool
	for i := range jobs {
		if jobs[i].Job.OnLost != daybook.LostSetAside {
			continue
		}
		if list == nil {
			list = make([]bool, len(jobs))
		}
		list[i] = true
	}
	if list == nil {
		return nil
	}
	return list
}

func keysOf(jobs []daybook.NewJob) any {
	var list []*string
	for i := range jobs {
		if jobs[i].Job.Key == "" {
			continue
		}
		if list == nil {
			list = make([]*string, len(jobs))
		}
		list[i] = &jobs[i].Job.Key
	}
	if list == nil {
		return nil
	}
	return list
}
