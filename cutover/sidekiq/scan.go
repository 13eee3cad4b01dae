package sidekiq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// errMoved: a process took its first job while its queue was being read.
var errMoved = errors.New("sidekiq: a list appeared while the queue was read")

// scanTries bounds how often that is tried again.
const scanTries = 10

// Scan reads the queue at one instant; see cutover.Source.
func (s *Source) Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (cutover.Scan, error) {
	out, err := s.scan(ctx, func() *scan { return &scan{s: s, asOf: asOf, visit: visit, parts: s.parts()} })
	if err != nil {
		return cutover.Scan{}, err
	}
	risks, err := s.store.Risks(ctx)
	out.Notes = append(out.Notes, risks...)
	return out, err
}

// scan reads again when a process took its first job meanwhile. Nothing was
// visited then.
func (s *Source) scan(ctx context.Context, begin func() *scan) (cutover.Scan, error) {
	for try := 1; ; try++ {
		sc := begin()
		sc.running = map[string]running{}
		err := sc.find(ctx)
		if err == nil {
			err = sc.read(ctx)
		}
		if !errors.Is(err, errMoved) {
			return sc.out, err
		}
		if try == scanTries {
			return cutover.Scan{}, daybook.Fail(daybook.CodeBusy, "processes of %s come and go too fast to be listed; "+
				"try again", s.store.Name())
		}
	}
}

// A place is a key that is read, and what lies there.
type place struct {
	oldredis.Part
	from    string
	state   daybook.OldState
	process string // whose report or list it is
}

func (s *Source) parts() []place {
	all := []place{
		{Part: oldredis.Part{Key: s.key("processes"), Kind: oldredis.Set}, from: "processes"},
		{Part: oldredis.Part{Key: s.aside(), Kind: oldredis.Right}, from: fromQueue, state: daybook.OldWaiting},
		{Part: oldredis.Part{Key: s.queue(), Kind: oldredis.Right}, from: fromQueue, state: daybook.OldWaiting},
	}
	for _, set := range sets {
		all = append(all, place{Part: oldredis.Part{Key: s.key(set.from), Kind: oldredis.Sorted}, from: set.from,
			state: set.state})
	}
	return all
}

// scan is one reading.
type scan struct {
	s     *Source
	asOf  daybook.Time
	visit func(daybook.OldJob) error
	parts []place

	processes map[string]*process
	working   map[string]string        // keys of working lists → identity
	alive     map[string]time.Duration // reliable fetch's signs of life, and what is left of them
	running   map[string]running       // by jid: what processes report and no list had so far
	now       daybook.Time
	out       cutover.Scan
	foreign   int // unreadable jobs of shared sets
	stale     int
}

// running is a job in a process' report.
type running struct {
	process, key, thread, value, text string
	since                             daybook.Time
}

// find lists who may have jobs, and adds their keys to what is read.
func (sc *scan) find(ctx context.Context) error {
	s := sc.s
	names, err := s.store.SMembers(ctx, s.key("processes")).Result()
	if err != nil {
		return s.store.Err("listing processes", err)
	}
	lists, err := s.workingLists(ctx)
	if err != nil {
		return err
	}
	sc.processes, sc.working, sc.alive = map[string]*process{}, lists, map[string]time.Duration{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		sc.processes[name] = &process{identity: name, gone: true}
		sc.add(s.key(name), oldredis.Hash, "report", name)
		sc.add(s.key(name), oldredis.TTL, "left", name)
		sc.add(s.key(name+":workers"), oldredis.Hash, fromRunning, name)
		sc.add(s.key(name+":work"), oldredis.Hash, fromRunning, name) // as Sidekiq 7 calls it
	}
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		sc.add(s.aliveKey(lists[key]), oldredis.TTL, "alive", lists[key])
		sc.add(key, oldredis.Right, fromWorking, lists[key])
	}
	return nil
}

func (sc *scan) add(key string, kind oldredis.Kind, from, process string) {
	sc.parts = append(sc.parts, place{Part: oldredis.Part{Key: key, Kind: kind}, from: from, process: process})
}

