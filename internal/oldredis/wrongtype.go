package oldredis

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// wrongType is Redis's word that something else lies under a key, with the key, which
// it doesn't say.
type wrongType struct {
	said redis.Error
	key  string
}

func (w wrongType) Error() string { return w.said.Error() }

// RedisError says that it is an answer of Redis.
func (wrongType) RedisError() {}

func (w wrongType) Unwrap() error { return w.said }

// namesKeys is a hook that has each such answer name its key. What a script came upon
// stays unknown.
type namesKeys struct{}

func (namesKeys) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (namesKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return named(cmd, next(ctx, cmd)) }
}

func (namesKeys) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if was := cmd.Err(); was != nil && was == err {
				err = named(cmd, was)
			} else {
				named(cmd, was)
			}
		}
		return err
	}
}

// named is a command's error with its key, which the command has from then on.
func named(cmd redis.Cmder, err error) error {
	answer, ok := err.(redis.Error)
	args := cmd.Args()
	if !ok || !strings.HasPrefix(answer.Error(), "WRONGTYPE") || len(args) < 2 || strings.HasPrefix(cmd.Name(), "eval") {
		return err
	}
	err = wrongType{answer, fmt.Sprint(args[1])}
	cmd.SetErr(err)
	return err
}

// keyCut shows a key in an error.
func keyCut(key string) string {
	const most = 120
	if len(key) > most {
		return strconv.QuoteToASCII(key[:most]) + "…"
	}
	return strconv.QuoteToASCII(key)
}
