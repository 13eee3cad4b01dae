package asynq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// errMoved: a group or a server came while the queue was being read.
var errMoved = errors.New("asynq: a list appeared while the queue was read")

const (
	scanTries = 10
	bodies    = 250 // hashes read at once
)

// A place is a key that is read, and what lies there.
type place struct {
	oldredis.Part
	from string
}

// What is read besides jobs.
const (
	ofLeases  = "lease"
	ofGroups  = "groups"
	ofBatches = "aggregation_sets"
	ofServers = "servers"
	ofReports = "report"
)

// scan is one reading.
type scan struct {
	s      *Source
	asOf   daybook.Time
	visit  func(daybook.OldJob) error
	only   bool // what is running, and nothing else
	parts  []place
	known  map[string]bool // groups, batches and reports that are read
	leases map[string]daybook.Time
	owners map[string]string // by job, from reports that live
	now    daybook.Time
	lines  []line // read, and without their bodies so far
	out    cutover.Scan
	gone   int
	bare   int // active without a lease
}

// line is a job's place in a list.
type line struct {
	id, from, score string
}

// Scan reads the queue at one instant; see cutover.Source.
func (s *Source) Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (cutover.Scan, error) {
	out, err := s.scan(ctx, scan{asOf: asOf, visit: visit})
	if err != nil {
		return cutover.Scan{}, err
	}
	risks, err := s.store.Risks(ctx)
	out.Notes = append(out.Notes, risks...)
	return out, err
}

// scan begins again when a group or a server came meanwhile. Nothing was visited
// then.
func (s *Source) scan(ctx context.Context, begin scan) (cutover.Scan, error) {
	for try := 1; ; try++ {
		sc := begin
		sc.s = s
		err := sc.find(ctx)
		if err == nil {
			err = sc.read(ctx)
		}
		if !errors.Is(err, errMoved) {
			return sc.out, err
		}
		if try == scanTries {
			return cutover.Scan{}, daybook.Fail(daybook.CodeBusy, "groups and servers of %s come and go too fast to be "+
				"listed; try again", s.store.Name())
		}
	}
}

func (sc *scan) add(key string, kind oldredis.Kind, from string) {
	sc.parts = append(sc.parts, place{oldredis.Part{Key: key, Kind: kind}, from})
}

// find lists what has jobs, and what may tell their owners.
func (sc *scan) find(ctx context.Context) error {
	s := sc.s
	sc.known, sc.leases, sc.owners = map[string]bool{}, map[string]daybook.Time{}, map[string]string{}
	reports, err := s.store.ZRange(ctx, workersKey, 0, -1).Result()
	if err != nil {
		return s.store.Err("listing servers", err)
	}
	sc.add(workersKey, oldredis.Few, ofServers)
	sc.add(s.key("lease"), oldredis.Few, ofLeases)
	for _, key := range reports {
		sc.known[key] = true
		sc.add(key, oldredis.Hash, ofReports)
	}
	if !sc.only {
		if err := sc.findAll(ctx); err != nil {
			return err
		}
	}
	sc.add(s.key(inActive), oldredis.Right, inActive)
	return nil
}

func (sc *scan) findAll(ctx context.Context) error {
	s := sc.s
	groups, err := s.store.SMembers(ctx, s.key("groups")).Result()
	if err != nil {
		return s.store.Err("listing groups", err)
	}
	batches, err := s.store.ZRange(ctx, s.key(ofBatches), 0, -1).Result()
	if err != nil {
		return s.store.Err("listing groups", err)
	}
	sc.add(s.key(ofGroups), oldredis.Set, ofGroups)
	sc.add(s.key(ofBatches), oldredis.Few, ofBatches)
	sc.add(s.key(inPending), oldredis.Right, inPending)
	for _, set := range sets {
		sc.add(s.key(set.from), oldredis.Sorted, set.from)
	}
	for _, g := range slices.Sorted(slices.Values(groups)) {
		sc.known["group "+g] = true
		sc.add(s.group(g), oldredis.Sorted, inGroup)
	}
	for _, key := range batches {
		sc.known[key] = true
		sc.add(key, oldredis.Sorted, inGroup)
	}
	return nil
}

func (sc *scan) read(ctx context.Context) error {
	parts := make([]oldredis.Part, len(sc.parts))
	for i, p := range sc.parts {
		parts[i] = p.Part
	}
	var err error
	if sc.now, err = sc.s.store.Now(ctx); err != nil {
		return err
	}
	at, err := sc.s.store.Read(ctx, sc.s.own("scan:"), parts, nil, func(part int, e oldredis.Entry) error {
		return sc.entry(ctx, sc.parts[part], e)
	})
	if err == nil {
		err = sc.flush(ctx)
	}
	if err != nil {
		return err
	}
	sc.out.At = at
	sc.notes()
	return nil
}

func (sc *scan) judged() daybook.Time {
	if sc.asOf != 0 {
		return sc.asOf
	}
	return sc.now
}

