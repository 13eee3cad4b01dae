package bullmq

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// lay puts a job into the held list with all of its hash, which goes, and with the
// key that keeps others of its deduplication id out, if that is its own.
const lay = `
local function lay(id, prefix, from, score, list, counter)
	local hash = prefix .. id
	local deid, left = redis.call('HGET', hash, 'deid'), -2
	if deid and redis.call('GET', prefix .. 'de:' .. deid) == id then
		left = redis.call('PTTL', prefix .. 'de:' .. deid)
	end
	local parts = {id, string.format('%.0f', left)}
	for _, part in ipairs(redis.call('HGETALL', hash)) do parts[#parts + 1] = part end
	local envelope = hold(list, counter, from, score, parts)
	redis.call('DEL', hash)
	if left ~= -2 then redis.call('DEL', prefix .. 'de:' .. deid) end
	return envelope
end
`

// takeList takes from the right end, past canaries; markers that older versions
// left there go. KEYS are the list, the held list, its counter, and the canaries;
// ARGV how many, bytes, the prefix of keys, and the list's word.
var takeList = oldredis.NewScript(lay + `
local canary = {}
for _, c in ipairs(redis.call('SMEMBERS', KEYS[4])) do canary[c] = true end
local at, took, size = -1, {}, 0
while #took < tonumber(ARGV[1]) and size < tonumber(ARGV[2]) do
	local id = redis.call('LINDEX', KEYS[1], at)
	if not id then break end
	if canary[id] then
		at = at - 1
	else
		if string.sub(id, 1, 2) ~= '0:' then
			local envelope = lay(id, ARGV[3], ARGV[4], nil, KEYS[2], KEYS[3])
			took[#took + 1], size = envelope, size + #envelope
		end
		if at == -1 then redis.call('RPOP', KEYS[1]) else redis.call('LREM', KEYS[1], -1, id) end
	end
end
return took
`)

// takeSet takes those of the lowest scores. KEYS and ARGV as before.
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

// Take takes waiting jobs first, then prioritized, delayed and failed ones; see
// cutover.Mover.
func (s *Source) Take(ctx context.Context, n int) ([]daybook.OldJob, error) {
	var raws [][]byte
	for _, place := range places {
		if !place.state.Movable() {
			continue
		}
		script := takeList
		if place.kind == oldredis.Sorted {
			script = takeSet
		}
		keys := []string{s.key(place.from), s.held.List, s.held.Counter, s.canaries()}
		some, err := oldredis.TakeUpTo(ctx, n-len(raws), func(ctx context.Context, n int) ([][]byte, error) {
			answer, err := s.held.Run(ctx, "taking jobs", script, keys, n, oldredis.TakeMostBytes, s.key(""), place.from)
			return oldredis.Envelopes(answer), err
		})
		raws = append(raws, some...)
		if err != nil {
			return nil, err // what was taken is held
		}
	}
	return jobsOf(raws)
}

// jobsOf reads held jobs.
func jobsOf(raws [][]byte) ([]daybook.OldJob, error) {
	jobs := make([]daybook.OldJob, 0, len(raws))
	for _, raw := range raws {
		e, err := oldredis.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		fields := map[string]string{}
		for i := 2; i+1 < len(e.Parts); i += 2 {
			fields[string(e.Parts[i])] = string(e.Parts[i+1])
		}
		job := jobOf(string(e.Parts[0]), fields, stateOf(e.From))
		switch e.From {
		case "delayed":
			score, err := strconv.ParseFloat(e.Score, 64)
			if err == nil {
				later(&job, score)
			}
		case "active":
			job.State, job.Owner = daybook.OldOwnerLost, fields["pb"]
			job.OwnerSeen = millis(fields["processedOn"])
		}
		job.Raw = raw
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// takeLost takes a running job whose lock has run out. KEYS are the list, the
// lock, the stalled set, the held list and its counter; ARGV the id and the prefix
// of keys.
var takeLost = oldredis.NewScript(lay + `
if redis.call('EXISTS', KEYS[2]) == 1 or not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
lay(ARGV[1], ARGV[2], 'active', nil, KEYS[4], KEYS[5])
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
return 1
`)

// TakeLost takes a running job whose lock has run out; see cutover.Mover. If its
// worker lives after all and ends it, BullMQ says "Missing key for job" and
// nothing else.
func (s *Source) TakeLost(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	id := string(e.Parts[0])
	n, err := s.held.RunInt(ctx, "taking a lost job", takeLost,
		[]string{s.key("active"), s.key(id + ":lock"), s.key("stalled"), s.held.List, s.held.Counter}, id, s.key(""))
	return n == 1, err
}

// Held lists held jobs, oldest first.
func (s *Source) Held(ctx context.Context, n int) ([]daybook.OldJob, error) {
	raws, err := s.held.Held(ctx, n)
	if err != nil {
		return nil, err
	}
	return jobsOf(raws)
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

// returnScript puts a job back, its deduplication too if nobody else has that
// now. KEYS are where to, the hash, the held list, and the deduplication's key;
// ARGV the envelope, the id, the score or "", the deduplication's life, and the
// hash's fields.
var returnScript = oldredis.Fenced(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if ARGV[3] == '' and redis.call('LPOS', KEYS[1], ARGV[2]) then return 0 end
if #ARGV > 4 then
	local hash = {}
	for i = 5, #ARGV do hash[#hash + 1] = ARGV[i] end
	redis.call('HSET', KEYS[2], unpack(hash))
end
if ARGV[4] ~= '-2' and redis.call('SETNX', KEYS[4], ARGV[2]) == 1 and tonumber(ARGV[4]) > 0 then
	redis.call('PEXPIRE', KEYS[4], ARGV[4])
end
if ARGV[3] ~= '' then
	redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
else
	redis.call('RPUSH', KEYS[1], ARGV[2])
end
redis.call('LREM', KEYS[3], 1, ARGV[1])
return 1
`)

// Return puts a job back; see cutover.Mover. A waiting or a lost one comes to the
// taking end. An idle worker finds it when it next looks, which is within five
// seconds.
func (s *Source) Return(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	if len(e.Parts) < 2 {
		return false, daybook.Fail(daybook.CodeInvalid, "what was kept of a job of BullMQ isn't whole")
	}
	id, to, deid := string(e.Parts[0]), e.From, ""
	if to == "active" {
		to = "wait"
	}
	args := []any{job.Raw, id, e.Score}
	for i, p := range e.Parts[1:] {
		if args = append(args, p); i%2 == 1 && string(p) == "deid" && i+2 < len(e.Parts) {
			deid = string(e.Parts[i+2])
		}
	}
	return s.held.Return(ctx, returnScript, []string{s.key(to), s.key(id), s.held.List, s.key("de:" + deid)}, args...)
}

// Left counts what is left; see cutover.Mover. Places without jobs aren't named.
func (s *Source) Left(ctx context.Context) (map[string]int64, error) {
	counts := map[string]*redis.IntCmd{}
	var mine *redis.StringSliceCmd
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		counts["held"] = p.LLen(ctx, s.held.List)
		for _, place := range places {
			switch {
			case place.state == daybook.OldDone:
			case isList(place.from):
				counts[place.from] = p.LLen(ctx, s.key(place.from))
			default:
				counts[place.from] = p.ZCard(ctx, s.key(place.from))
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
			left["wait"]--
		}
	}
	for from, n := range left {
		if n <= 0 {
			delete(left, from)
		}
	}
	return left, nil
}

// Forget takes away canaries and the cutover's own keys. The pause stays as it is.
// It is refused while jobs are held.
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
