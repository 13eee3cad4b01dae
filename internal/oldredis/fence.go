package oldredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// A process that looked at a cutover's phase and then stood still must change
// nothing in the old store once another one has gone on from there: what it would
// take nobody would give back, and what it would put back old workers may have done
// meanwhile. So the store itself has how far which cutover is, its stage and its
// name, and whatever changes the queue looks for it in the same step.
const (
	taking    = "taking"
	returning = "returning"
	returned  = "returned" // for a while longer: see tombstone
)

// tombstone is how long the store keeps that a rollback is over.
const tombstone = 30 * 24 * time.Hour

// guard is what begins a fenced script: it answers -1, and does nothing, unless its
// last key has its last argument, where that isn't "". The script itself sees
// neither.
const guard = `
local fence, stage = table.remove(KEYS), table.remove(ARGV)
if stage ~= '' and redis.call('GET', fence) ~= stage then return -1 end
`

// Fenced is a script for Hold.Run.
func Fenced(script string) *redis.Script { return redis.NewScript(guard + script) }

// beginStage notes a stage of a cutover, unless the same cutover is further. KEYS are
// the fence; ARGV the stage, the name, and how many seconds it is kept, 0 for ever.
var beginStage = redis.NewScript(`
local order = {taking = 1, returning = 2, returned = 3}
local stage, name = string.match(redis.call('GET', KEYS[1]) or '', '^(%l+) (.*)$')
if name == ARGV[2] and (order[stage] or 0) > order[ARGV[1]] then return -1 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
if ARGV[3] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
return 1
`)

// endStage notes that a rollback is over, unless another cutover is under way. KEYS
// and ARGV are those of beginStage.
var endStage = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= 'returning ' .. ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'EX', ARGV[3])
return 1
`)

// Fence is the key that has the stage.
func (h Hold) Fence() string { return h.List + ":stage" }

// BeginTake says that the cutover of that name takes from the queue, and has all that
// follows go by it. It is refused once its rollback has begun.
func (h *Hold) BeginTake(ctx context.Context, name string) error {
	return h.begin(ctx, "beginning to take jobs", beginStage, taking, name, 0)
}

// BeginReturn says that its rollback goes on, and has all that follows go by it. It
// is refused once the rollback is over.
func (h *Hold) BeginReturn(ctx context.Context, name string) error {
	return h.begin(ctx, "beginning to put jobs back", beginStage, returning, name, 0)
}

// EndReturn says that it is over, unless another cutover has begun; what follows goes
// by that.
func (h *Hold) EndReturn(ctx context.Context, name string) error {
	return h.begin(ctx, "ending to put jobs back", endStage, returned, name, tombstone)
}

func (h *Hold) begin(ctx context.Context, doing string, script *redis.Script, stage, name string,
	keep time.Duration) error {
	n, err := h.Store.RunInt(ctx, doing, script, []string{h.Fence()}, stage, name, int64(keep/time.Second))
	switch {
	case err != nil:
		return err
	case n < 0:
		return fencedOff(stage, name)
	}
	h.stage, h.name = stage, name
	return nil
}

// fencedOff is the answer to who is too late.
func fencedOff(stage, name string) error {
	if stage == taking {
		return daybook.Fail(daybook.CodeFenced, "cutover %s is being rolled back by another process, or another cutover of "+
			"the queue has begun: nothing more is taken", name)
	}
	return daybook.Fail(daybook.CodeFenced, "the rollback of cutover %s was ended by another process: nothing more "+
		"is put back", name)
}

// Run runs a fenced script at the stage that was begun last. Where none was begun,
// it isn't asked for.
func (h *Hold) Run(ctx context.Context, doing string, script *redis.Script, keys []string, args ...any) (any, error) {
	stage := ""
	if h.stage != "" {
		stage = h.stage + " " + h.name
	}
	answer, err := h.Store.Run(ctx, doing, script, append(keys, h.Fence()), append(args, stage)...)
	if n, ok := answer.(int64); ok && n < 0 && err == nil {
		return nil, fencedOff(h.stage, h.name)
	}
	return answer, err
}

// RunInt runs one that answers a number, 0 or more.
func (h *Hold) RunInt(ctx context.Context, doing string, script *redis.Script, keys []string, args ...any) (
	int64, error) {
	answer, err := h.Run(ctx, doing, script, keys, args...)
	n, _ := answer.(int64)
	return n, err
}

// Return runs one that puts one job back, and reports whether it did.
func (h *Hold) Return(ctx context.Context, script *redis.Script, keys []string, args ...any) (bool, error) {
	n, err := h.RunInt(ctx, "putting a job back", script, keys, args...)
	return n == 1, err
}
