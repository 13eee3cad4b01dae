package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

const lifecycleBegin, lifecycleEnd = "<!-- lifecycle: generated -->\n", "<!-- lifecycle: end -->\n"

// TestLifecyclePicture: the picture in ARCHITECTURE.md is what
// daybook.Transitions says.
func TestLifecyclePicture(t *testing.T) {
	text := page(t, "ARCHITECTURE.md")
	before, rest, ok := strings.Cut(text, lifecycleBegin)
	_, after, ok2 := strings.Cut(rest, lifecycleEnd)
	if !ok || !ok2 {
		t.Fatalf("ARCHITECTURE.md lost the marks around its picture: %q", lifecycleBegin)
	}
	current(t, "ARCHITECTURE.md", before+lifecycleBegin+lifecycle()+lifecycleEnd+after)
}

// lifecycle draws the transition table: one arrow for each pair of states, with
// the moves that make it and who makes them.
func lifecycle() string {
	type arrow struct{ from, to daybook.State }
	var order []arrow
	moves := map[arrow][]string{}
	for _, tr := range daybook.Transitions {
		a := arrow{tr.From, tr.To}
		if moves[a] == nil {
			order = append(order, a)
		}
		moves[a] = append(moves[a], fmt.Sprintf("%s (%s)", tr.Move, tr.By))
	}
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, a := range order {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", point(a.from), point(a.to), strings.Join(moves[a], ", "))
	}
	b.WriteString("```\n")
	return b.String()
}

// point is a state in the picture; no state is its beginning or end.
func point(s daybook.State) string {
	if s == "" {
		return "[*]"
	}
	return string(s)
}

// TestLinks: what a page points at in this repository is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	for _, f := range files(t, ".md") {
		for n, line := range f.lines() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, f.dir(), m[1])); err != nil {
					t.Errorf("%s:%d: %s isn't there", f.path, n+1, m[1])
				}
			}
		}
	}
}

// TestTitles: a page has one title, at its top.
func TestTitles(t *testing.T) {
	for _, f := range files(t, ".md") {
		if !strings.HasPrefix(f.text, "# ") {
			t.Errorf("%s doesn't begin with its title", f.path)
		}
		titles, fenced := 0, false
		for _, line := range f.lines() {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if !fenced && strings.HasPrefix(line, "# ") {
				titles++
			}
		}
		if titles != 1 || fenced {
			t.Errorf("%s has %d titles, or a fence that stays open (%v)", f.path, titles, fenced)
		}
	}
}

func TestHousePages(t *testing.T) {
	for path, want := range map[string]string{
		"LICENSE":                   "Apache License",
		"CHANGELOG.md":              "## [Unreleased]",
		"CONTRIBUTING.md":           "make gen",
		"GLOSSARY.md":               "generation",
		"examples/webhooks/LICENSE": "Octokit contributors",
	} {
		if !strings.Contains(page(t, path), want) {
			t.Errorf("%s doesn't say %q", path, want)
		}
	}
	readme := page(t, "README.md")
	for n := 1; n <= 10; n++ {
		if !strings.Contains(readme, fmt.Sprintf("| P%d |", n)) {
			t.Errorf("README.md doesn't name promise P%d", n)
		}
	}
}

// TestCIRunsWhatTheReadmeSays: CI ends with the command that a newcomer is told.
func TestCIRunsWhatTheReadmeSays(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(page(t, ".ci/run")), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if !strings.Contains(page(t, "README.md"), "\n"+last+"\n") {
		t.Errorf("README.md doesn't have the last line of .ci/run, %q", last)
	}
	info, err := os.Stat(filepath.Join(root, ".ci/run"))
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf(".ci/run can't be executed: %v, %v", info.Mode(), err)
	}
}

// TestMakefile: a target is one line, so that anyone can read what it runs.
func TestMakefile(t *testing.T) {
	target := regexp.MustCompile(`^([a-z-]+):.*## .+`)
	recipes, name := map[string]int{}, ""
	for n, line := range strings.Split(page(t, "Makefile"), "\n") {
		switch {
		case strings.HasPrefix(line, "\t"):
			if recipes[name]++; recipes[name] > 1 || strings.HasSuffix(line, `\`) {
				t.Errorf("Makefile:%d: target %s has more than one line", n+1, name)
			}
		case target.MatchString(line):
			name = target.FindStringSubmatch(line)[1]
			recipes[name] = 0
		}
	}
	wanted := "help fmt vet test race conform postgres test-matrix gen demo mutate bench peers pressure " +
		"bench-bells memory fuzz"
	for _, want := range strings.Fields(wanted) {
		if recipes[want] != 1 {
			t.Errorf("Makefile: target %s has %d lines, want one, and a word of help behind ##", want, recipes[want])
		}
	}
}
