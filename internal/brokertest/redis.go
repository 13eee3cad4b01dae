package brokertest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Redis is a Redis server that keeps nothing on disk.
type Redis struct{ *Server }

// RedisProgram starts redis-server.
func RedisProgram() Program {
	return Program{
		Name: "redis-server", Install: "apt-get install -y redis-server",
		Args: func(port int, dir string) []string {
			return []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
				"--save", "", "--appendonly", "no"}
		},
		Ready: func(port int) bool {
			answer, err := ask(port, "PING")
			return err == nil && answer == "+PONG"
		},
	}
}

// StartRedis starts a server for a test, which stops it when it ends.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	return &Redis{Start(t, RedisProgram())}
}

// URL is where to connect to.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// Do sends a command of words without spaces and returns its raw answer.
func (r *Redis) Do(words ...string) (string, error) {
	answer, err := ask(r.Port(), strings.Join(words, " "))
	if err == nil && strings.HasPrefix(answer, "-") {
		err = fmt.Errorf("brokertest: redis answers %s", answer)
	}
	return answer, err
}

// Wipe removes all data, its scripts too.
func (r *Redis) Wipe() error {
	if _, err := r.Do("SCRIPT", "FLUSH"); err != nil {
		return err
	}
	_, err := r.Do("FLUSHALL")
	return err
}
