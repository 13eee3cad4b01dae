package asynq

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

// rig is a real Asynq on a Redis of its own.
type rig struct {
	server  *brokertest.Redis
	c       *redis.Client
	program string
	log     string
	in      io.Writer // the producer's
	out     *bufio.Reader
}

// newRig builds internal/oldworkers/asynq, which has Asynq in it.
func newRig(t *testing.T) *rig {
	t.Helper()
	server := brokertest.StartRedis(t)
	r := &rig{server: server, c: client(t, server), program: filepath.Join(t.TempDir(), "daybook-old-asynq"),
		log: filepath.Join(t.TempDir(), "ran")}
	build := exec.Command("go", "build", "-o", r.program, ".")
	build.Dir = filepath.Join("..", "..", "internal", "oldworkers", "asynq")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", build.Dir, err, said)
	}
	return r
}

func (r *rig) env() []string { return []string{"OLD_ADDR=" + r.server.Addr(), "RUN_LOG=" + r.log} }

// process starts a server with so many goroutines.
func (r *rig) process(t *testing.T, threads int) *brokertest.Server {
	t.Helper()
	return brokertest.Start(t, brokertest.Program{
		Name: filepath.Base(r.program), Dirs: []string{filepath.Dir(r.program)}, Env: r.env(),
		Args:  func(int, string) []string { return []string{"work", strconv.Itoa(threads)} },
		Ready: func(int) bool { return true },
	})
}

// produce has the real client enqueue jobs, and answers what it said of each.
func (r *rig) produce(t testing.TB, jobs []sourcetest.OldLine) (answers []string) {
	t.Helper()
	if r.in == nil {
		cmd := exec.Command(r.program, "produce")
		cmd.Env = append(os.Environ(), r.env()...)
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
		r.in, r.out = in, bufio.NewReader(out)
	}
	for _, job := range jobs {
		fmt.Fprintf(r.in, "%s %s\n", job.ID, job.State)
		said, err := r.out.ReadString('\n')
		must(t, err)
		answers = append(answers, said[:len(said)-1])
	}
	return answers
}

// TestRealMove: a real producer and servers, a killed mover, a server killed in
// mid-job, one stopped and started.
func TestRealMove(t *testing.T) {
	r := newRig(t)
	s := open(t, Options{URL: r.server.URL()}, 0)
	r.produce(t, []sourcetest.OldLine{{ID: "hangs", State: "hang"}})
	hung := r.process(t, 1)
	state := func() daybook.OldJob {
		found, err := s.Find(t.Context(), []string{"hangs"})
		must(t, err)
		return found["hangs"]
	}
	sourcetest.Until(t, "a running job", func() bool { return state().State == daybook.OldOwned })
	if took, err := s.TakeLost(t.Context(), state()); err != nil || took {
		t.Errorf("a live server was robbed: %v, %v", took, err)
	}
	must(t, hung.Kill())
	first := r.process(t, 4)
	r.process(t, 3)
	sourcetest.MoveLive(t, sourcetest.Live{
		Old: s, Env: []string{"OLD_URL=" + r.server.URL()}, RunLog: r.log,
		Produce: func(t testing.TB, jobs []sourcetest.OldLine) { r.produce(t, jobs) },
		During: func(t testing.TB) {
			must(t, first.End())
			must(t, first.StartAgain())
		},
	})
	// A moved id is taken: a late producer is told.
	if said := r.produce(t, []sourcetest.OldLine{{ID: firstTaken(t, s, r), State: "waiting"}}); said[0] != "conflict" {
		t.Errorf("a late producer of a moved id is told %q", said[0])
	}
	// The lease runs out before Asynq's own recoverer takes the job, which is half
	// a minute later.
	sourcetest.Until(t, "the lost job", func() bool {
		took, err := s.TakeLost(t.Context(), state())
		must(t, err)
		return took
	})
	if kept, err := s.Held(t.Context(), 10); err != nil || len(kept) != 1 || kept[0].ID != "hangs" {
		t.Errorf("held are %v, %v", kept, err)
	}
}

// firstTaken is a job that was moved: its hash says so.
func firstTaken(t *testing.T, s *Source, r *rig) string {
	t.Helper()
	for _, job := range sourcetest.Lines(1500) {
		if r.c.HGet(t.Context(), s.body(job.ID), "state").Val() == markMoved {
			return job.ID
		}
	}
	t.Fatal("no job was moved")
	return ""
}

// TestRealGate: the pause holds, and its end ends it.
func TestRealGate(t *testing.T) {
	r := newRig(t)
	s := open(t, Options{URL: r.server.URL()}, 0)
	r.process(t, 2)
	ran := func(id string) bool { return sourcetest.Tally(t, r.log)[id] > 0 }
	r.produce(t, []sourcetest.OldLine{{ID: "first", State: "waiting"}})
	sourcetest.Until(t, "the first job", func() bool { return ran("first") })
	must(t, s.CloseGate(t.Context()))
	g, err := s.GateState(t.Context())
	if err != nil || !g.Closed || len(g.Claimants) != 1 || g.Claimants[0].Quiet {
		t.Errorf("the gate is %+v (%v)", g, err)
	}
	must(t, s.PutCanary(t.Context(), "canary"))
	r.produce(t, []sourcetest.OldLine{{ID: "second", State: "waiting"}})
	laid := time.Now()
	sourcetest.Until(t, "the canary's time", func() bool {
		if there, err := s.CanaryThere(t.Context(), "canary"); err != nil || !there {
			t.Fatalf("somebody took the canary (%v)", err)
		}
		return time.Since(laid) > s.LongestTake()
	})
	if ran("second") {
		t.Error("a job ran behind the gate")
	}
	must(t, s.OpenGate(t.Context()))
	sourcetest.Until(t, "the second job", func() bool { return ran("second") })
	// The canary was at the taking end: a server took it, and could not run it.
	sourcetest.Until(t, "a canary that is taken", func() bool {
		there, err := s.CanaryThere(t.Context(), "canary")
		must(t, err)
		return !there
	})
	if took := len(scanAll(t, s)); took != 0 {
		t.Errorf("%d jobs are seen: the canary passes for one", took)
	}
	must(t, s.Forget(t.Context()))
	if left := r.c.Exists(t.Context(), s.body("canary")).Val(); left != 0 {
		t.Error("the canary was left behind")
	}
}

func scanAll(t *testing.T, s *Source) (all []daybook.OldJob) {
	t.Helper()
	_, err := s.Scan(t.Context(), 0, func(job daybook.OldJob) error {
		all = append(all, job)
		return nil
	})
	must(t, err)
	return all
}
