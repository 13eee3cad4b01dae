//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

func runCommand(t *testing.T, ctx context.Context, text, args string) (finished, string) {
	t.Helper()
	var said bytes.Buffer
	job, err := daybook.ParseID(id(1))
	if err != nil {
		t.Fatal(err)
	}
	lines := &lineLog{out: &said, job: job}
	f := command{text: text, args: []byte(args), env: os.Environ(), stderr: lines}.run(ctx)
	lines.flush()
	return f, said.String()
}

func TestCommandOutcomes(t *testing.T) {
	job := daybook.Job{Generation: 1}
	for _, test := range []struct {
		text   string
		kind   daybook.OutcomeKind
		result string
		said   string // in the error text
	}{
		{"cat", daybook.OutcomeSucceeded, `{"a":1.0}`, ""},
		{"echo hello", daybook.OutcomeSucceeded, `"hello"`, ""},
		{`printf 'a"b\nc\n'`, daybook.OutcomeSucceeded, `"a\"b\nc"`, ""},
		{`printf '{"a":1,"a":2}'`, daybook.OutcomeSucceeded, `"{\"a\":1,\"a\":2}"`, ""},
		{`printf 'nul\000'`, daybook.OutcomeSucceeded, `"nul` + "\uFFFD" + `"`, ""},
		{"true", daybook.OutcomeSucceeded, "", ""},
		{"cat >/dev/null; echo oops >&2; exit 3", daybook.OutcomeFailed, "", "oops"},
		{"exit 3", daybook.OutcomeFailed, "", "exit status 3"},
		{"kill -9 $$", daybook.OutcomeFailed, "", "signal: killed"},
		{"echo bad >&2; exit 65", daybook.OutcomeFailed, "", "bad"},
		{"exit 75", daybook.OutcomeReleased, "", ""},
		{"no-such-command-anywhere", daybook.OutcomeFailed, "", "no-such-command-anywhere"},
	} {
		f, _ := runCommand(t, t.Context(), test.text, `{"a":1.0}`)
		out := outcomeOf(nil, job, f)
		if out.Kind != test.kind || string(out.Result) != test.result {
			t.Errorf("%s: got %s %s, want %s %s", test.text, out.Kind, out.Result, test.kind, test.result)
		}
		if out.Problem != nil && !strings.Contains(out.Problem.Text, test.said) {
			t.Errorf("%s: got error %q, want %q in it", test.text, out.Problem.Text, test.said)
		}
		if out.Permanent != strings.Contains(test.text, "65") {
			t.Errorf("%s: got permanent %t", test.text, out.Permanent)
		}
		if out.Kind == daybook.OutcomeReleased && out.In <= 0 {
			t.Errorf("%s: got back after %s, want later than now", test.text, out.In)
		}
	}
}

// Standard error passes through a line at a time, and can't forge a line.
func TestCommandLines(t *testing.T) {
	_, said := runCommand(t, t.Context(), `printf 'one\r\n\033[2Jtwo\n\nend\tof it' >&2; exit 1`, "")
	want := id(1) + " one\n" + id(1) + ` \x1b[2Jtwo` + "\n" + id(1) + " \n" + id(1) + " end\tof it\n"
	if said != want {
		t.Errorf("got %q, want %q", said, want)
	}
	_, said = runCommand(t, t.Context(), `head -c 20000 /dev/zero | tr '\0' x >&2`, "")
	for _, line := range strings.Split(strings.TrimSuffix(said, "\n"), "\n") {
		if !strings.HasPrefix(line, id(1)+" ") || len(line) > lineMost+64 {
			t.Errorf("got a line of %d bytes, want at most %d, with the job's id", len(line), lineMost)
		}
	}
}

// The error text is the end of what was said: valid, whole runes, within the
// limit, and marked as cut.
func TestCommandErrorText(t *testing.T) {
	f, _ := runCommand(t, t.Context(),
		`i=0; while [ $i -lt 9000 ]; do printf 'éééé'; i=$((i+1)); done >&2; printf 'the end' >&2; exit 1`, "")
	p := outcomeOf(nil, daybook.Job{}, f).Problem
	if !p.Cut || !strings.HasSuffix(p.Text, "the end") || len(p.Text) > daybook.ErrorMax ||
		len(p.Text) < daybook.ErrorMax-64 || !utf8.ValidString(p.Text) {
		t.Errorf("got %d bytes, cut %t, ending %q, want the last %d", len(p.Text), p.Cut,
			p.Text[max(0, len(p.Text)-20):], daybook.ErrorMax)
	}
	f, _ = runCommand(t, t.Context(), `printf 'a\000\377b' >&2; exit 1`, "")
	if p := outcomeOf(nil, daybook.Job{}, f).Problem; p.Text != "a\uFFFD\uFFFDb" || p.Cut {
		t.Errorf("got %q, want it cleaned", p.Text)
	}
}