// workingLists are reliable fetch's, with the process of each: those that are
// there, and those that its live processes may make at any time. An empty list
// isn't there, but a process says that it lives before it takes its first job,
// and for a minute after it died.
func (s *Source) workingLists(ctx context.Context) (map[string]string, error) {
	lists := map[string]string{}
	keys, err := s.store.Keys(ctx, oldredis.Glob(s.workingPrefix())+"*")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		// A queue named "a" must not see the lists of one named "a:b": an identity
		// is HOST:PID:NONCE, and older ones HOST:PID.
		identity := strings.TrimPrefix(key, s.workingPrefix())
		if n := strings.Count(identity, ":"); n == 1 || n == 2 {
			lists[key] = identity
		}
	}
	alive, err := s.store.Keys(ctx, oldredis.Glob(s.aliveKey(""))+"*")
	for _, key := range alive {
		parts := strings.Split(strings.TrimPrefix(key, s.aliveKey("")), "-")
		if n := len(parts); n >= 3 { // a host may have a dash, a number hasn't
			identity := strings.Join(parts[:n-2], "-") + ":" + parts[n-2] + ":" + parts[n-1]
			lists[s.workingPrefix()+identity] = identity
		}
	}
	return lists, err
}

// read reads it all and visits.
func (sc *scan) read(ctx context.Context) error {
	parts := make([]oldredis.Part, len(sc.parts))
	for i, p := range sc.parts {
		parts[i] = p.Part
	}
	started, err := sc.s.store.Now(ctx) // a lower bound, until the instant itself is known
	if err != nil {
		return err
	}
	sc.now = started
	settled := func() error {
		again, err := sc.s.workingLists(ctx)
		if err != nil {
			return err
		}
		for key := range again {
			if _, known := sc.working[key]; !known {
				return errMoved
			}
		}
		return nil
	}
	at, err := sc.s.store.Read(ctx, sc.s.own("scan:"), parts, settled, func(part int, e oldredis.Entry) error {
		return sc.entry(sc.parts[part], e)
	})
	if err != nil {
		return err
	}
	sc.out.At = at
	for _, jid := range slices.Sorted(maps.Keys(sc.running)) {
		if err := sc.give(sc.runningJob(sc.running[jid])); err != nil {
			return err
		}
	}
	sc.notes()
	return nil
}

// judged is the instant that leases and due times are judged by.
func (sc *scan) judged() daybook.Time {
	if sc.asOf != 0 {
		return sc.asOf
	}
	return sc.now
}

// entry takes one thing that was read.
func (sc *scan) entry(p place, e oldredis.Entry) error {
	switch p.from {
	case "processes":
		if _, known := sc.processes[e.ID]; !known {
			return errMoved
		}
	case "report":
		sc.processes[p.process].read(e.ID, e.Value)
	case "left":
		sc.processes[p.process].left = time.Duration(e.Score) * time.Millisecond
	case "alive":
		sc.alive[p.process] = time.Duration(e.Score) * time.Millisecond
	case fromRunning:
		sc.report(p, e)
	case fromWorking:
		return sc.give(sc.workingJob(p, e.ID))
	default:
		return sc.lying(p, e)
	}
	return nil
}

// report notes a job that a process says it runs. The job's lists are read after
// it; what they have is newer than a report, which may be five seconds old.
func (sc *scan) report(p place, e oldredis.Entry) {
	var w struct {
		Queue string          `json:"queue"`
		Job   json.RawMessage `json:"payload"`
		Since json.Number     `json:"run_at"`
	}
	if err := json.Unmarshal([]byte(e.Value), &w); err != nil || w.Queue != sc.s.o.Queue {
		return
	}
	text := string(w.Job)
	if inner := word(w.Job); inner != "" {
		text = inner // before Sidekiq 6 it wasn't text inside
	}
	r := running{process: p.process, key: p.Key, thread: e.ID, value: e.Value, text: text, since: stamp(w.Since)}
	name := jobOf(text, daybook.OldOwned).Name()
	for _, taken := sc.running[name]; taken; _, taken = sc.running[name] {
		name += "+" // two processes have a job of the same jid
	}
	sc.running[name] = r
}

// lying takes a job of a list or a set.
func (sc *scan) lying(p place, e oldredis.Entry) error {
	envelope, foreign := oldredis.Envelope{From: p.from, Parts: [][]byte{[]byte(e.ID)}}, false
	if p.Kind == oldredis.Sorted {
		queue, ok := queueOf(e.ID)
		if ok && queue != sc.s.o.Queue {
			return nil
		}
		if foreign = !ok; foreign {
			sc.foreign++
		}
		envelope.Score = oldredis.ScoreText(e.Score)
	}
	job := jobOf(e.ID, p.state)
	job.Foreign = foreign
	if job.State == daybook.OldLater || job.State == daybook.OldRetrying {
		job.DueAt = envelope.ScoreTime()
	}
	if _, reported := sc.running[job.Name()]; reported {
		delete(sc.running, job.Name())
		sc.stale++
	}
	job.Raw = envelope.Bytes()
	return sc.give(job)
}

func (sc *scan) give(job daybook.OldJob) error {
	if job.Class == cutover.CanaryClass {
		return nil
	}
	sc.out.Jobs++
	return sc.visit(job)
}

