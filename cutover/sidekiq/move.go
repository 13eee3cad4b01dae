package sidekiq

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// takeScript takes jobs from the right end of a list, past canaries. KEYS are the
// list, the held list, its counter, and the canaries; ARGV how many, and bytes.
var takeScript = oldredis.NewScript(`
local canary = {}
for _, c in ipairs(redis.call('HVALS', KEYS[4])) do canary[c] = true end
local at, took, size = -1, {}, 0
while #took < tonumber(ARGV[1]) and size < tonumber(ARGV[2]) do
	local job = redis.call('LINDEX', KEYS[1], at)
	if not job then break end
	if canary[job] then
		at = at - 1
	else
		took[#took + 1] = hold(KEYS[2], KEYS[3], 'queue', nil, {job})
		size = size + #job
		if at == -1 then redis.call('RPOP', KEYS[1]) else redis.call('LREM', KEYS[1], -1, job) end
	end
end
return took
`)

// takeFromSet takes the members that are still there. KEYS are the set, the held
// list and its counter; ARGV the set's word and the members.
var takeFromSet = oldredis.NewScript(`
local took = {}
for i = 2, #ARGV do
	local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
	if score then
		took[#took + 1] = hold(KEYS[2], KEYS[3], ARGV[1], score, {ARGV[i]})
		redis.call('ZREM', KEYS[1], ARGV[i])
	end
end
return took
`)

// Take takes waiting jobs first, then those of the sets; see cutover.Mover.
func (s *Source) Take(ctx context.Context, n int) ([]daybook.OldJob, error) {
	var raws [][]byte
	for _, list := range []string{s.aside(), s.queue()} {
		keys := []string{list, s.held.List, s.held.Counter, s.canaries()}
		some, err := oldredis.TakeUpTo(ctx, n-len(raws), func(ctx context.Context, n int) ([][]byte, error) {
			answer, err := s.held.Run(ctx, "taking jobs", takeScript, keys, n, oldredis.TakeMostBytes)
			return oldredis.Envelopes(answer), err
		})
		raws = append(raws, some...)
		if err != nil {
			return nil, err // what was taken is held
		}
	}
	for _, set := range sets {
		some, err := s.takeFromSet(ctx, set.from, n-len(raws))
		raws = append(raws, some...)
		if err != nil {
			return nil, err
		}
	}
	return jobsOf(raws)
}

// takeFromSet looks through a set for jobs of this queue. It goes on where the
// last call stopped, since other queues' jobs stay; before it says that there is
// none, it has looked from the start.
func (s *Source) takeFromSet(ctx context.Context, from string, n int) (took [][]byte, err error) {
	if n <= 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.cursors[from]
	whole := at == 0
	for len(took) < n {
		page, err := s.store.ZRange(ctx, s.key(from), at, at+oldredis.TakeMost-1).Result()
		if err != nil {
			return took, s.store.Err("looking for jobs in "+s.key(from), err)
		}
		if len(page) == 0 {
			if at = 0; whole || len(took) > 0 {
				break
			}
			whole = true
			continue
		}
		args, seen := []any{from}, 0
		for _, text := range page {
			seen++
			if queue, ok := queueOf(text); ok && queue == s.o.Queue {
				args = append(args, text)
			}
			if len(args)-1 == n-len(took) {
				break
			}
		}
		if at += int64(seen); len(args) == 1 {
			continue
		}
		answer, err := s.held.Run(ctx, "taking jobs", takeFromSet, []string{s.key(from), s.held.List, s.held.Counter},
			args...)
		if err != nil {
			return took, err
		}
		took = append(took, oldredis.Envelopes(answer)...)
		at -= int64(len(args) - 1) // they left the set, whoever took them
	}
	s.cursors[from] = max(0, at)
	return took, nil
}

// jobsOf reads held jobs.
func jobsOf(raws [][]byte) ([]daybook.OldJob, error) {
	jobs := make([]daybook.OldJob, 0, len(raws))
	for _, raw := range raws {
		e, err := oldredis.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		job := jobOf(string(e.Parts[0]), stateOf(e.From))
		if job.State == daybook.OldLater || job.State == daybook.OldRetrying {
			job.DueAt = e.ScoreTime()
		}
		if job.State == daybook.OldOwnerLost && len(e.Parts) > 1 {
			job.Owner = string(e.Parts[1])
		}
		if job.ID == "" {
			job.Nth = e.Number
		}
		job.Raw = raw
		jobs = append(jobs, job)
	}
	return jobs, nil
}

