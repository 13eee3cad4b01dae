package sidekiq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Sidekiq without Pro has no pause for a queue. Two gates do, and both are what
// its processes can't argue with:
//
//   - Options.WorkersUser: that Redis user loses the commands by which jobs are
//     taken. It holds for processes that start later too, and for all queues.
//   - Otherwise each process that listens to the queue is told to be quiet
//     (TSTP): it finishes what it has, takes nothing new from any queue, and
//     moves no due job, until it is restarted. So that a process which starts
//     meanwhile finds nothing, the waiting list is set aside under another name.
//
// Neither stops producers: what they add lies in the queue, open to processes
// that start later where the gate is the second one.

// Words that the gate's key has.
const (
	byQuiet = "quiet"
	byRight = "rights"
)

// asideScript closes: it notes how, and moves up to ARGV[2] jobs from the queue
// behind those aside; all at once when nothing is aside. Canaries stay in the
// queue. KEYS are queue, aside, gate, canaries; ARGV how, how many. It answers
// how many are left in the queue.
var asideScript = oldredis.Fenced(`
local mine, stay = {}, {}
for _, c in ipairs(redis.call('HVALS', KEYS[4])) do mine[c] = true end
redis.call('SET', KEYS[3], ARGV[1], 'NX')
for c in pairs(mine) do
	if redis.call('LREM', KEYS[1], -1, c) > 0 then stay[#stay + 1] = c end
end
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('EXISTS', KEYS[2]) == 0 then
	redis.call('RENAME', KEYS[1], KEYS[2])
end
for i = 1, tonumber(ARGV[2]) do
	local job = redis.call('LINDEX', KEYS[1], -1)
	if not job then break end
	redis.call('LPUSH', KEYS[2], job)
	redis.call('RPOP', KEYS[1])
end
local left = redis.call('LLEN', KEYS[1])
for _, c in ipairs(stay) do redis.call('RPUSH', KEYS[1], c) end
return left
`)

// backScript opens: it moves up to ARGV[1] jobs from aside to the queue's taking
// end, newest first, so that the oldest is taken first in the end. It answers how
// many are left aside, and with none left the gate's key is gone.
var backScript = oldredis.Fenced(`
if redis.call('EXISTS', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[1]) == 0 then
	redis.call('RENAME', KEYS[2], KEYS[1])
end
for i = 1, tonumber(ARGV[1]) do
	local job = redis.call('LINDEX', KEYS[2], 0)
	if not job then break end
	redis.call('RPUSH', KEYS[1], job)
	redis.call('LPOP', KEYS[2])
end
local left = redis.call('LLEN', KEYS[2])
if left == 0 then redis.call('DEL', KEYS[3]) end
return left
`)

// gateStep is how many jobs one script moves.
const gateStep = 1000

// CloseGate closes it, and tells processes that came since the last call.
func (s *Source) CloseGate(ctx context.Context) error {
	gate, err := s.noted(ctx)
	if err != nil {
		return err
	}
	if user, _ := s.gateUser(gate); user != "" {
		return s.takeRights(ctx, user)
	}
	keys := []string{s.queue(), s.aside(), s.gate(), s.canaries()}
	for {
		left, err := s.held.RunInt(ctx, "closing the gate", asideScript, keys, byQuiet, gateStep)
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
	}
	processes, err := s.listening(ctx)
	if err != nil {
		return err
	}
	_, err = s.store.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range processes {
			if !one.quiet { // it takes one signal each five seconds, and forgets none
				p.LPush(ctx, s.key(one.identity+"-signals"), "TSTP")
				p.Expire(ctx, s.key(one.identity+"-signals"), time.Minute)
			}
		}
		return nil
	})
	if err == redis.Nil {
		err = nil
	}
	return s.store.Err("telling processes to be quiet", err)
}

// OpenGate opens it. Processes that were told to be quiet stay so until they are
// restarted.
func (s *Source) OpenGate(ctx context.Context) error {
	if err := s.giveRights(ctx); err != nil {
		return err
	}
	for {
		left, err := s.held.RunInt(ctx, "opening the gate", backScript, []string{s.queue(), s.aside(), s.gate()}, gateStep)
		if err != nil || left == 0 {
			return err
		}
	}
}

// listening are the processes that take from this queue.
func (s *Source) listening(ctx context.Context) ([]*process, error) {
	all, err := s.processes(ctx)
	return slices.DeleteFunc(all, func(p *process) bool { return p.gone || !slices.Contains(p.queues, s.o.Queue) }), err
}

// GateState looks at the gate; see cutover.Gate. It is closed when its key is
// there and the workers' user has no right to take jobs, which a restart of Redis
// may give back, or, where processes were told, each of them said that it is
// quiet; a silent one counts until Sidekiq itself has forgotten it, which takes a
// minute.
func (s *Source) GateState(ctx context.Context) (cutover.GateState, error) {
	how, err := s.noted(ctx)
	if err != nil {
		return cutover.GateState{}, err
	}
	processes, err := s.listening(ctx)
	if err != nil {
		return cutover.GateState{}, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return cutover.GateState{}, err
	}
	g := cutover.GateState{Closed: how != ""}
	others := map[string]bool{}
	for _, p := range processes {
		g.Claimants = append(g.Claimants, cutover.Claimant{Name: p.identity, Quiet: p.quiet, Seen: p.seen(now, true),
			Busy: p.busy})
		if strings.HasPrefix(how, byQuiet) && !p.quiet {
			g.Closed = false
		}
		for _, q := range p.queues {
			if q != s.o.Queue {
				others[q] = true
			}
		}
	}
	if g.How = s.how(how); how != "" && !g.Closed {
		g.How += ", and not each of them has said that it is (a dead one counts for a minute)"
	}
	if how == "" {
		return g, nil
	}
	if strings.HasPrefix(how, byRight) {
		if g, err = s.stillTaken(ctx, g, how); err != nil {
			return g, err
		}
	}
	g.Leaks, err = s.leaks(ctx, how, others)
	return g, err
}

