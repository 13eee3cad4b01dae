package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guidePrograms have the code of the guides of docs/cutover between marks; the tests
// of cutover/e2e run them against the real systems.
var guidePrograms = map[string]string{
	"docs/cutover/asynq.md":   "internal/oldworkers/asynqguide/main.go",
	"docs/cutover/bullmq.md":  "internal/oldworkers/bullmq/guide.mjs",
	"docs/cutover/rq.md":      "cutover/e2e/testdata/guide/mail.py",
	"docs/cutover/sidekiq.md": "cutover/e2e/testdata/guide/sidekiq.rb",
}

// guideParts are what each guide has code for.
var guideParts = []string{"Old handlers that still may start", "Switched by deploy", "Written to both"}

var (
	guideCode = regexp.MustCompile("(?ms)^```(?:go|js|python|ruby)\n(.*?)^```$")
	guideMark = regexp.MustCompile(`(?ms)^[ \t]*(?:#|//) guide: ([^\n]*)\n(.*?)^[ \t]*(?:#|//) guide: end$`)
	guideWas  = regexp.MustCompile(`(?m)^[ \t]*(?:#|//) was: (.*?);?$`)
)

// TestGuides: each piece of code in the guides stands in a program that is run, word
// for word, and so does what it takes the place of.
func TestGuides(t *testing.T) {
	for guide, program := range guidePrograms {
		var shown, tried []string
		for _, block := range guideCode.FindAllStringSubmatch(page(t, guide), -1) {
			shown = append(shown, strings.TrimSpace(block[1]))
		}
		text := page(t, program)
		var parts []string
		for _, mark := range guideMark.FindAllStringSubmatch(text, -1) {
			parts = append(parts, mark[1])
			tried = append(tried, leftmost(mark[2]))
			if was := guideWas.FindStringSubmatch(mark[2]); was != nil && strings.Count(text, was[1]) < 2 {
				t.Errorf("%s says what was before, and no line of %s does it: %s", guide, program, was[1])
			}
		}
		slices.Sort(shown)
		slices.Sort(tried)
		if !slices.Equal(shown, tried) {
			t.Errorf("%s shows\n%s\n\nand %s runs\n%s", guide, strings.Join(shown, "\n--\n"), program,
				strings.Join(tried, "\n--\n"))
		}
		if slices.Sort(parts); !slices.Equal(parts, guideParts) {
			t.Errorf("%s has %q, want %q", path.Base(program), parts, guideParts)
		}
	}
}

// leftmost takes away the indentation that all lines have.
func leftmost(code string) string {
	lines := strings.Split(strings.TrimRight(code, "\n"), "\n")
	indent := len(code)
	for _, line := range lines {
		if line != "" {
			indent = min(indent, len(line)-len(strings.TrimLeft(line, " \t")))
		}
	}
	for i, line := range lines {
		lines[i] = line[min(indent, len(line)):]
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
