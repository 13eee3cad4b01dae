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
// becomes new. A file that is written file#text has the guard behind that text,
// which must stand there once; then old is the first behind it. An … in old is
// whatever stands between its two sides.
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
	changed, err := m.change()
	if err != nil {
		return failed("SOURCE: %v", err)
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return failed("%v", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir, changed)
	if err != nil {
		return failed("%v", err)
	}
	if strings.HasSuffix(m.path(), ".go") {
		if out, err := exec.CommandContext(ctx, "go", "vet", "-overlay", overlay, m.pkg).CombinedOutput(); err != nil {
			return failed("DOES NOT COMPILE: %s", firstLine(out))
		}
	}
	args := []string{"test", "-json", "-count=1", "-failfast", "-timeout", limit.String(), "-overlay", overlay}
	if m.tests != "" {
		args = append(args, "-run", m.tests)
	}
	cmd := command(ctx, m.pkg, append(args, m.pkg)...)
	if m.wantsServer() {
		cmd.Env = append(cmd.Environ(), "DAYBOOK_TEST_POSTGRES=1")
	}
	out, err := cmd.Output()
	if err == nil && !bytes.Contains(out, []byte(`"Action":"run"`)) {
		return failed("RAN NO TEST %s %s", m.pkg, m.tests)
	}
	if err == nil {
		return failed("SURVIVED %s %s", m.pkg, m.tests)
	}
	return judge(out)
}

// wantsServer says of a mutant that its test runs on PostgreSQL alone.
func (m mutant) wantsServer() bool { return m.pkg == postgres || strings.HasPrefix(m.name, "pg-") }

// path is the file without the text in it.
func (m mutant) path() string {
	path, _, _ := strings.Cut(m.file, "#")
	return path
}

// change is the source without the guard.
func (m mutant) change() (string, error) {
	source, err := os.ReadFile(m.path())
	if err != nil {
		return "", err
	}
	before, rest := "", string(source)
	if _, text, found := strings.Cut(m.file, "#"); found {
		if n := strings.Count(rest, text); n != 1 {
			return "", fmt.Errorf("%q stands %d times in %s, wants once", text, n, m.path())
		}
		at := strings.Index(rest, text)
		before, rest = rest[:at], rest[at:]
	}
	head, tail, span := strings.Cut(m.old, "…")
	if n := strings.Count(rest, head); n == 0 || n > 1 && before == "" {
		return "", fmt.Errorf("the guard stands %d times in %s, wants once", n, m.path())
	}
	kept, behind, _ := strings.Cut(rest, head)
	if span {
		if _, behind, span = strings.Cut(behind, tail); !span {
			return "", fmt.Errorf("the guard's end is not in %s", m.path())
		}
	}
	return before + kept + m.new + behind, nil
}

func (m mutant) overlay(dir, source string) (string, error) {
	changed := filepath.Join(dir, filepath.Base(m.path()))
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.path())
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

// where finds the line of an assertion in a test's output; broken is what the
// database says to SQL that it can't run, which is no guard taken out.
var (
	where  = regexp.MustCompile(`^\s+(\S+\.(?:go|txt):\d+)`)
	broken = regexp.MustCompile(`SQLSTATE 42|run daybook schema up`)
)

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
		if broken.MatchString(e.Output) {
			return failed("BROKEN SQL: %s", strings.TrimSpace(e.Output))
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
