package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The five minutes of docs/clients.md, and those of README.md, as they stand there
// but for the server's address and where things lie.
func TestTour(t *testing.T) {
	for page, heading := range map[string]string{"../docs/clients.md": "Five minutes",
		"../README.md": "In Python and TypeScript"} {
		t.Run(filepath.Base(page), func(t *testing.T) { tourOf(t, page, heading) })
	}
}

func tourOf(t *testing.T, page, heading string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, tour, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	tour, _, _ = strings.Cut(tour, "\n## ")
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("there is no curl: `apt-get install -y curl`, or as your system has it")
	}
	dir := t.TempDir()
	s := &server{t: t, db: "sqlite:" + filepath.Join(dir, "clients.db"), address: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.kill)
	packages, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("localhost:7373", s.address, "127.0.0.1:7373", s.address, "clients/python", packages,
		"python3", python(t))
	blocks := func(language string) (all []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(tour, -1) {
			all = append(all, here.Replace(m[1]))
		}
		return all
	}
	script, program := blocks("sh"), blocks("python")
	if len(script) < 3 || len(program) != 1 || !strings.Contains(script[0], "daybook serve") {
		t.Fatalf("the tour has %q and %q", script, program)
	}
	if err := os.WriteFile(filepath.Join(dir, "worker.py"), []byte(program[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", strings.Join(script[1:], "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "DAYBOOK_SERVER=", "DAYBOOK_TOKEN=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour failed: %v\n%s", err, out)
	}
	var what []string
	for _, m := range regexp.MustCompile(`"what":"([^"]*)"`).FindAllStringSubmatch(string(out), -1) {
		what = append(what, m[1])
	}
	want := []string{"accepted", "claimed", "effect begun", "effect done", "succeeded"}
	if !slices.Equal(what, want) {
		t.Errorf("the timeline has %q, want %q\n%s", what, want, out)
	}
	for _, w := range want {
		if !strings.Contains(tour, "`"+w+"`") {
			t.Errorf("the tour doesn't tell of %s", w)
		}
	}
}