// entry takes one thing that was read. Small things come first.
func (sc *scan) entry(ctx context.Context, p place, e oldredis.Entry) error {
	switch p.from {
	case ofServers, ofBatches:
		if !sc.known[e.ID] {
			return errMoved
		}
	case ofGroups:
		if !sc.known["group "+e.ID] {
			return errMoved
		}
	case ofLeases:
		sc.leases[e.ID] = oldredis.Seconds(e.Score)
	case ofReports:
		sc.owners[e.ID] = strings.Trim(strings.TrimPrefix(p.Key, workersKey+":"), "{}")
	default:
		l := line{id: e.ID, from: p.from}
		if p.Kind == oldredis.Sorted {
			l.score = oldredis.ScoreText(e.Score)
		}
		if sc.lines = append(sc.lines, l); len(sc.lines) >= bodies {
			return sc.flush(ctx)
		}
	}
	return nil
}

// flush reads the bodies of what was listed and visits it.
func (sc *scan) flush(ctx context.Context) error {
	lines := sc.lines
	sc.lines = sc.lines[:0]
	hashes := make([]*redis.MapStringStringCmd, len(lines))
	_, err := sc.s.store.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range lines {
			hashes[i] = p.HGetAll(ctx, sc.s.body(l.id))
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
		sc.out.Jobs++
		if err := sc.visit(job); err != nil {
			return err
		}
	}
	return nil
}

func (sc *scan) job(l line, fields map[string]string) daybook.OldJob {
	state := stateOf(l.from)
	if len(fields) == 0 {
		sc.gone++
		state = daybook.OldGone
	}
	job := jobOf(l.id, fields, state)
	switch job.State {
	case daybook.OldLater, daybook.OldRetrying:
		job.DueAt = seconds(l.score)
	case daybook.OldOwnerLost:
		sc.own(&job)
	case daybook.OldGone:
		job.Unreadable = ""
	}
	job.Raw = envelope(l.from, l.score, l.id, fields)
	return job
}

// own looks for a running job's owner. A server renews the lease of what it runs
// and lists it in its report. While other servers report, one that hasn't reported a
// job for longer than it should is lost, though its lease may run on; with no
// report at all the lease alone decides.
func (sc *scan) own(job *daybook.OldJob) {
	lease, leased := sc.leases[job.ID]
	owner, reported := sc.owners[job.ID]
	job.Owner = owner
	if leased {
		job.OwnerSeen = lease.Add(-leaseLength)
	} else {
		sc.bare++
	}
	young := sc.judged().Sub(job.OwnerSeen) < reportBehind
	switch {
	case !leased && reported:
		job.State = daybook.OldOwned
	case leased && lease > sc.judged() && (reported || young || len(sc.owners) == 0):
		job.State = daybook.OldOwned
	}
	if job.Owner == "" && job.State == daybook.OldOwned {
		job.Owner = "in no server's report"
	}
}

// envelope is a job with where it lay.
func envelope(from, score, id string, fields map[string]string) []byte {
	e := oldredis.Envelope{From: from, Score: score, Parts: [][]byte{[]byte(id)}}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e.Parts = append(e.Parts, []byte(name), []byte(fields[name]))
	}
	return e.Bytes()
}

func (sc *scan) notes() {
	sc.out.Notes = append(sc.out.Notes, "Asynq keeps no trace of a job that is done, unless it was given a retention")
	if sc.gone > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d jobs were done, or deleted, before their bodies were read",
			sc.gone))
	}
	if sc.bare > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d running jobs have no lease, a known fault of Asynq: some of "+
			"them may be done", sc.bare))
	}
}

// Owned reads what servers have in their hands.
func (s *Source) Owned(ctx context.Context) ([]daybook.OldJob, error) {
	var jobs []daybook.OldJob
	_, err := s.scan(ctx, scan{only: true, visit: func(job daybook.OldJob) error {
		if job.State != daybook.OldGone {
			jobs = append(jobs, job)
		}
		return nil
	}})
	return jobs, err
}

// Find tells where jobs are, by what their hashes say.
func (s *Source) Find(ctx context.Context, ids []string) (map[string]daybook.OldJob, error) {
	found := make(map[string]daybook.OldJob, len(ids))
	sc := &scan{s: s, only: true}
	if err := sc.find(ctx); err != nil {
		return nil, err
	}
	sc.visit = func(daybook.OldJob) error { return nil }
	if err := sc.read(ctx); err != nil && !errors.Is(err, errMoved) {
		return nil, err
	}
	for some := range slices.Chunk(ids, bodies) {
		hashes, scores := make([]*redis.MapStringStringCmd, len(some)), make([][]*redis.FloatCmd, len(some))
		_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range some {
				hashes[i] = p.HGetAll(ctx, s.body(id))
				for _, set := range sets {
					scores[i] = append(scores[i], p.ZScore(ctx, s.key(set.from), id))
				}
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return nil, s.store.Err("looking for jobs", err)
		}
		for i, id := range some {
			fields := hashes[i].Val()
			if stateOf(fields["state"]) == daybook.OldGone {
				found[id] = daybook.OldJob{ID: id, State: daybook.OldGone}
				continue
			}
			l := line{id: id, from: fields["state"]}
			for n, set := range sets {
				if set.from == l.from {
					l.score = oldredis.ScoreText(scores[i][n].Val())
				}
			}
			found[id] = sc.job(l, fields)
		}
	}
	return found, nil
}