// stillTaken looks whether the workers' user may take jobs again.
func (s *Source) stillTaken(ctx context.Context, g cutover.GateState, how string) (cutover.GateState, error) {
	user, _ := s.gateUser(how)
	has, err := s.rights(ctx, user)
	if daybook.CodeOf(err) == daybook.CodeNotFound {
		return g, nil // then nobody logs in as it
	}
	if len(has) > 0 {
		g.Closed, g.How = false, fmt.Sprintf("the Redis user %q may take jobs again (%s)", user, has[0])
	}
	return g, err
}

func (s *Source) how(gate string) string {
	switch {
	case strings.HasPrefix(gate, byRight):
		return "the Redis user of the workers may not take jobs"
	case gate != "":
		return "processes were told to be quiet (TSTP), and the waiting list is set aside as " + s.aside()
	}
	return "open"
}

// leaks says what a closed gate lets through.
func (s *Source) leaks(ctx context.Context, how string, others map[string]bool) ([]string, error) {
	var leaks []string
	if strings.HasPrefix(how, byRight) {
		leaks = append(leaks, "a worker that logs in as another user than the gate's isn't stopped")
	} else {
		leaks = append(leaks, "a Sidekiq process that starts from now on takes what comes to the queue, and due jobs of "+
			"the schedule and retry sets: let none start (0 replicas), and close the gate again after one did")
	}
	if len(others) > 0 {
		names := make([]string, 0, len(others))
		for q := range others {
			names = append(names, fmt.Sprintf("%q", q))
		}
		slices.Sort(names)
		leaks = append(leaks, "its processes take nothing from their other queues either: "+
			strings.Join(names[:min(5, len(names))], ", "))
	}
	arrived, err := s.waiting(ctx, s.queue())
	if err != nil {
		return nil, err
	}
	if arrived > 0 && strings.HasPrefix(how, byQuiet) {
		leaks = append(leaks, fmt.Sprintf("%d jobs came to %s since the gate was closed", arrived, s.queue()))
	}
	reliable, err := s.workingLists(ctx)
	if len(reliable) > 0 {
		leaks = append(leaks, "reliable fetch: any of its processes puts the jobs of dead ones back into the queue, and "+
			"those it interrupts")
	}
	return leaks, err
}

// waiting counts a waiting list without canaries.
func (s *Source) waiting(ctx context.Context, list string) (int64, error) {
	var n *redis.IntCmd
	var mine *redis.StringSliceCmd
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		n, mine = p.LLen(ctx, list), p.HVals(ctx, s.canaries())
		return nil
	})
	if err != nil {
		return 0, s.store.Err("counting the queue", err)
	}
	count := n.Val()
	for _, c := range mine.Val() {
		if there, err := s.lies(ctx, list, c); err != nil {
			return 0, err
		} else if there {
			count--
		}
	}
	return count, nil
}

// lies reports whether a list has an element, looking from the taking end.
func (s *Source) lies(ctx context.Context, list, element string) (bool, error) {
	err := s.store.LPos(ctx, list, element, redis.LPosArgs{Rank: -1}).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, s.store.Err("looking into the queue", err)
}

// canaryScript lays a canary at the taking end, once.
var canaryScript = oldredis.Fenced(`
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('LREM', KEYS[1], -1, ARGV[2])
redis.call('RPUSH', KEYS[1], ARGV[2])
return 1
`)

// canary is its job: the same bytes each time. A process that takes it finds no
// such class, and "retry": false has it forgotten then.
func (s *Source) canary(id string) string {
	text, _ := json.Marshal(map[string]any{"class": cutover.CanaryClass, "args": []any{}, "jid": id, "queue": s.o.Queue,
		"retry": false, "created_at": 1, "enqueued_at": 1})
	return string(text)
}

// PutCanary lays it where the next process would take it.
func (s *Source) PutCanary(ctx context.Context, id string) error {
	_, err := s.held.Run(ctx, "laying the canary", canaryScript, []string{s.queue(), s.canaries()}, id, s.canary(id))
	return err
}

// CanaryThere reports whether nobody has taken it.
func (s *Source) CanaryThere(ctx context.Context, id string) (bool, error) {
	return s.lies(ctx, s.queue(), s.canary(id))
}

// DropCanary takes it away.
func (s *Source) DropCanary(ctx context.Context, id string) error {
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LRem(ctx, s.queue(), -1, s.canary(id))
		p.HDel(ctx, s.canaries(), id)
		return nil
	})
	return s.store.Err("taking the canary away", err)
}

// LongestTake: a process looks for signals every five seconds, basic fetch waits
// two for a job, and reliable fetch looks again after five.
func (s *Source) LongestTake() time.Duration {
	if s.o.WorkersUser != "" {
		return 5 * time.Second // a wait that had begun may still be served
	}
	return 15 * time.Second
}
