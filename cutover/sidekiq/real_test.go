package sidekiq

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

const install = "apt-get install -y ruby-sidekiq ruby-gitlab-sidekiq-fetcher"

// rig is a real Sidekiq on a Redis of its own.
type rig struct {
	server *brokertest.Redis
	c      *redis.Client
	url    string // of the workers and producers
	fetch  string // "reliable" is GitLab's
	log    string
	in     io.Writer // the producer's
	out    *bufio.Reader
}

func newRig(t *testing.T, fetch string) *rig {
	t.Helper()
	server := brokertest.StartRedis(t)
	return &rig{server: server, c: client(t, server), url: server.URL() + "/0", fetch: fetch,
		log: filepath.Join(t.TempDir(), "ran")}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	must(t, err)
	return path
}

func (r *rig) env() []string {
	return []string{"REDIS_URL=" + r.url, "RUN_LOG=" + r.log, "FETCH=" + r.fetch}
}

// process starts one with so many threads.
func (r *rig) process(t *testing.T, threads int) *brokertest.Server {
	t.Helper()
	return brokertest.Start(t, brokertest.Program{
		Name: "sidekiq", Dirs: []string{"/usr/bin"}, Install: install, Env: r.env(),
		Args: func(int, string) []string {
			return []string{"-r", testdata(t, "jobs.rb"), "-c", strconv.Itoa(threads), "-q", queue, "-t", "1"}
		},
		Ready: func(int) bool { return true },
	})
}

// produce has the real client enqueue jobs.
func (r *rig) produce(t testing.TB, jobs []sourcetest.OldLine) {
	t.Helper()
	if r.in == nil {
		if _, err := exec.LookPath("ruby"); err != nil {
			t.Fatalf("there is no ruby: `%s`, or as your system has it", install)
		}
		cmd := exec.Command("ruby", testdata(t, "producer.rb"))
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
		if said, err := r.out.ReadString('\n'); said != job.ID+"\n" {
			t.Fatalf("the producer says %q (%v)", said, err)
		}
	}
}

// hang has a process of its own take a job that never ends, and kills it.
func (r *rig) hang(t *testing.T, s *Source) (id string) {
	t.Helper()
	r.produce(t, []sourcetest.OldLine{{ID: "hangs", State: "hang"}})
	p := r.process(t, 1)
	sourcetest.Until(t, "a running job", func() bool {
		owned, err := s.Owned(t.Context())
		must(t, err)
		return len(owned) == 1 && owned[0].ID == "hangs" && owned[0].State == daybook.OldOwned
	})
	must(t, p.Kill())
	return "hangs"
}

// lost waits until a job's owner is, and takes the job.
func (r *rig) lost(t *testing.T, s *Source, id string) {
	t.Helper()
	var job daybook.OldJob
	sourcetest.Until(t, "a lost owner", func() bool {
		found, err := s.Find(t.Context(), []string{id})
		must(t, err)
		job = found[id]
		now, err := s.store.Now(t.Context())
		must(t, err)
		if job.State == daybook.OldOwned && now.Sub(job.OwnerSeen) < s.Patience()/2 {
			took, err := s.TakeLost(t.Context(), job)
			must(t, err)
			if took {
				t.Fatal("the job of a live owner was taken")
			}
		}
		return job.State == daybook.OldOwnerLost
	})
	if took, err := s.TakeLost(t.Context(), job); err != nil || !took {
		t.Errorf("taking the lost job: %v, %v", took, err)
	}
	if kept, err := s.Held(t.Context(), 10); err != nil || len(kept) != 1 || kept[0].ID != id {
		t.Errorf("held are %v, %v", kept, err)
	}
}

// TestRealMove: real producers and workers, a killed mover, a worker killed in
// mid-job, workers stopped and started.
func TestRealMove(t *testing.T) {
	for _, fetch := range []string{"basic", "reliable"} {
		t.Run(fetch, func(t *testing.T) {
			r := newRig(t, fetch)
			s := open(t, Options{URL: r.server.URL()}, 0)
			id := r.hang(t, s)
			first := r.process(t, 4)
			r.process(t, 3)
			sourcetest.Until(t, "two processes beside the killed one", func() bool {
				all, err := s.listening(t.Context())
				must(t, err)
				return len(all) == 3
			})
			sourcetest.MoveLive(t, sourcetest.Live{
				Old: s, Env: []string{"OLD_URL=" + r.server.URL()}, Produce: r.produce, RunLog: r.log,
				During: func(t testing.TB) {
					must(t, first.End())
					must(t, first.StartAgain())
				},
			})
			if fetch == "reliable" { // the minute in which a dead process counts as alive
				for _, key := range r.c.Keys(t.Context(), "reliable-fetcher-heartbeat-*").Val() {
					must(t, r.c.Expire(t.Context(), key, time.Second).Err())
				}
			}
			r.lost(t, s, id)
		})
	}
}

// TestRealGate: each gate, on a process that wants work.
func TestRealGate(t *testing.T) {
	for _, user := range []string{"", "workers"} {
		t.Run("gate by "+user, func(t *testing.T) {
			r := newRig(t, "basic")
			if user != "" {
				must(t, r.c.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all").Err())
				r.url = "redis://" + user + ":secret@" + r.server.Addr() + "/0"
			}
			s := open(t, Options{URL: r.server.URL(), WorkersUser: user}, 0)
			r.process(t, 2)
			r.produce(t, []sourcetest.OldLine{{ID: "first", State: "waiting"}})
			sourcetest.Until(t, "the first job", func() bool { return r.ran(t, "first") })
			must(t, s.CloseGate(t.Context()))
			sourcetest.Until(t, "a closed gate", func() bool {
				g, err := s.GateState(t.Context())
				must(t, err)
				return g.Closed && len(g.Claimants) == 1
			})
			closed := time.Now()
			sourcetest.Until(t, "the end of takes that had begun", func() bool {
				return time.Since(closed) > s.LongestTake()
			})
			must(t, s.PutCanary(t.Context(), "canary"))
			r.produce(t, []sourcetest.OldLine{{ID: "second", State: "waiting"}})
			laid := time.Now()
			sourcetest.Until(t, "the canary's time", func() bool {
				if there, err := s.CanaryThere(t.Context(), "canary"); err != nil || !there {
					t.Fatalf("somebody took the canary (%v)", err)
				}
				return time.Since(laid) > s.LongestTake()
			})
			if r.ran(t, "second") {
				t.Error("a job ran behind the gate")
			}
			must(t, s.DropCanary(t.Context(), "canary"))
			must(t, s.OpenGate(t.Context()))
			if user == "" {
				r.process(t, 1) // quiet ones stay so
			}
			sourcetest.Until(t, "the second job", func() bool { return r.ran(t, "second") })
		})
	}
}

func (r *rig) ran(t testing.TB, id string) bool {
	t.Helper()
	return sourcetest.Tally(t, r.log)[id] > 0
}
