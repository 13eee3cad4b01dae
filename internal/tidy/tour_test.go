package tidy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTour runs the five minutes of README.md as they stand there, but for
// where the command and the book's file lie.
func TestTour(t *testing.T) {
	_, tour, _ := strings.Cut(page(t, "README.md"), "\n## Five minutes\n")
	tour, _, _ = strings.Cut(tour, "\n## ")
	var script []string
	for _, m := range fence.FindAllStringSubmatch(tour, -1) {
		script = append(script, m[1])
	}
	if len(script) < 5 || !strings.Contains(script[0], "go build") {
		t.Fatalf("the tour has %d blocks and begins with %q", len(script), script)
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-eu", "-c", strings.Join(script[1:], "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+binaries(t)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"DAYBOOK_DB=sqlite:"+filepath.Join(dir, "tour.db"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour failed: %v\n%s", err, out)
	}
	if got := strings.Count(string(out), "exit 4\n"); got != 3 {
		t.Errorf("got %d refusals, want three: the key's conflict, the fenced owner and the open effect\n%s", got, out)
	}
	if got, want := timeline(string(out)), timeline(tour); got != want || got == "" {
		t.Errorf("the timeline is\n%s\nand README.md says\n%s", got, want)
	}
}

// timeline is the last timeline in the text, without times and names.
func timeline(text string) string {
	i := strings.LastIndex(text, "AT                           WHAT")
	if i < 0 {
		return ""
	}
	row := regexp.MustCompile(`^20\S+Z +(\S+) +(\S+)`)
	var events []string
	for _, line := range strings.Split(text[i:], "\n")[1:] {
		m := row.FindStringSubmatch(line)
		if m == nil {
			break
		}
		events = append(events, m[1]+" "+m[2])
	}
	return strings.Join(events, "\n")
}

// TestReadmeGo: the program in README.md is part of an example that compiles
// and is run by a test.
func TestReadmeGo(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(page(t, "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d Go programs, want one", len(blocks))
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if !strings.Contains(flat(page(t, "examples/email-sender/main.go")), flat(blocks[0][1])) {
		t.Error("the Go program of README.md is not in examples/email-sender/main.go")
	}
}
