package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/store/sqlite"
)

func TestMain(m *testing.M) {
	if os.Getenv("DAYBOOK_CUTOVER_MOVER") != "" {
		mover()
	}
	if os.Getenv("DAYBOOK_TEST_OLD") == "" {
		fmt.Println("old systems are not asked for; DAYBOOK_TEST_OLD=1 runs these tests")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// moverOrder is what a mover's process is told.
type moverOrder struct {
	System, URL, DB string
	Verb            string
	Die             int // at this step, counted from 1; 0 lives
}

// mover is a process that carries the cutover on and dies in a gap.
func mover() {
	var o moverOrder
	if err := json.Unmarshal([]byte(os.Getenv("DAYBOOK_CUTOVER_MOVER")), &o); err != nil {
		fail(err)
	}
	ctx, list := context.Background(), systems("")
	sys := list[slices.IndexFunc(list, func(s system) bool { return s.name == o.System })]
	old, err := sys.open(o.URL)
	fail(err)
	book, err := sqlite.Open(ctx, o.DB, sqlite.Options{})
	fail(err)
	step := 0
	e := cutover.New(book, old, "mail", cutover.Options{Batch: 7, Sample: time.Second, Step: func(string) {
		if step++; step == o.Die {
			self, err := os.FindProcess(os.Getpid())
			fail(err)
			self.Kill()
			select {} // until it takes hold
		}
	}})
	switch o.Verb {
	case "move":
		_, err = e.Move(ctx)
	case "rollback":
		_, err = e.Rollback(ctx)
	case "settle":
		_, err = e.Settle(ctx)
	}
	fail(err)
	os.Exit(0)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// carry runs movers that die, and one that lives.
func (w *world) carry(verb string, kills, most int) {
	w.Helper()
	r := rand.New(rand.NewPCG(1, uint64(kills)))
	died := 0
	for range kills {
		if w.carryTo(verb, 1+r.IntN(most)) {
			died++
		}
	}
	w.carryTo(verb, 0)
	w.Logf("%s: %d of %d movers were killed", verb, died, kills)
	if died*3 < kills*2 {
		w.Errorf("too few movers were killed to show anything")
	}
}

// carryTo runs a mover that dies at a step, and reports whether it did; 0 lives.
func (w *world) carryTo(verb string, step int) (died bool) {
	w.Helper()
	doc, err := json.Marshal(moverOrder{System: w.sys.name, URL: w.url, DB: w.db, Verb: verb, Die: step})
	w.ok(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DAYBOOK_CUTOVER_MOVER="+string(doc))
	cmd.SysProcAttr = procs.Attributes()
	out, err := cmd.CombinedOutput()
	if died = cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == -1; err != nil && !died {
		w.Fatalf("%s: %v\n%s", verb, err, tail(out))
	}
	return died
}

func eachSystem(t *testing.T, test func(w *world)) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range systems(dir) {
		t.Run(sys.name, func(t *testing.T) { test(newWorld(t, sys)) })
	}
}

// orders are the 1,500 jobs in all states.
func orders() (list []order) {
	for n := range 1300 {
		list = append(list, order{n, "ok", 0})
	}
	for n := range 150 {
		list = append(list, order{1300 + n, "ok", 3600 + n})
	}
	for n := range 50 {
		list = append(list, order{1450 + n, "fail", 0})
	}
	return list
}

func (w *world) plan(e *cutover.Engine) {
	w.Helper()
	_, err := e.MakePlan(w.Context(), "mail", cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk,
		Wait: cutover.Seconds(patience), NoRollback: true})
	w.ok(err)
	_, err = e.Shadow(w.Context(), 2*time.Second)
	w.ok(err)
}

// TestMove: 1,500 jobs in all states, real workers, a mover that is killed thirty
// times, a worker that is killed in the middle of a job, and late arrivals: each
// job ran in one system, or a person is asked about it.
func TestMove(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(slices.Concat(orders()[1450:], []order{{9000, "slow", 0}}, orders()[:1450])...)
		doomed := w.startWorker()
		w.soon("a slow job runs", func() bool { return w.inOld("start")["9000"] == 1 })
		others := w.startWorker()
		e := w.engine(cutover.Options{})
		w.plan(e)
		w.soon("some are done", func() bool { return len(w.inOld("done")) > 100 })
		proof, err := e.Gate(w.Context(), patience)
		w.ok(err)
		w.Logf("gate: %s; %d taken meanwhile", proof.How, proof.Leaks)
		w.carry("move", 30, 8)
		doomed.kill()
		others.stop()
		settled, err := e.Settle(w.Context())
		w.ok(err)
		w.Logf("settled: %+v", settled)
		_, err = e.Run(w.Context())
		w.ok(err)
		w.produce(order{9100, "ok", 0}) // a producer that never learned of it
		swept, err := e.Watch(w.Context(), 0)
		w.ok(err)
		if swept.Taken != 1 {
			w.Errorf("late arrivals: %+v", swept)
		}
		w.work()
		b, err := e.Reconcile(w.Context())
		w.ok(err)
		w.Logf("balance: %+v", b)
		if !b.Balanced {
			w.Errorf("it doesn't balance: %+v", b.Wrong)
		}
		w.accounted(append(orders(), order{9100, "ok", 0}))
		w.healthy()
	})
}

// accounted holds the run logs of both sides against each other and the book.
func (w *world) accounted(list []order) {
	w.Helper()
	old, both, lost, twice := w.inOld("done"), 0, 0, 0
	asked := map[string]bool{}
	pending := map[string]bool{}
	page := daybook.Filter{Queue: "mail", Limit: daybook.ListMax}
	for {
		jobs, err := w.book.Jobs(w.Context(), page)
		w.ok(err)
		for _, j := range jobs.Items {
			var args []any
			w.ok(json.Unmarshal(j.Args, &args))
			switch j.State {
			case daybook.SetAside:
				asked[fmt.Sprint(args[0])] = true
			case daybook.Waiting:
				pending[fmt.Sprint(args[0])] = true
			}
		}
		if page.Cursor = jobs.Cursor; page.Cursor == "" {
			break
		}
	}
	if !asked["9000"] {
		w.Error("nobody is asked about the job whose worker was killed in the middle of it")
	}
	for _, o := range list {
		number := fmt.Sprint(o.number)
		ran := old[number] + w.here[number]
		switch {
		case old[number] > 0 && w.here[number] > 0:
			both++
		case ran > 1:
			twice++
		case ran == 0 && !asked[number] && !pending[number]:
			lost++
			w.Errorf("job %s is nowhere", number)
		case ran == 1 && pending[number]:
			w.Errorf("job %s ran and waits", number)
		}
	}
	w.Logf("ran in the old system %d, here %d, waiting here %d, asked %d; in both %d, twice %d, lost %d", len(old),
		len(w.here), len(pending), len(asked), both, twice, lost)
	if both+twice+lost > 0 {
		w.Errorf("in both %d, twice %d, lost %d", both, twice, lost)
	}
}
