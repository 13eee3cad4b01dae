package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/asynq"
	"github.com/daybookdev/daybook/cutover/sidekiq"
)

// system is an old job system whose own programs run here.
type system struct {
	name string
	open func(url string) (cutover.Old, error)
	// produce is a command that reads orders; worker one that works until it is
	// told to stop. Both find the store in OLD_URL and write to RUNS.
	produce, worker []string
	install         string // what is missing when they aren't there
	module          string // the Go module that the program is built of
}

// systems lists them; dir is where this package's programs are.
func systems(dir string) []system {
	program := func(name string) string { return filepath.Join(dir, "testdata", name) }
	rb, goProgram := program("sidekiq.rb"), filepath.Join(dir, "testdata", "asynq.built")
	return []system{{
		name: "asynq",
		open: func(url string) (cutover.Old, error) {
			return asynq.Open(asynq.Options{URL: url, Queue: "mail"})
		},
		module:  filepath.Join(dir, "..", "..", "internal", "oldworkers", "asynq"),
		produce: []string{goProgram, "orders"},
		worker:  []string{goProgram, "serve"},
	}, {
		name: "sidekiq", install: "apt-get install -y ruby-sidekiq",
		open: func(url string) (cutover.Old, error) {
			return sidekiq.Open(sidekiq.Options{URL: url, Queue: "mail"})
		},
		produce: []string{"ruby", "-W0", rb},
		worker:  []string{"sidekiq", "-r", rb, "-q", "mail", "-c", "3"},
	}}
}

// need fails the test when a program isn't there.
func (s system) need(t *testing.T) {
	t.Helper()
	if s.module != "" {
		build := exec.Command("go", "build", "-C", s.module, "-o", s.worker[0], ".")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", s.module, err, out)
		}
	}
	for _, program := range []string{s.produce[0], s.worker[0]} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: %s", program, s.install)
		}
	}
}
