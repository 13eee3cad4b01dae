package bullmq

import (
	"bufio"
	"bytes"
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

const install = "apt-get install -y nodejs npm"

// rig is a real BullMQ on a Redis of its own.
type rig struct {
	server  *brokertest.Redis
	c       *redis.Client
	dir     string // with BullMQ installed
	version string // the package
	log     string
	in      io.Writer // the producer's
	out     *bufio.Reader
}

func newRig(t *testing.T, version string) *rig {
	t.Helper()
	server := brokertest.StartRedis(t)
	return &rig{server: server, c: client(t, server), dir: installed(t), version: version,
		log: filepath.Join(t.TempDir(), "ran")}
}

// installed copies internal/oldworkers/bullmq beside the user's caches and has npm
// install what its lock file names, unless that was done.
func installed(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	must(t, err)
	dir := filepath.Join(cache, "daybook-old-bullmq")
	must(t, os.MkdirAll(dir, 0o755))
	same := true
	for _, name := range []string{"package.json", "package-lock.json", "bullmq.mjs"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "oldworkers", "bullmq", name))
		must(t, err)
		was, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(was, text) {
			same = same && name == "bullmq.mjs"
			must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "bullmq5")); err == nil && same {
		return dir
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm can't install BullMQ in %s (%v); without npm: `%s`\n%s", dir, err, install, said)
	}
	return dir
}

func (r *rig) env() []string {
	return []string{"OLD_PORT=" + strconv.Itoa(r.server.Port()), "BULLMQ=" + r.version, "RUN_LOG=" + r.log}
}

func (r *rig) worker(t *testing.T, threads int) *brokertest.Server {
	t.Helper()
	return brokertest.Start(t, brokertest.Program{
		Name: "node", Install: install, Env: r.env(),
		Args: func(int, string) []string {
			return []string{filepath.Join(r.dir, "bullmq.mjs"), "work", strconv.Itoa(threads)}
		},
		Ready: func(int) bool { return true },
	})
}

// workers waits until so many are connected.
func (r *rig) workers(t *testing.T, s *Source, n int) {
	t.Helper()
	sourcetest.Until(t, fmt.Sprintf("%d workers", n), func() bool {
		g, err := s.GateState(t.Context())
		must(t, err)
		return len(g.Claimants) >= n
	})
}

// produce has the real client add jobs.
func (r *rig) produce(t testing.TB, jobs []sourcetest.OldLine) {
	t.Helper()
	if r.in == nil {
		cmd := exec.Command("node", filepath.Join(r.dir, "bullmq.mjs"), "produce")
		cmd.Env = append(os.Environ(), r.env()...)
		cmd.Stderr = t.Output()
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
		if said, err := r.out.ReadString('\n'); said != job.ID+"\n" {
			t.Fatalf("the producer says %q (%v)", said, err)
		}
	}
}

// TestRealMove: a real producer and workers of both versions, a killed mover, a
// worker killed in mid-job, one stopped and started.
func TestRealMove(t *testing.T) {
	for _, version := range []string{"bullmq", "bullmq5"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, version)
			s := open(t, Options{URL: r.server.URL()}, 0)
			r.produce(t, []sourcetest.OldLine{{ID: "hangs", State: "hang"}})
			place, err := s.Check(t.Context())
			must(t, err)
			t.Logf("it is BullMQ %s", place.Version)
			hung := r.worker(t, 1)
			var job daybook.OldJob
			find := func() daybook.OldState {
				found, err := s.Find(t.Context(), []string{"hangs"})
				must(t, err)
				job = found["hangs"]
				return job.State
			}
			sourcetest.Until(t, "a running job", func() bool { return find() == daybook.OldOwned })
			if took, err := s.TakeLost(t.Context(), job); err != nil || took {
				t.Errorf("a live worker was robbed: %v, %v", took, err)
			}
			must(t, hung.Kill())
			// Half a minute goes by at once: the lock ends, and nobody is there to see it.
			must(t, r.c.Del(t.Context(), key("hangs:lock")).Err())
			if state := find(); state != daybook.OldOwnerLost {
				t.Errorf("the lost job is %s", state)
			}
			if took, err := s.TakeLost(t.Context(), job); err != nil || !took {
				t.Errorf("taking the lost job: %v, %v", took, err)
			}
			kept, err := s.Held(t.Context(), 10)
			if err != nil || len(kept) != 1 || kept[0].ID != "hangs" {
				t.Fatalf("held are %v, %v", kept, err)
			}
			must(t, s.Drop(t.Context(), kept))
			first := r.worker(t, 4)
			r.worker(t, 3)
			r.workers(t, s, 2)
			sourcetest.MoveLive(t, sourcetest.Live{
				Old: s, Env: []string{"OLD_URL=" + r.server.URL()}, Produce: r.produce, RunLog: r.log,
				During: func(t testing.TB) {
					must(t, first.End())
					must(t, first.StartAgain())
				},
			})
		})
	}
}

// TestRealGate: the pause holds, and its end ends it.
func TestRealGate(t *testing.T) {
	for _, version := range []string{"bullmq", "bullmq5"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, version)
			s := open(t, Options{URL: r.server.URL()}, 0)
			r.worker(t, 2)
			r.workers(t, s, 1)
			ran := func(id string) bool { return sourcetest.Tally(t, r.log)[id] > 0 }
			r.produce(t, []sourcetest.OldLine{{ID: "one", State: "waiting"}})
			sourcetest.Until(t, "the first job", func() bool { return ran("one") })
			must(t, s.CloseGate(t.Context()))
			must(t, s.PutCanary(t.Context(), "canary"))
			r.produce(t, []sourcetest.OldLine{{ID: "two", State: "waiting"}, {ID: "three", State: "waiting"}})
			laid := time.Now()
			sourcetest.Until(t, "the canary's time", func() bool {
				if there, err := s.CanaryThere(t.Context(), "canary"); err != nil || !there {
					t.Fatalf("somebody took the canary (%v)", err)
				}
				return time.Since(laid) > 3*s.LongestTake()
			})
			if ran("two") || ran("three") {
				t.Error("a job ran behind the gate")
			}
			took, err := s.Take(t.Context(), 1)
			if err != nil || len(took) != 1 || took[0].ID != "two" {
				t.Fatalf("taken behind the gate: %v, %v", took, err)
			}
			if back, err := s.Return(t.Context(), took[0]); err != nil || !back {
				t.Errorf("returning: %v, %v", back, err)
			}
			must(t, s.OpenGate(t.Context()))
			sourcetest.Until(t, "the other jobs", func() bool { return ran("two") && ran("three") })
			sourcetest.Until(t, "a canary that failed", func() bool {
				there, err := s.CanaryThere(t.Context(), "canary")
				must(t, err)
				return !there
			})
			if ran("canary") {
				t.Error("the canary ran")
			}
			must(t, s.Forget(t.Context()))
		})
	}
}
