package bullmq

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	s         *Source
	asOf      daybook.Time
	now       daybook.Time
	visit     func(daybook.OldJob) error
	lines     []line
	out       cutover.Scan
	gone      int
	scheduled int // made by schedulers
	children  int
}

// Scan reads the queue at one instant; see cutover.Source. Locks of jobs have no
// time but what is left of their lives: a dump that is read as of a time counts
// that from its newest event on.
func (s *Source) Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (cutover.Scan, error) {
	var froms []string
	for _, p := range places {
		froms = append(froms, p.from)
	}
	out, err := s.scan(ctx, asOf, froms, visit)
	if err != nil {
		return cutover.Scan{}, err
	}
	out.Notes = append(out.Notes, "a worker whose event loop is blocked doesn't renew its lock, and works on: a job "+
		"whose owner is lost may yet end well")
	risks, err := s.store.Risks(ctx)
	out.Notes = append(out.Notes, risks...)
	return out, err
}

func (s *Source) scan(ctx context.Context, asOf daybook.Time, froms []string, visit func(daybook.OldJob) error) (
	cutover.Scan, error) {
	sc := &scan{s: s, asOf: asOf, visit: visit}
	if err := sc.clock(ctx); err != nil {
		return sc.out, err
	}
	parts := make([]oldredis.Part, len(froms))
	for i, from := range froms {
		for _, p := range places {
			if p.from == from {
				parts[i] = oldredis.Part{Key: s.key(from), Kind: p.kind}
			}
		}
	}
	at, err := s.store.Read(ctx, s.own("scan:"), parts, nil, func(part int, e oldredis.Entry) error {
		if isMarker(e.ID) {
			return nil
		}
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
	sc.note(sc.gone, "jobs were gone before their bodies were read")
	sc.note(sc.scheduled, "later jobs are the next runs of schedulers, which go on making more: end these over there")
	sc.note(sc.children, "jobs are children of flows: their parents wait for them over there")
	return sc.out, err
}

func (sc *scan) note(n int, text string) {
	if n > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d %s", n, text))
	}
}

// clock finds the time that lives of locks count from.
func (sc *scan) clock(ctx context.Context) (err error) {
	if sc.now, err = sc.s.store.Now(ctx); err != nil || sc.asOf == 0 {
		return err
	}
	last, err := sc.s.store.XRevRangeN(ctx, sc.s.key("events"), "+", "-", 1).Result()
	if err != nil {
		return sc.s.store.Err("looking for the newest event", err)
	}
	if sc.now = sc.asOf; len(last) > 0 {
		ms, _, _ := strings.Cut(last[0].ID, "-")
		sc.now = min(sc.asOf, millis(ms))
	}
	return nil
}

// body is what is read of one job.
type body struct {
	hash   *redis.MapStringStringCmd
	lock   *redis.DurationCmd
	active *redis.IntCmd
}

// flush reads the bodies of what was listed and visits it.
func (sc *scan) flush(ctx context.Context) error {
	lines := sc.lines
	sc.lines = sc.lines[:0]
	all := make([]body, len(lines))
	_, err := sc.s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range lines {
			all[i].hash = p.HGetAll(ctx, sc.s.key(l.id))
			if l.from == "active" {
				all[i].lock = p.PTTL(ctx, sc.s.key(l.id+":lock"))
				all[i].active = p.LPos(ctx, sc.s.key("active"), l.id, redis.LPosArgs{})
			}
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return sc.s.store.Err("reading jobs", err)
	}
	for i, l := range lines {
		job := sc.job(l, all[i])
		if job.Class == cutover.CanaryClass {
			continue
		}
		sc.out.Jobs++
		if err := sc.visit(job); err != nil {
			return err
		}
	}
	return nil
}

func (sc *scan) job(l line, b body) daybook.OldJob {
	fields := b.hash.Val()
	job := jobOf(l.id, fields, stateOf(l.from))
	switch {
	case len(fields) == 0:
		sc.gone++
		job.State, job.Unreadable = daybook.OldGone, ""
	case l.from == "active":
		sc.own(&job, fields, b)
	case l.from == "delayed":
		later(&job, l.score)
		if fields["rjk"] != "" {
			sc.scheduled++
		}
	}
	if fields["parentKey"] != "" {
		sc.children++
	}
	score := ""
	if !isList(l.from) {
		score = oldredis.ScoreText(l.score)
	}
	job.Raw = envelope(l.from, score, l.id, fields)
	return job
}

// own looks whether a running job's lock lives.
func (sc *scan) own(job *daybook.OldJob, fields map[string]string, b body) {
	if job.Owner = fields["pb"]; job.Owner == "" {
		job.Owner = "a worker without a name"
	}
	job.OwnerSeen = millis(fields["processedOn"])
	left := b.lock.Val()
	if left < 0 && b.active.Err() == redis.Nil {
		return // it was running when the ids were read, and has ended since
	}
	if left < 0 || sc.asOf != 0 && sc.now.Add(left) <= sc.asOf {
		job.State = daybook.OldOwnerLost
		return
	}
	if left <= lockLength {
		job.OwnerSeen = max(job.OwnerSeen, sc.now.Add(left-lockLength))
	}
}

// envelope is a job with where it lay: id, what is left of its deduplication's
// life in milliseconds, or -2 for none of it, and the hash.
func envelope(from, score, id string, fields map[string]string) []byte {
	e := oldredis.Envelope{From: from, Score: score, Parts: [][]byte{[]byte(id), []byte("-2")}}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e.Parts = append(e.Parts, []byte(name), []byte(fields[name]))
	}
	return e.Bytes()
}

// Owned reads what workers have in their hands.
func (s *Source) Owned(ctx context.Context) ([]daybook.OldJob, error) {
	var jobs []daybook.OldJob
	_, err := s.scan(ctx, 0, []string{"active"}, func(job daybook.OldJob) error {
		if job.State != daybook.OldGone {
			jobs = append(jobs, job)
		}
		return nil
	})
	return jobs, err
}

// Find tells where jobs are. It looks through the lists for each.
func (s *Source) Find(ctx context.Context, ids []string) (map[string]daybook.OldJob, error) {
	found := make(map[string]daybook.OldJob, len(ids))
	sc := &scan{s: s, visit: func(job daybook.OldJob) error {
		found[job.ID] = job
		return nil
	}}
	if err := sc.clock(ctx); err != nil {
		return nil, err
	}
	for _, id := range ids {
		found[id] = daybook.OldJob{ID: id, State: daybook.OldGone}
		lies, scores := make([]*redis.IntCmd, len(places)), make([]*redis.FloatCmd, len(places))
		_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i, place := range places {
				if isList(place.from) {
					lies[i] = p.LPos(ctx, s.key(place.from), id, redis.LPosArgs{})
				} else {
					scores[i] = p.ZScore(ctx, s.key(place.from), id)
				}
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return nil, s.store.Err("looking for jobs", err)
		}
		for i, place := range places {
			switch {
			case len(sc.lines) > 0:
			case lies[i] != nil && lies[i].Err() == nil:
				sc.lines = append(sc.lines, line{id: id, from: place.from})
			case scores[i] != nil && scores[i].Err() == nil:
				sc.lines = append(sc.lines, line{id, place.from, scores[i].Val()})
			}
		}
		if err := sc.flush(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stamp is now in milliseconds, as BullMQ writes times.
func stamp() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }
