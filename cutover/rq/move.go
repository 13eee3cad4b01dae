package rq

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// lay puts a job into the held list with all of its hash, which goes: an id that
// is used again makes a new one, and what is held must not touch that.
const lay = `
local function lay(id, prefix, from, score, list, counter)
	local parts = {id, string.format('%.0f', redis.call('PTTL', prefix .. id))}
	for _, part in ipairs(redis.call('HGETALL', prefix .. id)) do parts[#parts + 1] = part end
	local envelope = hold(list, counter, from, score, parts)
	redis.call('DEL', prefix .. id)
	return envelope
end
`

// takeQueue takes from the left end, past canaries. KEYS are the list, the held
// list, its counter, and the canaries; ARGV how many, bytes, and the prefix of
// hashes.
var takeQueue = oldredis.NewScript(lay + `
local canary = {}
for _, c in ipairs(redis.call('SMEMBERS', KEYS[4])) do canary[c] = true end
local at, took, size = 0, {}, 0
while #took < tonumber(ARGV[1]) and size < tonumber(ARGV[2]) do
	local id = redis.call('LINDEX', KEYS[1], at)
	if not id then break end
	if canary[id] then
		at = at + 1
	else
		local envelope = lay(id, ARGV[3], 'queue', nil, KEYS[2], KEYS[3])
		took[#took + 1], size = envelope, size + #envelope
		if at == 0 then redis.call('LPOP', KEYS[1]) else redis.call('LREM', KEYS[1], 1, id) end
	end
end
return took
`)

// takeSet takes those of the lowest scores. KEYS as before; ARGV too, then the
// set's word.
var takeSet = oldredis.NewScript(lay + `
local canary, at, took, size = {}, 0, {}, 0
for _, c in ipairs(redis.call('SMEMBERS', KEYS[4])) do canary[c] = true end
while #took < tonumber(ARGV[1]) and size < tonumber(ARGV[2]) do
	local next = redis.call('ZRANGE', KEYS[1], at, at, 'WITHSCORES')
	if #next == 0 then break end
	if canary[next[1]] then
		at = at + 1
	else
		local envelope = lay(next[1], ARGV[3], ARGV[4], next[2], KEYS[2], KEYS[3])
		took[#took + 1], size = envelope, size + #envelope
		redis.call('ZREM', KEYS[1], next[1])
	end
end
return took
`)

// Take takes waiting jobs first, then scheduled and retrying ones by their time,
// then failed ones; see cutover.Mover.
func (s *Source) Take(ctx context.Context, n int) ([]daybook.OldJob, error) {
	var raws [][]byte
	takeFrom := func(from string, script *redis.Script) error {
		keys := []string{s.set(from), s.held.List, s.held.Counter, s.canaries()}
		some, err := oldredis.TakeUpTo(ctx, n-len(raws), func(ctx context.Context, n int) ([][]byte, error) {
			answer, err := s.held.Run(ctx, "taking jobs", script, keys, n, oldredis.TakeMostBytes, s.body(""), from)
			return oldredis.Envelopes(answer), err
		})
		raws = append(raws, some...)
		return err // what was taken is held
	}
	if err := takeFrom(fromQueue, takeQueue); err != nil {
		return nil, err
	}
	for _, set := range sets {
		if !set.state.Movable() {
			continue
		}
		if err := takeFrom(set.from, takeSet); err != nil {
			return nil, err
		}
	}
	return s.jobsOf(ctx, raws)
}

// fieldsOf is the hash in an envelope.
func fieldsOf(e oldredis.Envelope) map[string]string {
	fields := map[string]string{}
	for i := 2; i+1 < len(e.Parts); i += 2 {
		fields[string(e.Parts[i])] = string(e.Parts[i+1])
	}
	return fields
}

// jobsOf reads held jobs. What a failed one said lies beside it, if RQ has it
// still.
func (s *Source) jobsOf(ctx context.Context, raws [][]byte) ([]daybook.OldJob, error) {
	jobs := make([]daybook.OldJob, 0, len(raws))
	for _, raw := range raws {
		e, err := oldredis.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		fields := fieldsOf(e)
		job := jobOf(string(e.Parts[0]), fields, stateOf(e.From))
		switch e.From {
		case "scheduled":
			later(&job, float64(e.ScoreTime())/1e6)
		case fromWIP:
			job.State, job.Owner = daybook.OldOwnerLost, fields["worker_name"]
			job.OwnerSeen = stamp(fields["last_heartbeat"])
		case "failed":
			last, err := s.store.XRevRangeN(ctx, s.results(job.ID), "+", "-", 1).Result()
			if err != nil {
				return nil, s.store.Err("reading what failed", err)
			}
			if len(last) > 0 && job.Error == "" {
				packed, _ := last[0].Values["exc_string"].(string)
				job.Error = failure(packed)
			}
		}
		job.Raw = raw
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// takeLost takes a running job whose sign of life has run out. KEYS are the set,
// the held list and its counter; ARGV the id and the prefix of hashes.
var takeLost = oldredis.NewScript(lay + `
local until_ = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not until_ or tonumber(until_) > tonumber(redis.call('TIME')[1]) then return 0 end
lay(ARGV[1], ARGV[2], 'wip', until_, KEYS[2], KEYS[3])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
`)

// TakeLost takes a running job whose sign of life has run out, by the store's
// clock; see cutover.Mover. The process that runs it may yet be alive: RQ starts
// one for each job, and it outlives its worker.
func (s *Source) TakeLost(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	n, err := s.held.RunInt(ctx, "taking a lost job", takeLost,
		[]string{s.set(fromWIP), s.held.List, s.held.Counter}, e.Parts[0], s.body(""))
	return n == 1, err
}

// Held lists held jobs, oldest first.
func (s *Source) Held(ctx context.Context, n int) ([]daybook.OldJob, error) {
	raws, err := s.held.Held(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.jobsOf(ctx, raws)
}

// Drop takes jobs out of the held list.
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

// returnScript puts a job back. KEYS are where to, the hash, and the held list;
// ARGV the envelope, the id, the score or "", the hash's life, and its fields.
var returnScript = oldredis.Fenced(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if ARGV[3] == '' and redis.call('LPOS', KEYS[1], ARGV[2]) then return 0 end
if #ARGV > 4 then
	local hash = {}
	for i = 5, #ARGV do hash[#hash + 1] = ARGV[i] end
	redis.call('HSET', KEYS[2], unpack(hash))
	if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
end
if ARGV[3] ~= '' then
	redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
else
	redis.call('LPUSH', KEYS[1], ARGV[2])
end
redis.call('LREM', KEYS[3], 1, ARGV[1])
return 1
`)

// Return puts a job back; see cutover.Mover. A waiting or a lost one comes to the
// taking end.
func (s *Source) Return(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	if len(e.Parts) < 2 {
		return false, daybook.Fail(daybook.CodeInvalid, "what was kept of a job of RQ isn't whole")
	}
	id, to, score := string(e.Parts[0]), e.From, e.Score
	if e.From == fromWIP {
		to, score = fromQueue, ""
	}
	args := []any{job.Raw, id, score}
	for _, p := range e.Parts[1:] {
		args = append(args, p)
	}
	keys := []string{s.set(to), s.body(id), s.held.List}
	return s.held.Return(ctx, returnScript, keys, args...)
}

// Left counts what is left; see cutover.Mover. Places without jobs aren't named.
func (s *Source) Left(ctx context.Context) (map[string]int64, error) {
	counts := map[string]*redis.IntCmd{}
	var mine *redis.StringSliceCmd
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		counts[fromQueue], counts["held"] = p.LLen(ctx, s.queue()), p.LLen(ctx, s.held.List)
		for _, set := range sets {
			if set.state != daybook.OldDone {
				counts[set.from] = p.ZCard(ctx, s.set(set.from))
			}
		}
		mine = p.SMembers(ctx, s.canaries())
		return nil
	})
	if err != nil {
		return nil, s.store.Err("counting the queue", err)
	}
	left := map[string]int64{}
	for from, count := range counts {
		left[from] = count.Val()
	}
	for _, id := range mine.Val() {
		if there, err := s.CanaryThere(ctx, id); err != nil {
			return nil, err
		} else if there {
			left[fromQueue]--
		}
	}
	for from, n := range left {
		if n <= 0 {
			delete(left, from)
		}
	}
	return left, nil
}

// Forget takes away canaries and the cutover's own keys. The suspension stays as
// it is. It is refused while jobs are held.
func (s *Source) Forget(ctx context.Context) error {
	n, err := s.held.Count(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		return daybook.Fail(daybook.CodeRefused, "%d jobs are held in %s: move or return them before what the cutover left "+
			"is forgotten", n, s.store.Name())
	}
	canaries, err := s.store.SMembers(ctx, s.canaries()).Result()
	if err != nil {
		return s.store.Err("looking for canaries", err)
	}
	for _, id := range canaries {
		if err := s.DropCanary(ctx, id); err != nil {
			return err
		}
	}
	return s.store.Err("forgetting the cutover", s.store.Del(ctx, s.canaries(), s.held.Counter, s.held.Fence()).Err())
}
