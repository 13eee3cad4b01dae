package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook/internal/testserver"
)

const redisMissing = "redis-server is not installed; on Debian: apt-get install redis-server"

var redisSettings = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", ""}

// redisServer is a Redis of the bench's own, for one trial.
type redisServer struct {
	cmd     *exec.Cmd
	said    bytes.Buffer // to be read when it has ended
	ended   chan struct{}
	address string
}

// redisRoom starts a Redis in a folder that goes away with it.
func redisRoom(ctx context.Context, program, dir string) (address string, leave func(), err error) {
	own, err := os.MkdirTemp(dir, "redis")
	if err != nil {
		return "", nil, err
	}
	s, err := startRedis(program, own)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(own))
	}
	leave = func() {
		s.stop()
		os.RemoveAll(own)
	}
	if err := s.ready(ctx); err != nil {
		leave()
		return "", nil, err
	}
	return s.address, leave, nil
}

func startRedis(program, dir string) (*redisServer, error) {
	free, err := testserver.FreePort()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(free)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir}, redisSettings...)
	s := &redisServer{cmd: exec.Command(program, args...), ended: make(chan struct{}), address: "127.0.0.1:" + port}
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.cmd.Wait(); close(s.ended) }()
	return s, nil
}

// stop kills the server: nobody wants its data any more.
func (s *redisServer) stop() {
	s.cmd.Process.Kill()
	<-s.ended
}

// ready waits until the server answers.
func (s *redisServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := s.ping()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("Redis ended at once: %s", lastLine(s.said.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("Redis isn't ready: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *redisServer) ping() error {
	conn, err := net.DialTimeout("tcp", s.address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+PONG") {
		err = fmt.Errorf("it answers %q", strings.TrimSpace(answer))
	}
	return err
}

// findProgram finds one on the path, or says how to get it.
func findProgram(name, missing string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		err = errors.New(missing)
	}
	return path, err
}

// aboutRedis is the line for the table's notes.
func aboutRedis(ctx context.Context, program string) string {
	printed, err := command(ctx, nil, program, "--version")
	version, _, found := strings.Cut(strings.TrimPrefix(string(printed), "Redis server v="), " ")
	if err != nil || !found {
		version = "of unknown version"
	}
	return "Redis " + version + ": appendonly yes, appendfsync everysec, so that a crash can lose a second of jobs"
}
