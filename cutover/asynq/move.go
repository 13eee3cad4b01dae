package asynq

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// lay puts a job into the held list with all of its hash, and marks the hash.
const lay = `
local function lay(id, prefix, from, score, list, counter)
	local parts = {id}
	for _, part in ipairs(redis.call('HGETALL', prefix .. id)) do parts[#parts + 1] = part end
	local envelope = hold(list, counter, from, score, parts)
	if #parts > 1 then redis.call('HSET', prefix .. id, 'state', 'held') end
	return envelope
end
`

// takePending takes from the right end, past canaries. KEYS are the list, the
// held list, its counter, and the canaries; ARGV how many, bytes, and the prefix
// of hashes.
var takePending = oldredis.NewScript(lay + `
local canary = {}
for _, c in ipairs(redis.call('SMEMBERS', KEYS[4])) do canary[c] = true end
local at, took, size = -1, {}, 0
while #took < tonumber(ARGV[1]) and size < tonumber(ARGV[2]) do
	local id = redis.call('LINDEX', KEYS[1], at)
	if not id then break end
	if canary[id] then
		at = at - 1
	else
		local envelope = lay(id, ARGV[3], 'pending', nil, KEYS[2], KEYS[3])
		took[#took + 1], size = envelope, size + #envelope
		if at == -1 then redis.call('RPOP', KEYS[1]) else redis.call('LREM', KEYS[1], -1, id) end
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

// Take takes waiting jobs first, then retrying, scheduled and archived ones; see
// cutover.Mover.
func (s *Source) Take(ctx context.Context, n int) ([]daybook.OldJob, error) {
	var raws [][]byte
	takeFrom := func(from string, script *redis.Script) error {
		keys := []string{s.key(from), s.held.List, s.held.Counter, s.canaries()}
		some, err := oldredis.TakeUpTo(ctx, n-len(raws), func(ctx context.Context, n int) ([][]byte, error) {
			answer, err := s.held.Run(ctx, "taking jobs", script, keys, n, oldredis.TakeMostBytes, s.body(""), from)
			return oldredis.Envelopes(answer), err
		})
		raws = append(raws, some...)
		return err // what was taken is held
	}
	if err := takeFrom(inPending, takePending); err != nil {
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
	return jobsOf(raws)
}

// fieldsOf is the hash in an envelope.
func fieldsOf(e oldredis.Envelope) map[string]string {
	fields := map[string]string{}
	for i := 1; i+1 < len(e.Parts); i += 2 {
		fields[string(e.Parts[i])] = string(e.Parts[i+1])
	}
	return fields
}

// jobsOf reads held jobs.
func jobsOf(raws [][]byte) ([]daybook.OldJob, error) {
	jobs := make([]daybook.OldJob, 0, len(raws))
	for _, raw := range raws {
		e, err := oldredis.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		job := jobOf(string(e.Parts[0]), fieldsOf(e), stateOf(e.From))
		if job.State == daybook.OldLater || job.State == daybook.OldRetrying {
			job.DueAt = e.ScoreTime()
		}
		job.Raw = raw
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// takeLost takes a running job whose lease has ended. KEYS are the list, the
// leases, the held list and its counter; ARGV the id and the prefix of hashes.
var takeLost = oldredis.NewScript(lay + `
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if lease and tonumber(lease) > tonumber(redis.call('TIME')[1]) then return 0 end
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
lay(ARGV[1], ARGV[2], 'active', nil, KEYS[3], KEYS[4])
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
`)

// TakeLost takes a running job whose lease has ended, by the store's clock, and
// which no server reports; see cutover.Mover. If its worker lives after all and
// ends it, Asynq tells nobody.
func (s *Source) TakeLost(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	id := string(e.Parts[0])
	owned, err := s.Owned(ctx)
	if err != nil {
		return false, err
	}
	for _, other := range owned {
		if other.ID == id && other.State == daybook.OldOwned {
			return false, nil
		}
	}
	n, err := s.held.RunInt(ctx, "taking a lost job", takeLost,
		[]string{s.key(inActive), s.key("lease"), s.held.List, s.held.Counter}, id, s.body(""))
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

// dropScript takes envelopes out of the held list. What stays of the hash is that
// it is there, and the lock that Forget will look after. KEYS is the held list;
// ARGV the prefix of hashes, then envelopes and ids by turns.
var dropScript = oldredis.Fenced(`
for i = 2, #ARGV, 2 do
	local hash = ARGV[1] .. ARGV[i + 1]
	if redis.call('LREM', KEYS[1], 1, ARGV[i]) == 1 and redis.call('HGET', hash, 'state') == 'held' then
		local lock = redis.call('HGET', hash, 'unique_key')
		redis.call('DEL', hash)
		redis.call('HSET', hash, 'state', 'moved')
		if lock then redis.call('HSET', hash, 'unique_key', lock) end
	end
end
return 1
`)

// Drop takes jobs out of the held list and leaves their ids taken.
func (s *Source) Drop(ctx context.Context, jobs []daybook.OldJob) error {
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), oldredis.TakeMost)]
		jobs = jobs[len(some):]
		args := []any{s.body("")}
		for _, job := range some {
			e, err := oldredis.ParseEnvelope(job.Raw)
			if err != nil {
				return err
			}
			args = append(args, job.Raw, e.Parts[0])
		}
		if _, err := s.held.Run(ctx, "emptying the held list", dropScript, []string{s.held.List}, args...); err != nil {
			return err
		}
	}
	return nil
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
// ARGV the envelope, the id, the score or "", and the hash's fields.
var returnScript = oldredis.Fenced(`
local state = redis.call('HGET', KEYS[2], 'state')
if redis.call('EXISTS', KEYS[2]) == 1 and state ~= 'held' and state ~= 'moved' then return 0 end
if ARGV[3] == '' and redis.call('LPOS', KEYS[1], ARGV[2]) then return 0 end
if #ARGV > 3 then
	local put = {}
	for i = 4, #ARGV do put[#put + 1] = ARGV[i] end
	redis.call('DEL', KEYS[2])
	redis.call('HSET', KEYS[2], unpack(put))
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
// taking end.
func (s *Source) Return(ctx context.Context, job daybook.OldJob) (bool, error) {
	e, err := oldredis.ParseEnvelope(job.Raw)
	if err != nil {
		return false, err
	}
	id, to := string(e.Parts[0]), e.From
	args := []any{job.Raw, id, e.Score}
	for _, p := range e.Parts[1:] {
		args = append(args, p)
	}
	if e.From == inActive {
		to = inPending // as Asynq does with what a server gives back
		for i := 3; i+1 < len(args); i += 2 {
			if name, _ := args[i].([]byte); string(name) == "state" {
				args[i+1] = inPending
			}
		}
	}
	keys := []string{s.key(to), s.body(id), s.held.List}
	return s.held.Return(ctx, returnScript, keys, args...)
}