// More output than a result may have doesn't fill the memory, and is too large.
func TestCommandEndlessOutput(t *testing.T) {
	f, _ := runCommand(t, t.Context(), `head -c 5000000 /dev/zero | tr '\0' x`, "")
	if got := len(f.result()); got != daybook.ResultMax+1 {
		t.Errorf("got a result of %d bytes, want %d: one too many", got, daybook.ResultMax+1)
	}
}

// When the context ends, all that the command started ends: by SIGTERM if it
// listens, else by SIGKILL. What is left behind when it ends by itself too.
func TestCommandGroupEnds(t *testing.T) {
	for name, text := range map[string]string{
		"listens": `trap 'echo told >&2; exit 7' TERM; echo up >&2; while :; do sleep 0.05; done`,
		"deaf":    `trap '' TERM; echo up >&2; (trap '' TERM; sleep 1000) & wait; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			job, _ := daybook.ParseID(id(1))
			var said strings.Builder
			lines := &lineLog{out: lineSink{func(line string) {
				said.WriteString(line)
				if strings.HasSuffix(line, "up\n") {
					cancel(worker.ErrLeaseLost)
				}
			}}, job: job}
			f := command{text: text, env: os.Environ(), stderr: lines}.run(ctx)
			lines.flush()
			switch {
			case name == "listens" && (f.status != 7 || !strings.Contains(said.String(), "told")):
				t.Errorf("got %s, %q, want exit 7 after it was told", f.how, said.String())
			case name == "deaf" && f.how != "signal: killed":
				t.Errorf("got %s, want it killed", f.how)
			}
			out := outcomeOf(context.Cause(ctx), daybook.Job{}, f)
			if out.Kind != daybook.OutcomeFailed {
				t.Errorf("got %s, want failed (the worker gives it back)", out.Kind)
			}
			if out := outcomeOf(worker.ErrCancelRequested, daybook.Job{}, f); out.Kind != daybook.OutcomeReleased {
				t.Errorf("asked to cancel: got %s, want it given back", out.Kind)
			}
			if out := outcomeOf(worker.ErrRunLimit, daybook.Job{}, f); out.Problem == nil ||
				out.Problem.Kind != "timeout" {
				t.Errorf("past its run limit: got %+v, want kind timeout", out.Problem)
			}
		})
	}
}

// A process that a command leaves behind doesn't keep its attempt open, nor
// outlive it.
func TestCommandLeavesNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	outlived := make(chan string, 1)
	go func() {
		said, err := os.ReadFile(pipe) // until nobody holds its other end
		outlived <- fmt.Sprint(string(said), err)
	}()
	f, _ := runCommand(t, t.Context(), `exec 3>`+pipe+`; (sleep 5; echo outlived >&3) & echo done`, "")
	if f.status != 0 || string(f.result()) != `"done"` {
		t.Errorf("got %s and %s, want success", f.how, f.result())
	}
	if got := <-outlived; got != "<nil>" {
		t.Errorf("what the command left behind %s", got)
	}
}

// A machine that has no room to start a command blames no job; a command that can't
// be started for another reason has failed.
func TestCommandThatNeverBegan(t *testing.T) {
	for _, test := range []struct {
		err  error
		want daybook.OutcomeKind
	}{
		{&fs.PathError{Op: "fork/exec", Path: "/bin/sh", Err: syscall.EMFILE}, daybook.OutcomeReleased},
		{errors.Join(syscall.ENOSPC, io.ErrShortWrite), daybook.OutcomeReleased},
		{syscall.EAGAIN, daybook.OutcomeReleased},
		{syscall.EACCES, daybook.OutcomeFailed},
		{exec.ErrNotFound, daybook.OutcomeFailed},
	} {
		f := finished{status: -1, how: "the command could not be started", err: test.err}
		out := outcomeOf(nil, daybook.Job{Generation: 3}, f)
		if out.Kind != test.want || (out.In > 0) != (test.want == daybook.OutcomeReleased) {
			t.Errorf("%v: got %s in %s, want %s", test.err, out.Kind, out.In, test.want)
		}
	}
}
