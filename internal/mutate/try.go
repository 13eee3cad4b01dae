package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one guard taken out: old, which must stand exactly once in file,
// becomes new.
type mutant struct {
	name  string
	guard string // what it protects, in a few words
	file  string
	old   string
	new   string
	pkg   string // whose tests must notice
	tests string // -run, to be quick; empty runs all of the package
}

// verdict says what became of a mutant.
type verdict struct {
	killed bool
	said   string
}

func failed(format string, args ...any) verdict { return verdict{said: fmt.Sprintf(format, args...)} }

// try builds the mutant as an overlay, so that the tree stays as it is, and
// runs the tests that must notice.
func (m mutant) try(ctx context.Context, limit time.Duration) verdict {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return failed("SOURCE: %v", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return failed("SOURCE: the guard stands %d times in %s, wants once", n, m.file)
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return failed("%v", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir, string(source))
	if err != nil {
		return failed("%v", err)
	}
	if out, err := exec.CommandContext(ctx, "go", "vet", "-overlay", overlay, m.pkg).CombinedOutput(); err != nil {
		return failed("DOES NOT COMPILE: %s", firstLine(out))
	}
	args := []string{"test", "-json", "-count=1", "-failfast", "-timeout", limit.String(), "-overlay", overlay}
	if m.tests != "" {
		args = append(args, "-run", m.tests)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, m.pkg)...).Output()
	if err == nil {
		return failed("SURVIVED %s %s", m.pkg, m.tests)
	}
	return judge(out)
}

func (m mutant) overlay(dir, source string) (string, error) {
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(strings.Replace(source, m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, doc, 0o600)
}

// where finds the line of an assertion in a test's output.
var where = regexp.MustCompile(`^\s+(\S+\.(?:go|txt):\d+)`)

// judge reads go test's events: a kill is a named test that failed with a line
// of its own, and no time-out or crash.
func judge(out []byte) verdict {
	lines := map[string]string{} // test → the last line it reported
	for raw := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(raw, &e) != nil {
			continue
		}
		if strings.Contains(e.Output, "panic: test timed out") {
			return failed("ONLY A TIME-OUT")
		}
		if at := where.FindStringSubmatch(e.Output); at != nil {
			lines[e.Test] = filepath.Base(at[1])
		}
		if e.Action == "fail" && lines[e.Test] != "" {
			return verdict{true, e.Test + " " + lines[e.Test]}
		}
	}
	return failed("NO ASSERTION: %s", lastOutput(out))
}

func firstLine(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return "no output"
}

func lastOutput(out []byte) string {
	last := "no output"
	for raw := range bytes.Lines(out) {
		var e struct{ Output string }
		if json.Unmarshal(raw, &e) == nil && strings.TrimSpace(e.Output) != "" {
			last = strings.TrimSpace(e.Output)
		}
	}
	return last
}
