package shellworker

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The script runs as it stands, and each exit status means what it says.
func TestShellWorker(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "daybook"), "../../cmd/daybook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	run := exec.Command("sh", "run.sh")
	run.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	out, err := run.Output()
	if err != nil {
		t.Fatalf("run.sh: %v\n%s", err, out)
	}
	var got []string
	field := regexp.MustCompile(`(?m)^(state|reason|result|last error) +(.*)$`)
	for _, job := range strings.Split(strings.TrimSpace(string(out)), "\n\n") {
		var line []string
		for _, m := range field.FindAllStringSubmatch(job, -1) {
			line = append(line, m[2])
		}
		got = append(got, strings.Join(line, ", "))
	}
	for i, want := range []string{
		`^succeeded, \{"file":"a.txt","cksum":3015617425\}$`,
		`^set_aside, failures, exit status 1.*gone.txt`,
		`^waiting$`,
		`^set_aside, permanent, exit status 65 args have no file$`,
	} {
		if i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("job %d ended as %q, want %s", i+1, got, want)
		}
	}
}
