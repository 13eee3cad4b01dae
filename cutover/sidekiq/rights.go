package sidekiq

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// taking are the commands by which Sidekiq's processes take jobs: basic and
// reliable fetch, and the script by which due jobs go to their queues. "rpop"
// isn't here: a process reads its signals with it.
var taking = []string{"brpop", "brpoplpush", "rpoplpush", "lmove", "blmove", "blpop", "lmpop", "blmpop", "eval",
	"evalsha"}

// takeRights closes the gate for the workers' user. Connections are left alone:
// one that is cut while Redis serves it would lose the job it was given, and a
// wait that had begun ends within two seconds.
func (s *Source) takeRights(ctx context.Context) error {
	us, err := s.store.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		return s.store.Err("asking who we are", err)
	}
	if us == s.o.WorkersUser {
		return daybook.Fail(daybook.CodeRefused, "the cutover logs in as %q, which is the workers' own user: give it "+
			"another one, or it would lock itself out", us)
	}
	had, err := s.rights(ctx)
	if err != nil {
		return err
	}
	// What the user had is noted before it is taken, and only the first time.
	if err := s.store.SetNX(ctx, s.gate(), byRight+" "+strings.Join(had, " "), 0).Err(); err != nil {
		return s.store.Err("closing the gate", err)
	}
	return s.setRights(ctx, "-", taking)
}

// rights are the commands of taking that the user has.
func (s *Source) rights(ctx context.Context) ([]string, error) {
	var had []string
	for _, command := range taking {
		args := []any{"ACL", "DRYRUN", s.o.WorkersUser, command}
		for range map[string]int{"brpop": 2, "blpop": 2, "brpoplpush": 3, "rpoplpush": 2, "lmove": 4, "blmove": 5, "lmpop": 3,
			"blmpop": 4, "eval": 2, "evalsha": 2}[command] {
			args = append(args, "0")
		}
		answer, err := s.store.Do(ctx, args...).Text()
		if err != nil && strings.Contains(err.Error(), "not found") {
			return nil, daybook.Fail(daybook.CodeNotFound, "%s has no user %q that the workers could log in as",
				s.store.Name(), s.o.WorkersUser)
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
	gate, err := s.store.Get(ctx, s.gate()).Result()
	if err != nil && err != redis.Nil {
		return s.store.Err("looking at the gate", err)
	}
	words := strings.Fields(gate)
	if len(words) < 2 || words[0] != byRight {
		return nil
	}
	if s.o.WorkersUser == "" {
		return daybook.Fail(daybook.CodeRefused, "the gate was closed by rights of the workers' Redis user: name that "+
			"user to open it")
	}
	return s.setRights(ctx, "+", words[1:])
}

func (s *Source) setRights(ctx context.Context, sign string, commands []string) error {
	args := []any{"ACL", "SETUSER", s.o.WorkersUser}
	for _, c := range commands {
		args = append(args, sign+c)
	}
	return s.store.Err("changing the workers' rights", s.store.Do(ctx, args...).Err())
}
