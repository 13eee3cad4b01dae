// Package sourcetest is the contract of a cutover's sources, to be held by each on
// a real store: what a scan sees while workers work, what is where when a mover
// dies, that what is put back is what was taken, and that gates close and open.
package sourcetest

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// Wanted reports whether this run asks for old systems: go test ./... passes with
// Go alone, and a run that asks for them fails without them.
func Wanted() bool { return os.Getenv("DAYBOOK_TEST_OLD") != "" }

// Main runs a package's tests, if old systems are wanted, and ends the process.
func Main(m interface{ Run() int }) {
	if !Wanted() {
		fmt.Println("old systems are not asked for; DAYBOOK_TEST_OLD=1 runs these tests")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Harness is one queue of an old system in a store of its own, empty at first.
type Harness struct {
	URL    string
	Client *redis.Client
	// Open makes a source for the queue at a URL, which may be another way to the
	// same store. It reads up to whole ids in one piece; 0 is its own choice. The
	// caller closes it.
	Open func(t testing.TB, url string, whole int64) cutover.Old
	// Put lays a job there as the old system would, in any state but OldGone:
	// args are a JSON array, due is for later and retrying ones.
	Put func(t testing.TB, state daybook.OldState, id, args string, due time.Time)
	// Produce adds a job as the old system's producers do, and reports whether
	// they were told that it was taken.
	Produce func(t testing.TB, id, args string) bool
	// Spoil lays a waiting job there that nobody can read.
	Spoil func(t testing.TB, id string)
	// Unknown makes the store look like that of a version which nobody knows.
	Unknown func(t testing.TB)
	// Flow has the old system do one atomic step with any job: a worker takes
	// one, or gives one back.
	Flow func() error
	// Process makes a worker known that is alive and isn't quiet, and Quiet has
	// it obey. Nil where the gate doesn't depend on them.
	Process func(t testing.TB)
	Quiet   func(t testing.TB)
	// Lacks are states that the system doesn't have.
	Lacks []daybook.OldState
	// Stumbles: after Drop a producer of the same id is refused.
	Stumbles bool
	// Proxy goes to the store by a way that can be cut.
	Proxy interface {
		Addr() string
		DropAnswers(n int)
	}
}

// Run holds a source to the contract. open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, p *place)
	}{
		{"scan tells every state", scanStates},
		{"scan of a copy sees the same", scanCopy},
		{"scan changes nothing", scanChangesNothing},
		{"scan while workers move jobs", scanMoving},
		{"take goes in order", takeInOrder},
		{"taken jobs are held until dropped", heldUntilDropped},
		{"mover dies at any step", moverDies},
		{"answers get lost", answersLost},
		{"full store loses nothing", fullStore},
		{"return restores every byte", returnRestores},
		{"return twice", returnTwice},
		{"return after the rollback is over", returnFenced},
		{"take after the rollback has begun", takeFenced},
		{"return finds the id taken", returnTaken},
		{"late producer stumbles", lateProducer},
		{"gate closes and opens", gateRound},
		{"gate proves itself by a canary", canary},
		{"jobs of lost owners", takeLost},
		{"unreadable jobs are named", unreadable},
		{"unknown versions are refused", unknownVersion},
		{"hostile jobs", hostile},
		{"find", find},
		{"left and forget", leftAndForget},
		{"store away", storeAway},
		{"no memory for a copy", noHeadroom},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, &place{Harness: open(t)}) })
	}
}

// place is a harness with what the tests do with it.
type place struct{ Harness }

func (p *place) old(t testing.TB) cutover.Old {
	t.Helper()
	return p.openAt(t, p.URL, 0)
}

func (p *place) openAt(t testing.TB, url string, whole int64) cutover.Old {
	t.Helper()
	o := p.Open(t, url, whole)
	t.Cleanup(func() { o.Close() })
	return o
}

func (p *place) has(state daybook.OldState) bool { return !slices.Contains(p.Lacks, state) }

// movable are the states of jobs that Take takes, in an order that tests use.
var movable = []daybook.OldState{daybook.OldWaiting, daybook.OldRetrying, daybook.OldLater, daybook.OldDead}

// fill lays n jobs of each movable state there, and answers their states by id.
func (p *place) fill(t testing.TB, n int) map[string]daybook.OldState {
	t.Helper()
	ids := map[string]daybook.OldState{}
	for _, state := range movable {
		for i := range n {
			id := fmt.Sprintf("%s-%03d", state, i)
			p.Put(t, state, id, fmt.Sprintf("[%d]", i), due(i))
			ids[id] = state
		}
	}
	return ids
}

// due are times that no clock has reached, with a fraction that must not matter.
func due(i int) time.Time { return time.Unix(4_000_000_000+int64(i), 0) }

// scan reads all jobs, by id.
func scan(t testing.TB, o cutover.Old) map[string]daybook.OldJob {
	t.Helper()
	jobs := map[string]daybook.OldJob{}
	_, err := o.Scan(t.Context(), 0, func(job daybook.OldJob) error {
		if _, twice := jobs[job.Name()]; twice {
			t.Errorf("%s was visited twice", job.Name())
		}
		jobs[job.Name()] = job
		return nil
	})
	must(t, err)
	return jobs
}

// take takes until there is nothing more.
func take(t testing.TB, o cutover.Old, portion int) (all []daybook.OldJob) {
	t.Helper()
	for {
		jobs, err := o.Take(t.Context(), portion)
		must(t, err)
		if len(jobs) > portion {
			t.Fatalf("took %d jobs, wanted %d at most", len(jobs), portion)
		}
		if len(jobs) == 0 {
			return all
		}
		all = append(all, jobs...)
	}
}

func held(t testing.TB, o cutover.Old) []daybook.OldJob {
	t.Helper()
	jobs, err := o.Held(t.Context(), 100_000)
	must(t, err)
	return jobs
}

func names(jobs []daybook.OldJob) (all []string) {
	for _, job := range jobs {
		all = append(all, job.Name())
	}
	return all
}

// code holds an error to a code.
func code(t testing.TB, err error, want daybook.Code) {
	t.Helper()
	if got := daybook.CodeOf(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}
