package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// Exit statuses of a command that mean something of their own (sysexits.h).
const (
	exitDataError = 65 // permanent: trying again is useless
	exitTryLater  = 75 // costs no failure
)

const (
	// killDelay is how long a command that was told to stop may take: less
	// than the second in which a worker ends after its grace.
	killDelay = 300 * time.Millisecond
	// drainDelay is how long output is read on after the command ended, when a
	// process that it left behind still holds the pipe.
	drainDelay = 300 * time.Millisecond
)

// command is one run of CMD for one job.
type command struct {
	text   string // for sh -c
	args   []byte // on standard input
	env    []string
	stderr io.Writer // gets what the command says, line by line
}

// finished is how a command ended.
type finished struct {
	status int    // exit status, -1 when a signal ended it or it never began
	how    string // "exit status 3", "signal: killed"
	stdout []byte // up to one byte past daybook.ResultMax
	stderr string // the last daybook.ErrorMax bytes
	cut    bool   // stderr was longer
	err    error  // it never began
}

// short reports that the command never began since this machine had no room for it.
// That is nobody's fault but the machine's, and another may have some.
func (f finished) short() bool {
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC} {
		if errors.Is(f.err, shortage) {
			return true
		}
	}
	return false
}

// run runs the command in a process group of its own and waits for it. When ctx
// ends, the group gets SIGTERM and, if it doesn't go, SIGKILL. Whatever the
// command left behind in its group ends with it: nothing of an attempt runs on
// when the attempt is over.
func (c command) run(ctx context.Context) finished {
	stdout := &limited{most: daybook.ResultMax + 1}
	tail := &tail{most: daybook.ErrorMax}
	input, err := c.input()
	if err != nil {
		return finished{status: -1, how: "the command's input could not be laid out", err: err}
	}
	defer input.Close()
	cmd := exec.Command("sh", "-c", c.text)
	cmd.Env, cmd.Stdin = c.env, input
	cmd.Stdout, cmd.Stderr = stdout, io.MultiWriter(tail, c.stderr)
	cmd.WaitDelay = drainDelay
	ownGroup(cmd)
	diesWithUs(cmd)
	// For diesWithUs. It costs no thread: waiting for a process holds one anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return finished{status: -1, how: "the command could not be started", err: err}
	}
	over := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() { stopGroup(ctx, cmd, over) })
	err = cmd.Wait()
	close(over)
	stopping.Wait()
	killGroup(cmd)
	f := finished{status: cmd.ProcessState.ExitCode(), how: cmd.ProcessState.String(), stdout: stdout.bytes}
	f.stderr, f.cut = tail.text()
	if err != nil && errors.Is(err, exec.ErrWaitDelay) && f.status == 0 {
		f.how += ", and something it left behind held its output open"
	}
	return f
}

// input is a file with the args, read from its beginning. All of it is there
// before the command starts: through a pipe that this process fills, a command
// whose worker is killed would read the args cut short, and go on with them.
func (c command) input() (*os.File, error) {
	f, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(c.args); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// stopGroup ends the command's group once ctx ends, unless it is over before.
func stopGroup(ctx context.Context, cmd *exec.Cmd, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	termGroup(cmd)
	kill := time.NewTimer(killDelay)
	defer kill.Stop()
	select {
	case <-over:
	case <-kill.C:
		killGroup(cmd)
	}
}

// result is what the command printed, as the job's result.
func (f finished) result() json.RawMessage { return resultOf(f.stdout) }

// resultOf makes a job's result of what a command printed or an endpoint
// answered: JSON as it is, and any other text as a JSON string.
func resultOf(said []byte) json.RawMessage {
	if len(said) > daybook.ResultMax {
		return said // too large, whatever it is: the book says so
	}
	if doc := bytes.TrimSpace(said); len(doc) > 0 && daybook.CheckJSON("result", doc) == nil {
		return doc
	}
	text := strings.TrimRight(string(said), "\r\n")
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if err := daybook.EncodeJSON(&b, text); err != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// problem is the error of an attempt whose command failed.
func (f finished) problem() *daybook.Problem {
	text := strings.TrimRight(f.stderr, "\r\n")
	switch {
	case f.err != nil:
		text = f.how
	case text == "":
		text = "the command ended with " + f.how + " and said nothing"
	}
	p := daybook.NewProblem(text, f.how, "")
	p.Cut = p.Cut || f.cut
	return p
}

// limited keeps the first bytes written to it and swallows the rest, so that a
// command that prints without end can't fill the memory.
type limited struct {
	most  int
	bytes []byte
}

func (l *limited) Write(p []byte) (int, error) {
	l.bytes = append(l.bytes, p[:min(len(p), l.most-len(l.bytes))]...)
	return len(p), nil
}

// tail keeps the last bytes written to it.
type tail struct {
	most  int
	bytes []byte
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - 2*t.most; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[len(t.bytes)-t.most:]...)
		t.cut = true
	}
	return len(p), nil
}

// text is what was kept, from the beginning of a rune, in valid UTF-8 that fits
// the book's limit.
func (t *tail) text() (string, bool) {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(t.bytes), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= t.most {
		return text, t.cut
	}
	text = text[len(text)-t.most:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text, true
}

// lineLog passes what commands say on, a whole line at a time, each with its
// job's id. What a command prints can't forge a line of another job or of the
// worker.
type lineLog struct {
	out io.Writer // takes a line a write, from many goroutines
	job daybook.ID
	buf []byte
}

// lineMost bounds a line that is passed on, in bytes; a longer one continues on
// the next.
const lineMost = 8 << 10

func (l *lineLog) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	for {
		end := bytes.IndexByte(l.buf, '\n')
		switch {
		case end >= 0 && end <= lineMost:
			l.line(l.buf[:end])
			l.buf = l.buf[end+1:]
		case len(l.buf) > lineMost:
			l.line(l.buf[:lineMost])
			l.buf = l.buf[lineMost:]
		default:
			return len(p), nil
		}
	}
}

// flush passes on what came without an end of line.
func (l *lineLog) flush() {
	if len(l.buf) > 0 {
		l.line(l.buf)
		l.buf = nil
	}
}

func (l *lineLog) line(text []byte) {
	// A log that can't be written must not fail the job.
	_, _ = io.WriteString(l.out, l.job.String()+" "+safeLine(strings.TrimSuffix(string(text), "\r"))+"\n")
}
