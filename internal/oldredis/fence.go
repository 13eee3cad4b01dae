package oldredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// A rollback that is over must put nothing back any more, even by a process that
// looked at its phase while it wasn't, and stood still since: old workers may have
// done the job meanwhile. So the store has the name of the rollback that goes on,
// and what puts a job back looks for it in the same step.

// Fenced is a script that answers -1, and does nothing, unless its last key has its
// last argument, where that isn't "". The script itself sees neither.
func Fenced(script string) *redis.Script {
	return redis.NewScript(`
local fence, name = table.remove(KEYS), table.remove(ARGV)
if name ~= '' and redis.call('GET', fence) ~= name then return -1 end
` + script)
}

var endReturn = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

func (h Hold) fence() string { return h.List + ":returning" }

// BeginReturn says that a rollback of that name goes on, and has Return go by it
// from now on.
func (h *Hold) BeginReturn(ctx context.Context, name string) error {
	h.returning = name
	return h.Store.Err("beginning to put jobs back", h.Store.Set(ctx, h.fence(), name, 0).Err())
}

// EndReturn says that it is over, unless another one has begun.
func (h *Hold) EndReturn(ctx context.Context, name string) error {
	_, err := h.Store.Run(ctx, "ending to put jobs back", endReturn, []string{h.fence()}, name)
	return err
}

// Return runs a fenced script that puts one job back, and reports whether it did.
func (h *Hold) Return(ctx context.Context, script *redis.Script, keys []string, args ...any) (bool, error) {
	keys, args = append(keys, h.fence()), append(args, h.returning)
	n, err := h.Store.RunInt(ctx, "putting a job back", script, keys, args...)
	if n < 0 && err == nil {
		err = daybook.Fail(daybook.CodeFenced, "the rollback of cutover %s was ended by another process: nothing more "+
			"is put back", h.returning)
	}
	return n == 1, err
}
