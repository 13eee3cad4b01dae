// Package oldqueue is a queue of Asynq's without Asynq: it does to a Redis what
// Asynq's producers and servers do, for drills and measurements that nothing but
// a Redis is wanted for. That real ones do the same is what cutover/e2e shows.
package oldqueue

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// Queue is one queue, with one server that works on it. Its methods may be called
// by several goroutines.
type Queue struct {
	redis *redis.Client
	name  string
}

// Open makes one of a URL without asking the server. The caller closes it.
func Open(url, name string) (*Queue, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, daybook.Invalid("url", "wants redis://host:port/0")
	}
	o.Protocol, o.DisableIdentity = 2, true
	return &Queue{redis: redis.NewClient(o), name: name}, nil
}

// Close ends the connections.
func (q *Queue) Close() error { return q.redis.Close() }

// Job is one that a producer, or an earlier life of the queue, left there.
type Job struct {
	ID    string
	Class string
	Args  []byte
	State daybook.OldState // waiting, later, retrying, dead or owner_lost
	Due   time.Time        // of later and retrying
}

func (q *Queue) key(name string) string { return "asynq:{" + q.name + "}:" + name }
func (q *Queue) hash(id string) string  { return q.key("t:" + id) }

// server is the name by which the queue's one server reports itself.
func (q *Queue) server() string { return "old:1:" + q.name }

// message is a job as Asynq writes it: a message of protocol buffers.
func (q *Queue) message(j Job, retried uint64, failed string) []byte {
	var m []byte
	text := func(field uint64, v string) {
		if v != "" {
			m = binary.AppendUvarint(m, field<<3|2)
			m = append(binary.AppendUvarint(m, uint64(len(v))), v...)
		}
	}
	number := func(field, v uint64) {
		if v != 0 {
			m = binary.AppendUvarint(binary.AppendUvarint(m, field<<3), v)
		}
	}
	text(1, j.Class)
	text(2, string(j.Args))
	text(3, j.ID)
	text(4, q.name)
	number(5, 25)
	number(6, retried)
	text(7, failed)
	number(8, 1800)
	return m
}

// Put lays jobs there, the first to be taken first.
func (q *Queue) Put(ctx context.Context, jobs ...Job) error {
	_, err := q.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, "asynq:queues", q.name)
		for _, j := range jobs {
			if err := q.put(ctx, p, j); err != nil {
				return err
			}
		}
		return nil
	})
	return away(err)
}

func (q *Queue) put(ctx context.Context, p redis.Pipeliner, j Job) error {
	set := func(name string, at time.Time) {
		p.ZAdd(ctx, q.key(name), redis.Z{Score: float64(at.Unix()), Member: j.ID})
	}
	hash := func(state string, retried uint64, failed string) {
		p.HSet(ctx, q.hash(j.ID), "msg", q.message(j, retried, failed), "state", state)
	}
	switch j.State {
	case daybook.OldWaiting:
		hash("pending", 0, "")
		p.LPush(ctx, q.key("pending"), j.ID)
	case daybook.OldLater:
		hash("scheduled", 0, "")
		set("scheduled", j.Due)
	case daybook.OldRetrying:
		hash("retry", 1, "boom")
		set("retry", j.Due)
	case daybook.OldDead:
		hash("archived", 25, "boom")
		set("archived", j.Due)
	case daybook.OldOwnerLost:
		hash("active", 0, "")
		p.LPush(ctx, q.key("active"), j.ID)
		set("lease", time.Now().Add(-time.Minute))
	default:
		return daybook.Invalid("state", "can't be laid there: %s", j.State)
	}
	return nil
}