func stateOf(from string) daybook.OldState {
	for _, set := range sets {
		if set.from == from {
			return set.state
		}
	}
	if from == fromQueue {
		return daybook.OldWaiting
	}
	return daybook.OldOwnerLost
}

// lostRunning takes a job out of a silent process' report. KEYS are the report's
// list, the process, the held list and its counter; ARGV the thread, what the
// report says, the life of a sign in milliseconds, how long the process may be
// silent, and the envelope's parts.
var lostRunning = oldredis.NewScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
local left = redis.call('PTTL', KEYS[2])
if left == -1 or tonumber(ARGV[3]) - left < tonumber(ARGV[4]) then return 0 end
local parts = {}
for i = 5, #ARGV do parts[#parts + 1] = ARGV[i] end
hold(KEYS[3], KEYS[4], 'running', nil, parts)
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
`)

// lostWorking takes a job out of the list of a process that reliable fetch holds
// for dead. KEYS are the list, the sign of life, the held list and its counter;
// ARGV the parts.
var lostWorking = oldredis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local at = redis.call('LPOS', KEYS[1], ARGV[1])
if not at then return 0 end
hold(KEYS[3], KEYS[4], 'working', nil, ARGV)
redis.call('LREM', KEYS[1], 1, ARGV[1])
return 1
`)

// TakeLost takes a job of a silent process; see cutover.Mover. Sidekiq forgets a
// silent process' jobs after a minute, unless its fetch is reliable: then the job
// can be had at any time, after the fetch itself holds its process for dead,
// which takes that minute.
func (s *Source) TakeLost(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	var n int64
	switch {
	case e.From == fromRunning && len(e.Parts) == 5:
		process, key, thread, value := string(e.Parts[1]), string(e.Parts[2]), e.Parts[3], e.Parts[4]
		args := []any{thread, value, beatLife.Milliseconds(), s.o.Patience.Milliseconds()}
		for _, p := range e.Parts {
			args = append(args, p)
		}
		n, err = s.held.RunInt(ctx, "taking a lost job", lostRunning,
			[]string{key, s.key(process), s.held.List, s.held.Counter}, args...)
	case e.From == fromWorking && len(e.Parts) == 3:
		if alive, err := s.lives(ctx, string(e.Parts[1])); err != nil || alive {
			return false, err
		}
		n, err = s.held.RunInt(ctx, "taking a lost job", lostWorking,
			[]string{string(e.Parts[1]), string(e.Parts[2]), s.held.List, s.held.Counter},
			e.Parts[0], e.Parts[1], e.Parts[2])
	}
	return n == 1, err
}

// lives reports whether the process of a working list reports to Sidekiq.
func (s *Source) lives(ctx context.Context, list string) (bool, error) {
	all, err := s.processes(ctx)
	if err != nil {
		return false, err
	}
	now, err := s.store.Now(ctx)
	host := hostPid(list[min(len(list), len(s.workingPrefix())):])
	return slices.ContainsFunc(all, func(p *process) bool {
		return !p.gone && hostPid(p.identity) == host && now.Sub(p.seen(now, true)) <= s.o.Patience
	}), err
}

// Held lists held jobs, oldest first.
func (s *Source) Held(ctx context.Context, n int) ([]daybook.OldJob, error) {
	raws, err := s.held.Held(ctx, n)
	if err != nil {
		return nil, err
	}
	return jobsOf(raws)
}

// Drop takes jobs out of the held list. Sidekiq has nothing by which a late
// producer of the same jid would stumble.
func (s *Source) Drop(ctx context.Context, jobs []daybook.OldJob) error {
	raws := make([][]byte, len(jobs))
	for i, job := range jobs {
		raws[i] = job.Raw
	}
	return s.held.Drop(ctx, raws)
}

// BeginTake, BeginReturn and EndReturn are the fence; see cutover.Mover.
func (s *Source) BeginTake(ctx context.Context, name string) error {
	return s.held.BeginTake(ctx, name)
}

// BeginReturn begins a rollback.
func (s *Source) BeginReturn(ctx context.Context, name string) error {
	return s.held.BeginReturn(ctx, name)
}

