package rq

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

const install = "apt-get install -y python3-rq"

// python is the one that the distribution's RQ belongs to.
const python = "/usr/bin/python3"

// rig is a real RQ on a Redis of its own.
type rig struct {
	server *brokertest.Redis
	c      *redis.Client
	log    string
	in     io.Writer // the producer's
	out    *bufio.Reader
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := brokertest.StartRedis(t)
	r := &rig{server: server, c: client(t, server), log: filepath.Join(t.TempDir(), "ran")}
	must(t, os.WriteFile(r.log+".hang", nil, 0o600)) // jobs that hang end when it goes, with the test
	return r
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	must(t, err)
	return path
}

func (r *rig) env(t testing.TB) []string {
	return []string{"OLD_URL=" + r.server.URL(), "RUN_LOG=" + r.log, "PYTHONPATH=" + testdata(t, ""),
		"PYTHONDONTWRITEBYTECODE=1"}
}

// worker starts one that waits a second for each job.
func (r *rig) worker(t *testing.T, name string) *brokertest.Server {
	t.Helper()
	w := brokertest.Start(t, brokertest.Program{
		Name: "rq", Dirs: []string{"/usr/bin"}, Install: install, Env: r.env(t),
		Args: func(int, string) []string {
			return []string{"worker", queue, "--url", r.server.URL(), "--worker-ttl", "16", "--name", name}
		},
		Ready: func(int) bool { return true },
	})
	sourcetest.Until(t, "worker "+name, func() bool {
		return r.c.HExists(t.Context(), "rq:worker:"+name, "state").Val() || strings.Contains(w.Log(), "Error")
	})
	return w
}

// produce has the real client enqueue jobs.
func (r *rig) produce(t testing.TB, jobs []sourcetest.OldLine) {
	t.Helper()
	if r.in == nil {
		cmd := exec.Command(python, testdata(t, "producer.py"))
		cmd.Env = append(os.Environ(), r.env(t)...)
		cmd.Stderr = t.Output()
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		if err := cmd.Start(); err != nil {
			t.Fatalf("there is no %s with RQ (%v): `%s`, or as your system has it", python, err, install)
		}
		t.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
		r.in, r.out = in, bufio.NewReader(out)
	}
	for _, job := range jobs {
		fmt.Fprintf(r.in, "%s %s\n", job.ID, job.State)
		if said, err := r.out.ReadString('\n'); said != job.ID+"\n" {
			t.Fatalf("the producer says %q (%v); is RQ there? `%s`", said, err, install)
		}
	}
}

// TestRealMove: a real producer and workers, a killed mover, a worker killed in
// mid-job, one stopped and started.
func TestRealMove(t *testing.T) {
	r := newRig(t)
	s := open(t, Options{URL: r.server.URL()}, 0)
	r.produce(t, []sourcetest.OldLine{{ID: "hangs", State: "hang"}})
	hung := r.worker(t, "hung")
	var job daybook.OldJob
	sourcetest.Until(t, "a running job", func() bool {
		found, err := s.Find(t.Context(), []string{"hangs"})
		must(t, err)
		job = found["hangs"]
		return job.State == daybook.OldOwned
	})
	if took, err := s.TakeLost(t.Context(), job); err != nil || took || job.Owner != "hung" {
		t.Errorf("the job of %q was taken: %v, %v", job.Owner, took, err)
	}
	must(t, hung.Kill())
	first := r.worker(t, "first")
	r.worker(t, "second")
	sourcetest.MoveLive(t, sourcetest.Live{
		Old: s, Env: []string{"OLD_URL=" + r.server.URL()}, Produce: r.produce, RunLog: r.log,
		During: func(t testing.TB) {
			must(t, first.End())
			must(t, first.StartAgain())
		},
	})
	// A minute and a half goes by at once.
	past := redis.Z{Score: float64(time.Now().Unix() - 1), Member: "hangs"}
	must(t, r.c.ZAddXX(t.Context(), "rq:wip:mail", past).Err())
	found, err := s.Find(t.Context(), []string{"hangs"})
	must(t, err)
	if took, err := s.TakeLost(t.Context(), found["hangs"]); err != nil || !took ||
		found["hangs"].State != daybook.OldOwnerLost {
		t.Errorf("the lost job is %s, and taken: %v, %v", found["hangs"].State, took, err)
	}
}

// TestRealGate: the suspension holds once the worker's wait has ended.
func TestRealGate(t *testing.T) {
	r := newRig(t)
	s := open(t, Options{URL: r.server.URL(), WorkerTTL: 16 * time.Second}, 0)
	r.worker(t, "w")
	ran := func(id string) bool { return sourcetest.Tally(t, r.log)[id] > 0 }
	r.produce(t, []sourcetest.OldLine{{ID: "one", State: "waiting"}})
	sourcetest.Until(t, "the first job", func() bool { return ran("one") })
	must(t, s.CloseGate(t.Context()))
	sourcetest.Until(t, "a closed gate", func() bool {
		must(t, s.PutCanary(t.Context(), "canary")) // a worker that waits looks at the gate only after one more job
		g, err := s.GateState(t.Context())
		must(t, err)
		return g.Closed && len(g.Claimants) == 1 && g.Claimants[0].Quiet
	})
	must(t, s.PutCanary(t.Context(), "canary"))
	r.produce(t, []sourcetest.OldLine{{ID: "two", State: "waiting"}})
	laid := time.Now()
	sourcetest.Until(t, "the canary's time", func() bool {
		if there, err := s.CanaryThere(t.Context(), "canary"); err != nil || !there {
			t.Fatalf("somebody took the canary (%v)", err)
		}
		return time.Since(laid) > s.LongestTake()
	})
	if ran("two") {
		t.Error("a job ran behind the gate")
	}
	must(t, s.OpenGate(t.Context())) // the canary is taken, and fails
	sourcetest.Until(t, "the second job", func() bool { return ran("two") })
	must(t, s.Forget(t.Context()))
	if n := r.c.Exists(t.Context(), "rq:job:canary").Val(); n != 0 {
		t.Error("the canary was left behind")
	}
}
