package redis

import "github.com/redis/go-redis/v9"

// ringScript leaves a ring in each list that isn't full. KEYS are rung and the
// lists; ARGV how many rings a list may have, how long it is kept in seconds,
// and for each list its queue and job.
//
// A queue stays in rung when its ring is taken straight from the list: whoever
// takes it from there finds the list empty and goes on.
var ringScript = redis.NewScript(`
local most, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - keep)
for i = 2, #KEYS do
	if redis.call('LLEN', KEYS[i]) < most then
		redis.call('RPUSH', KEYS[i], ARGV[2 * i])
	end
	redis.call('EXPIRE', KEYS[i], keep)
	redis.call('ZADD', KEYS[1], 'NX', now, ARGV[2 * i - 1])
end
redis.call('EXPIRE', KEYS[1], keep)
return #KEYS - 1
`)

// takeScript takes a ring of the queue that was taken out of rung, and puts the
// queue back when it has another. KEYS are rung and the list; ARGV the queue.
var takeScript = redis.NewScript(`
local job = redis.call('LPOP', KEYS[2])
if redis.call('EXISTS', KEYS[2]) == 1 then
	redis.call('ZADD', KEYS[1], 'NX', redis.call('TIME')[1], ARGV[1])
end
return job
`)

// againScript takes back a ring that was offered to the others, unless one of
// them has it: a listener to every queue that waited has taken the queue out of
// rung by now, and one to this queue the ring out of its list.
var againScript = redis.NewScript(`
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then
	return false
end
local job = redis.call('LPOP', KEYS[2])
if redis.call('EXISTS', KEYS[2]) == 1 then
	redis.call('ZADD', KEYS[1], 'NX', redis.call('TIME')[1], ARGV[1])
end
return job
`)