// EndReturn ends it.
func (s *Source) EndReturn(ctx context.Context, name string) error {
	return s.held.EndReturn(ctx, name)
}

// returnScript puts a job back. KEYS are where to, the held list, the numbers of
// those without a jid that went back, and all the lists and sets where the same job
// might lie; ARGV the envelope, the score or "", the job, its jid in quotes, how many
// new arrivals are looked through, and the number of one without a jid, or "": equal
// ones may lie there, so its number tells whether it went back.
var returnScript = oldredis.Fenced(`
if ARGV[6] ~= '' and redis.call('SISMEMBER', KEYS[3], ARGV[6]) == 1 then return 0 end
for i = 4, #KEYS do
	if ARGV[6] ~= '' then break end
	if redis.call('TYPE', KEYS[i]).ok == 'zset' then
		if redis.call('ZSCORE', KEYS[i], ARGV[3]) then return 0 end
	else
		for _, job in ipairs(redis.call('LRANGE', KEYS[i], 0, tonumber(ARGV[5]) - 1)) do
			if job == ARGV[3] then return 0 end
			if string.find(job, ARGV[4], 1, true) then
				local ok, read = pcall(cjson.decode, job)
				if ok and type(read) == 'table' and '"' .. tostring(read.jid) .. '"' == ARGV[4] then return 0 end
			end
		end
	end
end
if ARGV[2] ~= '' then
	redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
else
	redis.call('RPUSH', KEYS[1], ARGV[3])
end
redis.call('LREM', KEYS[2], 1, ARGV[1])
if ARGV[6] ~= '' then redis.call('SADD', KEYS[3], ARGV[6]) end
return 1
`)

// arrivals is how many of the newest waiting jobs each Return looks through; what
// lay there before the first Return is in the index.
const arrivals = 1000

// Return puts a job back; see cutover.Mover. A waiting or a lost one comes to the
// taking end.
func (s *Source) Return(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	text := string(e.Parts[0])
	read := jobOf(text, stateOf(e.From))
	nth := ""
	if read.ID == "" {
		nth = strconv.FormatInt(e.Number, 10)
	} else if there, err := s.has(ctx, read); err != nil || there {
		return false, err
	}
	to, score := s.key(e.From), e.Score
	if read.State == daybook.OldWaiting || read.State == daybook.OldOwnerLost {
		to, score = s.queue(), ""
		how, err := s.store.Get(ctx, s.gate()).Result()
		if err != nil && err != redis.Nil {
			return false, s.store.Err("looking at the gate", err)
		}
		if len(how) >= len(byQuiet) && how[:len(byQuiet)] == byQuiet {
			to = s.aside()
		}
	}
	keys := []string{to, s.held.List, s.back(), s.aside(), s.queue()}
	for _, set := range sets {
		keys = append(keys, s.key(set.from))
	}
	back, err := s.held.Return(ctx, returnScript, keys, job.Raw, score, text, `"`+read.ID+`"`, arrivals, nth)
	if back && read.ID != "" {
		s.index.add(read.Name())
	}
	return back, err
}

// An index has the names of the jobs that the store had, as numbers, so that ten
// million take 80 MB.
type index struct {
	seed  maphash.Seed
	names []uint64 // sorted
	added map[uint64]bool
	at    time.Time
}

func (x *index) add(name string) { x.added[maphash.String(x.seed, name)] = true }

func (x *index) has(name string) bool {
	h := maphash.String(x.seed, name)
	_, found := slices.BinarySearch(x.names, h)
	return found || x.added[h]
}

// has reports whether the store has a job of the same name. The first call reads
// the queue; later ones go by what that found, and look closer when it says yes.
func (s *Source) has(ctx context.Context, job daybook.OldJob) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil {
		x := &index{seed: maphash.MakeSeed(), added: map[uint64]bool{}, at: time.Now()}
		_, err := s.Scan(ctx, 0, func(job daybook.OldJob) error {
			x.names = append(x.names, maphash.String(x.seed, job.Name()))
			return nil
		})
		if err != nil {
			return false, err
		}
		slices.Sort(x.names)
		s.index = x
	}
	if !s.index.has(job.Name()) {
		return false, nil
	}
	found := false
	_, err := s.Scan(ctx, 0, func(other daybook.OldJob) error {
		found = found || other.Name() == job.Name()
		return nil
	})
	return found, err
}
