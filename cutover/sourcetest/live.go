package sourcetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// moverKey has a process of the test become a mover: its value is the file that
// it records taken jobs in.
const moverKey = "DAYBOOK_TEST_MOVER"

// Mover is the body of a mover's process, for TestMain; it returns at once in
// others. It does what a cutover's move does, with a file for a book: it settles
// what is held, then takes, records, drops, and ends when there is nothing more.
// Between takes it leaves the old workers time.
func Mover(open func() (cutover.Old, error)) {
	path := os.Getenv(moverKey)
	if path == "" {
		return
	}
	if err := move(open, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func move(open func() (cutover.Old, error), path string) error {
	ctx := context.Background()
	o, err := open()
	if err != nil {
		return err
	}
	defer o.Close()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	record := func(jobs []daybook.OldJob) error {
		for _, job := range jobs {
			if _, err := fmt.Fprintf(file, "%s %s\n", job.Name(), job.State); err != nil {
				return err
			}
		}
		return o.Drop(ctx, jobs)
	}
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	fmt.Println("moving")
	for {
		jobs, err := o.Held(ctx, 1000)
		if err != nil {
			return err
		}
		if err := record(jobs); err != nil {
			return err
		}
		if jobs, err = o.Take(ctx, 3); err != nil {
			return err
		}
		if err := record(jobs); err != nil {
			return err
		}
		if len(jobs) == 0 {
			return nil
		}
		<-pace.C
	}
}

// Live is an old system with real producers and workers.
type Live struct {
	Old cutover.Old
	Env []string // of a mover: how Mover's open finds the store
	// Produce has the real producer enqueue jobs and returns when it was told so.
	// States are waiting ones, later ones, and those that fail: retrying, dead.
	Produce func(t testing.TB, jobs []OldLine)
	RunLog  string // where jobs that are done append their ids
	// During is called once, in the middle: workers are stopped and started.
	During func(t testing.TB)
}

// OldLine is a job to enqueue.
type OldLine struct {
	ID    string
	State daybook.OldState
}

// Lines makes n jobs: three fifths waiting, the others by turns.
func Lines(n int) []OldLine {
	all := make([]OldLine, n)
	for i := range all {
		state := daybook.OldWaiting
		if i%5 > 2 {
			state = []daybook.OldState{daybook.OldLater, daybook.OldRetrying, daybook.OldDead}[i%3]
		}
		all[i] = OldLine{fmt.Sprintf("%024x", 0xabc000000+i), state}
	}
	return all
}

// kills is how often the mover is killed, and kept is how many jobs are enqueued
// in all.
const (
	kills = 25
	live  = 1500
)

// MoveLive moves a queue while its workers work and its producers produce, kills
// the mover again and again, and then knows of each job: it ran over there, or it
// was taken, never both and never neither.
func MoveLive(t *testing.T, l Live) {
	jobs := Lines(live)
	book := filepath.Join(t.TempDir(), "taken")
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for some := range slices.Chunk(jobs, live/kills) {
			l.Produce(t, some)
		}
	}()
	for n := range kills {
		if n == kills/2 && l.During != nil {
			l.During(t)
		}
		l.runMover(t, book, time.Duration(1+rand.IntN(60))*time.Millisecond)
	}
	<-produced
	// The last sweeps: what fails in the old system comes to the retry set late.
	last := ""
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	until(t, "an empty queue", func() bool {
		l.runMover(t, book, 0)
		left, err := l.Old.Left(t.Context())
		must(t, err)
		for _, has := range []string{"running", "working", "active", "wip"} { // jobs that hang on purpose, late reports
			delete(left, has)
		}
		last = fmt.Sprintf("left are %v; %s", left, l.accounted(t, jobs, book))
		return len(left) == 0 && l.accounted(t, jobs, book) == ""
	})
	if what := l.accounted(t, jobs, book); what != "" {
		t.Error(what)
	}
	ran, taken := Tally(t, l.RunLog), Tally(t, book)
	t.Logf("%d jobs: %d ran in the old system, %d were taken, the mover was killed %d times", len(jobs), len(ran),
		len(taken), kills)
	for _, n := range []int{len(ran), len(taken)} {
		if n < live/20 {
			t.Errorf("%d ran and %d were taken: that proves little", len(ran), len(taken))
		}
	}
}

// accounted says which jobs are in both systems or in neither.
func (l Live) accounted(t testing.TB, jobs []OldLine, book string) string {
	t.Helper()
	ran, taken := Tally(t, l.RunLog), Tally(t, book)
	var both, none []string
	for _, job := range jobs {
		switch r, m := ran[job.ID], taken[job.ID]; {
		case r > 0 && m > 0 || r > 1:
			both = append(both, job.ID)
		case r == 0 && m == 0:
			none = append(none, job.ID+" "+string(job.State))
		}
	}
	if len(both)+len(none) == 0 {
		return ""
	}
	return fmt.Sprintf("run in both: %v; in neither: %v", both, none)
}

// Tally counts the first words of a file's lines, such as the ids of a run log.
func Tally(t testing.TB, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if id, _, _ := strings.Cut(strings.TrimSpace(line), " "); id != "" && strings.HasSuffix(line, "\n") {
			counts[id]++
		}
	}
	return counts
}

// runMover runs a mover, to its end or until it is killed.
func (l Live) runMover(t testing.TB, book string, kill time.Duration) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), l.Env...), moverKey+"="+book)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said, _ := bufio.NewReader(out).ReadString('\n')
	if said != "moving\n" {
		t.Errorf("the mover says %q", said)
	}
	if kill > 0 {
		late := time.AfterFunc(kill, func() { cmd.Process.Kill() })
		defer late.Stop()
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil && kill == 0 {
		t.Fatalf("the mover ended with %v", err)
	}
}

// Until polls for what must come.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	until(t, what, is)
}