// runningJob is a job of which only its process speaks.
func (sc *scan) runningJob(r running) daybook.OldJob {
	job := jobOf(r.text, daybook.OldOwned)
	p := sc.processes[r.process]
	job.Owner = r.process + ":" + r.thread
	job.OwnerSeen = p.seen(sc.judged(), sc.asOf == 0)
	if p.gone || sc.silent(job.OwnerSeen) {
		job.State = daybook.OldOwnerLost
	}
	job.Raw = oldredis.Envelope{From: fromRunning, Parts: [][]byte{[]byte(r.text), []byte(r.process), []byte(r.key),
		[]byte(r.thread), []byte(r.value)}}.Bytes()
	return job
}

// silent reports whether a process that was last seen then is lost. Who reads a
// dump may not know its time to the second: there, while no process has spoken
// within patience, only the minute counts that Sidekiq itself waits.
func (sc *scan) silent(seen daybook.Time) bool {
	patience := sc.s.o.Patience
	if sc.asOf != 0 && !slices.ContainsFunc(slices.Collect(maps.Values(sc.processes)), func(p *process) bool {
		return sc.asOf.Sub(p.beat) <= patience
	}) {
		patience = beatLife
	}
	return sc.judged().Sub(seen) > patience
}

// workingJob is a job in a reliable fetch's list. Its process is alive while it
// says so, to the fetch or to Sidekiq.
func (sc *scan) workingJob(p place, text string) daybook.OldJob {
	job := jobOf(text, daybook.OldOwned)
	job.Owner = p.process
	left, lives := sc.alive[p.process]
	if lives {
		job.OwnerSeen = sc.judged().Add(left - beatLife)
	}
	host := hostPid(p.process)
	for _, other := range sc.processes {
		seen := other.seen(sc.judged(), sc.asOf == 0)
		if hostPid(other.identity) == host && !other.gone && sc.judged().Sub(seen) <= sc.s.o.Patience {
			job.OwnerSeen, lives = max(job.OwnerSeen, seen), true
		}
	}
	for name, r := range sc.running {
		if r.text == text && hostPid(r.process) == host {
			job.Owner += ":" + r.thread
			delete(sc.running, name)
			break
		}
	}
	if !lives {
		job.State = daybook.OldOwnerLost
	}
	job.Raw = oldredis.Envelope{From: fromWorking, Parts: [][]byte{[]byte(text), []byte(p.Key),
		[]byte(sc.s.aliveKey(p.process))}}.Bytes()
	return job
}

// hostPid is the part of an identity that Sidekiq and reliable fetch have in
// common: each adds a number of its own.
func hostPid(identity string) string {
	parts := strings.SplitN(identity, ":", 3)
	return strings.Join(parts[:min(2, len(parts))], ":")
}

func (sc *scan) notes() {
	sc.out.Notes = append(sc.out.Notes,
		"Sidekiq keeps no trace of jobs that are done, nor of failed ones with \"retry\": false",
		"a process reports every five seconds what it runs: a job that began since isn't seen, unless the fetch is a "+
			"reliable one")
	if sc.stale > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d running jobs were in a list again: their processes' reports "+
			"were older", sc.stale))
	}
	if sc.foreign > 0 {
		sc.out.Notes = append(sc.out.Notes, fmt.Sprintf("%d jobs in sets that all queues share can't be read, so nobody "+
			"knows their queue: they are counted here and not moved", sc.foreign))
	}
}

// Owned reads what processes have in their hands.
func (s *Source) Owned(ctx context.Context) ([]daybook.OldJob, error) {
	var jobs []daybook.OldJob
	_, err := s.scan(ctx, func() *scan {
		return &scan{s: s, visit: func(job daybook.OldJob) error {
			jobs = append(jobs, job)
			return nil
		}}
	})
	return jobs, err
}

// Find looks for jobs by name, which of those that can't be read is their hash. It
// reads the whole queue. What lies in a shared set, and nobody knows whose it is,
// can't be taken and isn't waited for: the balance names it.
func (s *Source) Find(ctx context.Context, ids []string) (map[string]daybook.OldJob, error) {
	found := make(map[string]daybook.OldJob, len(ids))
	for _, id := range ids {
		found[id] = daybook.OldJob{ID: id, State: daybook.OldGone}
	}
	_, err := s.Scan(ctx, 0, func(job daybook.OldJob) error {
		if was, asked := found[job.Name()]; asked && was.State == daybook.OldGone && !job.Foreign {
			found[job.Name()] = job
		}
		return nil
	})
	return found, err
}
