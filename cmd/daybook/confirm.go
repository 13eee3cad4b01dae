package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal, where a person can be
// asked and shown progress.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// shared is a stream that several goroutines write to, each write whole: the
// log, and what commands say.
type shared struct {
	mu sync.Mutex
	io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Writer.Write(p)
}

// watched reports whether a person sees standard error.
func (a *app) watched() bool {
	if s, ok := a.stderr.(*shared); ok {
		return a.terminal(s.Writer)
	}
	return a.terminal(a.stderr)
}

// confirm asks a person before many jobs are touched. Without a terminal
// nobody can be asked, and the change must have been agreed to with -y. look is how
// to look only.
func (a *app) confirm(question, look string) error {
	if !a.terminal(a.stdin) {
		return usage("%s There is no terminal to ask on; say -y, or %s to look only", question, look)
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", safe(question))
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exitError{statusFailed, "not confirmed; nothing was changed"}
}
