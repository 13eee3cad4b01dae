package rq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

const bodies = 250 // hashes read at once

// line is a job's place in a list.
type line struct {
	id, from string
	score    float64
}

// scan is one reading.
type scan struct {
	s     *Source
	at    daybook.Time // that leases and due times are judged by
	visit func(daybook.OldJob) error
	lines []line
	out   cutover.Scan
	gone  int
}

// Scan reads the queue at one instant; see cutover.Source.
func (s *Source) Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (cutover.Scan, error) {
	froms := []string{fromQueue}
	for _, set := range sets {
		froms = append(froms, set.from)
	}
	out, err := s.scan(ctx, asOf, froms, visit)
	if err != nil {
		return cutover.Scan{}, err
	}
	out.Notes = append(out.Notes, "a job is in no list from when a worker takes it until the worker has noted that; one "+
		"whose worker died then stays in its hash alone, and isn't seen",
		"a worker's death doesn't end the process that runs its job: a job whose owner is lost may yet end well",
		"RQ doesn't count attempts; jobs that failed before count one")
	risks, err := s.store.Risks(ctx)
	out.Notes = append(out.Notes, risks...)
	return out, err
}

func (s *Source) scan(ctx context.Context, asOf daybook.Time, froms []string, visit func(daybook.OldJob) error) (
	cutover.Scan, error) {
	sc := &scan{s: s, at: asOf, visit: visit}
	if asOf == 0 {
		now, err := s.store.Now(ctx)
		if err != nil {
			return sc.out, err
		}
		sc.at = now
	}
	parts := make([]oldredis.Part, len(froms))
	for i, from := range froms {
		parts[i] = oldredis.Part{Key: s.set(from), Kind: oldredis.Sorted}
		if from == fromQueue {
			parts[i].Kind = oldredis.List // taken from the left
		}
	}
	at, err := s.store.Read(ctx, s.own("scan:"), parts, nil, func(part int, e oldredis.Entry) error {
		sc.lines = append(sc.lines, line{e.ID, froms[part], e.Score})
		if len(sc.lines) < bodies {
			return nil
		}
		return sc.flush(ctx)
	})
	if err == nil {
		err = sc.flush(ctx)
	}
	sc.out.At = at
	if sc.gone > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d jobs were gone before their bodies were read", sc.gone))
	}
	return sc.out, err
}

// flush reads the bodies of what was listed and visits it.
func (sc *scan) flush(ctx context.Context) error {
	lines := sc.lines
	sc.lines = sc.lines[:0]
	hashes, ends := make([]*redis.MapStringStringCmd, len(lines)), make([]*redis.XMessageSliceCmd, len(lines))
	_, err := sc.s.store.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range lines {
			hashes[i] = p.HGetAll(ctx, sc.s.body(l.id))
			if l.from == "failed" {
				ends[i] = p.XRevRangeN(ctx, sc.s.results(l.id), "+", "-", 1)
			}
		}
		return nil
	})
	if err != nil {
		return sc.s.store.Err("reading jobs", err)
	}
	for i, l := range lines {
		job := sc.job(l, hashes[i].Val())
		if job.Class == cutover.CanaryClass {
			continue
		}
		if ends[i] != nil && len(ends[i].Val()) > 0 && job.Error == "" {
			packed, _ := ends[i].Val()[0].Values["exc_string"].(string)
			job.Error = failure(packed)
		}
		sc.out.Jobs++
		if err := sc.visit(job); err != nil {
			return err
		}
	}
	return nil
}

func (sc *scan) job(l line, fields map[string]string) daybook.OldJob {
	state := stateOf(l.from)
	job := jobOf(l.id, fields, state)
	switch {
	case len(fields) == 0:
		sc.gone++
		job.State, job.Unreadable = daybook.OldGone, ""
	case l.from == fromWIP:
		job.Owner, job.OwnerSeen = fields["worker_name"], stamp(fields["last_heartbeat"])
		if l.score*1e6 <= float64(sc.at) {
			job.State = daybook.OldOwnerLost
		}
	case l.from == "scheduled":
		later(&job, l.score)
	}
	score := ""
	if l.from != fromQueue {
		score = oldredis.ScoreText(l.score)
	}
	job.Raw = envelope(l.from, score, l.id, fields)
	return job
}

// later tells retries from jobs whose caller chose the time: RQ keeps both in one
// set, and those that ran once have an end.
func later(job *daybook.OldJob, score float64) {
	job.DueAt = oldredis.Seconds(score)
	if job.Attempts > 0 {
		job.State = daybook.OldRetrying
	}
}

// envelope is a job with where it lay: id, what is left of its hash's life in
// milliseconds or -1, and the hash.
func envelope(from, score, id string, fields map[string]string) []byte {
	e := oldredis.Envelope{From: from, Score: score, Parts: [][]byte{[]byte(id), []byte("-1")}}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e.Parts = append(e.Parts, []byte(name), []byte(fields[name]))
	}
	return e.Bytes()
}

// Owned reads what workers have in their hands.
func (s *Source) Owned(ctx context.Context) ([]daybook.OldJob, error) {
	var jobs []daybook.OldJob
	_, err := s.scan(ctx, 0, []string{fromWIP}, func(job daybook.OldJob) error {
		if job.State != daybook.OldGone {
			jobs = append(jobs, job)
		}
		return nil
	})
	return jobs, err
}

// Find tells where jobs are. It looks through the waiting list for each.
func (s *Source) Find(ctx context.Context, ids []string) (map[string]daybook.OldJob, error) {
	found := make(map[string]daybook.OldJob, len(ids))
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	sc := &scan{s: s, at: now, visit: func(job daybook.OldJob) error {
		found[job.ID] = job
		return nil
	}}
	for _, id := range ids {
		found[id] = daybook.OldJob{ID: id, State: daybook.OldGone}
		var waits *redis.IntCmd
		scores := make([]*redis.FloatCmd, len(sets))
		_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
			waits = p.LPos(ctx, s.queue(), id, redis.LPosArgs{})
			for i, set := range sets {
				scores[i] = p.ZScore(ctx, s.set(set.from), id)
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return nil, s.store.Err("looking for jobs", err)
		}
		if waits.Err() == nil {
			sc.lines = append(sc.lines, line{id: id, from: fromQueue})
		}
		for i, set := range sets {
			if len(sc.lines) == 0 && scores[i].Err() == nil {
				sc.lines = append(sc.lines, line{id, set.from, scores[i].Val()})
			}
		}
		if err := sc.flush(ctx); err != nil {
			return nil, err
		}
		if found[id].State == daybook.OldGone {
			if found[id], err = s.slipped(ctx, id); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// slipped is a job that is in no list: its hash tells whether it ended. One that
// didn't was in the hands of a worker that hadn't noted it yet.
func (s *Source) slipped(ctx context.Context, id string) (daybook.OldJob, error) {
	job := daybook.OldJob{ID: id, State: daybook.OldGone}
	fields, err := s.store.HGetAll(ctx, s.body(id)).Result()
	if err != nil {
		return job, s.store.Err("looking for a job", err)
	}
	switch fields["status"] {
	case "finished":
		return jobOf(id, fields, daybook.OldDone), nil
	case "queued", "started":
		if fields["origin"] == s.o.Queue {
			job.Body = jobOf(id, fields, daybook.OldGone).Body
		}
	}
	return job, nil
}

// seconds prints a duration for a hash.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
