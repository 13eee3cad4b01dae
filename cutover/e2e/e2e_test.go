package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/procs"
)

func TestMain(m *testing.M) {
	if os.Getenv("DAYBOOK_CUTOVER_MOVER") != "" {
		mover()
	}
	if os.Getenv("DAYBOOK_TEST_OLD") == "" {
		fmt.Println("old systems are not asked for; DAYBOOK_TEST_OLD=1 runs these tests")
		os.Exit(0)
	}
	os.Exit(pgtest.Around(m).Run())
}

// size is how many jobs a move has in all, and how often its mover is killed:
// make test-cutover asks for 1,500.
func size() (jobs, kills int) {
	jobs, err := strconv.Atoi(os.Getenv("DAYBOOK_CUTOVER_JOBS"))
	if err != nil || jobs < 150 {
		jobs = 150
	}
	if kills = 9; jobs >= 1000 {
		kills = 30
	}
	return jobs, kills
}

// whole is the long form, in which nobody lets time go by at once.
func whole() bool { jobs, _ := size(); return jobs >= 1000 }

// moverOrder is what a mover's process is told.
type moverOrder struct {
	System, URL, DB string
	Verb            string
	Die             int    // at this step, counted from 1; 0 lives
	Gaps            string // the file to which the name of the gap goes that it dies in
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
	book, err := openBook(ctx, o.DB)
	fail(err)
	step := 0
	e := cutover.New(book, old, "mail", cutover.Options{Batch: 7, Sample: time.Second, Mapping: sys.mapping,
		Step: func(gap string) {
			if step++; step == o.Die {
				die(o.Gaps, gap)
			}
		}})
	switch o.Verb {
	case "gate":
		_, err = e.Gate(ctx, patience)
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

// die writes where, and kills this process with -9.
func die(file, gap string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	fail(err)
	_, err = fmt.Fprintln(f, gap)
	fail(err)
	self, err := os.FindProcess(os.Getpid())
	fail(err)
	self.Kill()
	select {} // until it takes hold
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
	doc, err := json.Marshal(moverOrder{System: w.sys.name, URL: w.url, DB: w.db, Verb: verb, Die: step,
		Gaps: w.gapFile()})
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

func (w *world) gapFile() string { return filepath.Join(w.dir, "gaps") }

// diedIn holds that a mover was killed in each of these gaps at least once.
func (w *world) diedIn(gaps ...string) {
	w.Helper()
	text, err := os.ReadFile(w.gapFile())
	w.ok(err)
	died := map[string]int{}
	for gap := range strings.FieldsSeq(string(text)) {
		died[gap]++
	}
	w.Logf("movers died in: %v", died)
	for _, gap := range gaps {
		if died[gap] == 0 {
			w.Errorf("no mover was killed in the gap %s", gap)
		}
	}
}

func eachSystem(t *testing.T, test func(w *world)) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range systems(dir) {
		t.Run(sys.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			test(newWorld(t, sys, false))
		})
	}
}

// orders are n jobs in all states: every tenth is for later, and the last
// thirtieth fails.
func orders(n int) (list, failing []order) {
	for k := range n - n/30 {
		o := order{k, "ok", 0}
		if k%10 == 9 {
			o.seconds = 3600 + k
		}
		list = append(list, o)
	}
	for k := range n / 30 {
		failing = append(failing, order{n - n/30 + k, "fail", 0})
	}
	return list, failing
}

func (w *world) plan(e *cutover.Engine, watch time.Duration) {
	w.Helper()
	_, err := e.MakePlan(w.Context(), "mail", cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk,
		Wait: cutover.Seconds(patience), NoRollback: true})
	w.ok(err)
	_, err = e.Shadow(w.Context(), watch)
	w.ok(err)
}

// TestMove: jobs in all states, 1,500 in the long form, real workers, a mover that
// is killed in every gap and thirty times in all, a worker that is killed in the
// middle of a job, workers that stop and start, and late arrivals: each job ran in
// one system, or a person is asked about it.
func TestMove(t *testing.T) { eachSystem(t, move) }

// TestMovePostgres is TestMove with the book on PostgreSQL.
func TestMovePostgres(t *testing.T) {
	if !pgtest.Wanted() {
		t.Log("DAYBOOK_TEST_POSTGRES=1 runs this")
		return
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	list := systems(dir)
	if !whole() {
		list = list[:1]
	}
	for _, sys := range list {
		t.Run(sys.name, func(t *testing.T) {
			t.Parallel()
			move(newWorld(t, sys, true))
		})
	}
}

func move(w *world) {
	jobs, kills := size()
	list, failing := orders(jobs)
	w.produce(slices.Concat(failing, []order{{9000, "slow", 0}}, list)...)
	e := w.engine(cutover.Options{})
	w.plan(e, 0)
	doomed := w.startWorker()
	w.soon("a slow job runs", func() bool { return w.inOld("start")["9000"] == 1 })
	w.startWorker().stop() // workers come and go
	others := w.startWorker()
	_, err := e.Shadow(w.Context(), time.Second)
	w.ok(err)
	w.soon("some are done", func() bool { return len(w.inOld("done")) > jobs/15 })
	if !w.carryTo("gate", 1) {
		w.Error("the mover that closes the gate lived on")
	}
	proof, err := e.Gate(w.Context(), patience)
	w.ok(err)
	w.Logf("gate: %s; %d taken meanwhile", proof.How, proof.Leaks)
	for step := range 3 {
		w.carryTo("move", step+1) // each gap of the move once
	}
	w.carry("move", kills, 8)
	doomed.kill()
	others.stop()
	w.age()
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
	if !b.Balanced || b.Seen+b.Arrived != int64(jobs+2) {
		w.Errorf("it doesn't balance: %+v", b)
	}
	w.accounted(slices.Concat(list, failing, []order{{9100, "ok", 0}}))
	w.diedIn(cutover.GapClosed, cutover.GapTaken, cutover.GapImported, cutover.GapDropped)
	w.healthy()
}

// age lets the time go by after which an old owner is lost, but in the long form,
// which waits for it.
func (w *world) age() {
	w.Helper()
	if w.sys.age != nil && !whole() {
		w.ok(w.sys.age(w.Context(), w.redis))
	}
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
