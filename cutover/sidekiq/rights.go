package sidekiq

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// taking are the commands by which Sidekiq's processes take jobs: basic and
// reliable fetch, and the script by which due jobs go to their queues. "rpop"
// isn't here: a process reads its signals with it.
var taking = []string{"brpop", "brpoplpush", "rpoplpush", "lmove", "blmove", "blpop", "lmpop", "blmpop", "eval",
	"evalsha"}

// noteScript notes what the user had before it is taken, and only the first time:
// a gate of the other kind that is closed as well stays as it is. KEYS gate; ARGV
// what begins such notes, the note.
var noteScript = oldredis.Fenced(`
local was = redis.call('GET', KEYS[1])
if not was or string.sub(was, 1, #ARGV[1]) ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end
return 1
`)

// takeRights closes the gate for the workers' user. Connections are left alone:
// one that is cut while Redis serves it would lose the job it was given, and a
// wait that had begun ends within two seconds.
func (s *Source) takeRights(ctx context.Context, user string) error {
	us, err := s.store.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		return s.store.Err("asking who we are", err)
	}
	if us == user {
		return daybook.Fail(daybook.CodeRefused, "the cutover logs in as %q, which is the workers' own user: give it "+
			"another one, or it would lock itself out", us)
	}
	had, err := s.rights(ctx, user)
	if err != nil {
		return err
	}
	note := byRight + ":" + user + " " + strings.Join(had, " ")
	if _, err := s.held.Run(ctx, "closing the gate", noteScript, []string{s.gate()}, byRight, note); err != nil {
		return err
	}
	return s.setRights(ctx, user, "-", taking)
}

// gateUser is the workers' user: whom the gate was closed for, else whom this
// cutover was told; "" is none. had is what the user had before.
func (s *Source) gateUser(gate string) (user string, had []string) {
	words := strings.Fields(gate)
	if len(words) == 0 || !strings.HasPrefix(words[0], byRight+":") {
		return s.o.WorkersUser, nil
	}
	return strings.TrimPrefix(words[0], byRight+":"), words[1:]
}

// noted is what the gate's key says, "" where it is open.
func (s *Source) noted(ctx context.Context) (string, error) {
	gate, err := s.store.Get(ctx, s.gate()).Result()
	if err != nil && err != redis.Nil {
		return "", s.store.Err("looking at the gate", err)
	}
	return gate, nil
}

// rights are the commands of taking that the user has.
func (s *Source) rights(ctx context.Context, user string) ([]string, error) {
	var had []string
	for _, command := range taking {
		args := []any{"ACL", "DRYRUN", user, command}
		for range map[string]int{"brpop": 2, "blpop": 2, "brpoplpush": 3, "rpoplpush": 2, "lmove": 4, "blmove": 5, "lmpop": 3,
			"blmpop": 4, "eval": 2, "evalsha": 2}[command] {
			args = append(args, "0")
		}
		answer, err := s.store.Do(ctx, args...).Text()
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil, daybook.Fail(daybook.CodeNotFound, "%s has no user %q that the workers could log in as",
				s.store.Name(), user)
		}
		if err != nil {
			return nil, s.store.Err("asking for the workers' rights (Redis 7 is the first that tells)", err)
		}
		if answer == "OK" || !strings.Contains(answer, "permissions to run") {
			had = append(had, command)
		}
	}
	return had, nil
}

// giveRights gives back what the gate took, if it was that kind of gate.
func (s *Source) giveRights(ctx context.Context) error {
	gate, err := s.noted(ctx)
	if err != nil {
		return err
	}
	user, had := s.gateUser(gate)
	if len(had) == 0 {
		return nil
	}
	return s.setRights(ctx, user, "+", had)
}

func (s *Source) setRights(ctx context.Context, user, sign string, commands []string) error {
	args := []any{"ACL", "SETUSER", user}
	for _, c := range commands {
		args = append(args, sign+c)
	}
	return s.store.Err("changing the workers' rights", s.store.Do(ctx, args...).Err())
}