// takeScript is a server's taking of a job, which looks at the pause each time.
// KEYS are the pause, the waiting list, the running list, the leases and the
// report; ARGV the prefix of hashes.
var takeScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local id = redis.call('RPOPLPUSH', KEYS[2], KEYS[3])
if not id then return false end
redis.call('ZADD', KEYS[4], redis.call('TIME')[1] + 30, id)
redis.call('HSET', ARGV[1] .. id, 'state', 'active')
redis.call('HSET', KEYS[5], id, 'runs')
return {id, redis.call('HGET', ARGV[1] .. id, 'msg')}
`)

// Take is a server's taking of one job. "" is that there is none, or that the
// queue is paused.
func (q *Queue) Take(ctx context.Context) (id string, err error) {
	if err := q.report(ctx); err != nil {
		return "", err
	}
	answer, err := takeScript.Run(ctx, q.redis, []string{q.key("paused"), q.key("pending"), q.key("active"),
		q.key("lease"), q.workers()}, q.hash("")).StringSlice()
	if err == redis.Nil || err == nil && len(answer) < 2 {
		return "", nil
	}
	if err != nil {
		return "", away(err)
	}
	return answer[0], nil
}

// doneScript is a server's word that it did a job. KEYS are the running list, the
// leases, the report and the hash; ARGV the id.
var doneScript = redis.NewScript(`
redis.call('HDEL', KEYS[3], ARGV[1])
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[4])
return 1
`)

// Done is a server's word that it did a job that it has.
func (q *Queue) Done(ctx context.Context, id string) error {
	if err := q.report(ctx); err != nil {
		return err
	}
	return away(doneScript.Run(ctx, q.redis, []string{q.key("active"), q.key("lease"), q.workers(), q.hash(id)}, id).Err())
}

// reportFor is how long a server counts as alive without another word.
const reportFor = time.Hour

func (q *Queue) workers() string { return "asynq:workers:{" + q.server() + "}" }

// report is the server's report of itself, which says that it lives and serves
// this queue.
func (q *Queue) report(ctx context.Context) error {
	var m []byte
	field := func(number uint64, text string) {
		m = binary.AppendUvarint(m, number<<3|2)
		m = append(binary.AppendUvarint(m, uint64(len(text))), text...)
	}
	entry := string(append([]byte{1<<3 | 2, byte(len(q.name))}, q.name...)) + "\x10\x01"
	field(1, "old")
	m = append(m, 2<<3, 1)
	field(3, q.name)
	field(5, entry)
	field(7, "active")
	until := float64(time.Now().Add(reportFor).Unix())
	key := "asynq:servers:{" + q.server() + "}"
	_, err := q.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, "asynq:servers", redis.Z{Score: until, Member: key})
		p.Set(ctx, key, m, reportFor)
		p.ZAdd(ctx, "asynq:workers", redis.Z{Score: until, Member: q.workers()})
		return nil
	})
	return away(err)
}

// Leave takes everything of the queue away, the server's reports too.
func (q *Queue) Leave(ctx context.Context) error {
	keys, err := q.redis.Keys(ctx, "asynq:{"+q.name+"}:*").Result()
	if err != nil {
		return away(err)
	}
	report := "asynq:servers:{" + q.server() + "}"
	_, err = q.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, append(keys, report, q.workers())...)
		p.ZRem(ctx, "asynq:servers", report)
		p.ZRem(ctx, "asynq:workers", q.workers())
		p.SRem(ctx, "asynq:queues", q.name)
		return nil
	})
	return away(err)
}

// Many lays n waiting jobs there that a measurement moves.
func (q *Queue) Many(ctx context.Context, n int) error {
	const batch = 1000
	for from := 0; from < n; from += batch {
		jobs := make([]Job, min(batch, n-from))
		for i := range jobs {
			number := strconv.Itoa(from + i)
			jobs[i] = Job{ID: "job-" + number, Class: "mail:send", State: daybook.OldWaiting,
				Args: fmt.Appendf(nil, `{"n":%s,"to":"somebody@example.com","about":"a job of a usual size"}`, number)}
		}
		if err := q.Put(ctx, jobs...); err != nil {
			return err
		}
	}
	return nil
}

func away(err error) error {
	if err == nil {
		return nil
	}
	return daybook.Unavailable("using the old queue", err)
}
