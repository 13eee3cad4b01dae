package sidekiq

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/proxy"
)

func TestMain(m *testing.M) {
	sourcetest.Mover(func() (cutover.Old, error) { return Open(Options{URL: os.Getenv("OLD_URL"), Queue: queue}) })
	sourcetest.Main(m)
}

const queue = "mail"

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		server := brokertest.StartRedis(t)
		line, err := proxy.Start(server.Addr())
		must(t, err)
		t.Cleanup(func() { line.Close() })
		c := client(t, server)
		h := sourcetest.Harness{
			URL: server.URL(), Client: c, Proxy: line,
			Open: func(t testing.TB, url string, whole int64) cutover.Old { return open(t, Options{URL: url}, whole) },
			Put: func(t testing.TB, state daybook.OldState, id, args string, due time.Time) {
				put(t, c, state, id, args, due)
			},
			Produce: func(t testing.TB, id, args string) bool {
				put(t, c, daybook.OldWaiting, id, args, time.Time{})
				return true
			},
			Spoil: func(t testing.TB, id string) {
				must(t, c.LPush(t.Context(), "queue:mail", "\x80{not "+id).Err())
			},
			Unknown: func(t testing.TB) { report(t, c, "vm:9:abc", `,"version":"11.0.0"`, 0) },
			Flow:    func() error { return flow(c) },
			Process: func(t testing.TB) { report(t, c, "vm:7:abc", "", 0) },
			Quiet: func(t testing.TB) {
				if n := c.LLen(t.Context(), "vm:7:abc-signals").Val(); n == 0 {
					t.Error("the process was told nothing")
				}
				must(t, c.HSet(t.Context(), "vm:7:abc", "quiet", "true").Err())
			},
			Lacks: []daybook.OldState{daybook.OldBlocked, daybook.OldDone},
		}
		// What other queues have in the shared sets must stay where it is.
		for i := range 300 {
			other := fmt.Sprintf(`{"class":"O","queue":"other","args":[],"jid":"other-%d"}`, i)
			set := sets[i%len(sets)].from
			must(t, c.ZAdd(t.Context(), set, redis.Z{Score: 3_999_999_990 + float64(i)/10, Member: other}).Err())
		}
		return h
	})
}

func client(t testing.TB, server *brokertest.Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t testing.TB, o Options, whole int64) *Source {
	t.Helper()
	if o.Queue == "" {
		o.Queue = queue
	}
	s, err := Open(o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	if whole != 0 {
		s.store.ReadWholeUpTo(whole)
	}
	return s
}

// text is a job as Sidekiq writes it.
func text(id, args, more string) string {
	jid, _ := json.Marshal(id)
	return fmt.Sprintf(`{"retry":5,"queue":"mail","args":%s,"class":"MailJob","jid":%s,"created_at":1795986589.2526834%s}`,
		args, jid, more)
}

func put(t testing.TB, c *redis.Client, state daybook.OldState, id, args string, due time.Time) {
	t.Helper()
	ctx := t.Context()
	at := float64(due.UnixMicro()) / 1e6
	failed := `,"error_message":"boom","error_class":"E","failed_at":1795986553.41,"retry_count":0`
	waiting := text(id, args, `,"enqueued_at":1795986589.252705`)
	c.SAdd(ctx, "queues", queue)
	switch state {
	case daybook.OldWaiting:
		must(t, c.LPush(ctx, "queue:mail", waiting).Err())
	case daybook.OldLater:
		must(t, c.ZAdd(ctx, "schedule", redis.Z{Score: at, Member: text(id, args, "")}).Err())
	case daybook.OldRetrying:
		must(t, c.ZAdd(ctx, "retry", redis.Z{Score: at, Member: text(id, args, failed)}).Err())
	case daybook.OldDead:
		must(t, c.ZAdd(ctx, "dead", redis.Z{Score: at, Member: text(id, args, failed)}).Err())
	case daybook.OldOwned, daybook.OldOwnerLost:
		process, silent := "vm:1:aaa", time.Second
		if state == daybook.OldOwnerLost {
			process, silent = "vm:2:bbb", 40*time.Second
		}
		report(t, c, process, "", silent)
		running, err := json.Marshal(map[string]any{"queue": queue, "payload": waiting, "run_at": 1795986563})
		must(t, err)
		must(t, c.HSet(ctx, process+":workers", id, running).Err())
	default:
		t.Fatalf("no %s in Sidekiq", state)
	}
}

// report is what a process writes every five seconds.
func report(t testing.TB, c *redis.Client, identity, more string, silent time.Duration) {
	t.Helper()
	ctx := t.Context()
	must(t, c.SAdd(ctx, "processes", identity).Err())
	must(t, c.HSet(ctx, identity, "info", fmt.Sprintf(`{"queues":["mail"],"identity":%q%s}`, identity, more), "busy", 1,
		"quiet", "false", "beat", fmt.Sprintf("%.6f", float64(time.Now().Add(-silent).UnixMicro())/1e6)).Err())
	must(t, c.PExpire(ctx, identity, time.Minute-silent).Err())
}

// flow is a reliable fetch, or the end of one that gives its job back.
func flow(c *redis.Client) error {
	ctx := context.Background()
	process := rand.IntN(30)
	working := fmt.Sprintf("working:queue:mail:v-m:%d:abc", process)
	if rand.IntN(2) == 0 {
		// It says that it lives before it takes its first job.
		err := c.Set(ctx, fmt.Sprintf("reliable-fetcher-heartbeat-v-m-%d-abc", process), 1, time.Minute).Err()
		if err != nil {
			return err
		}
		err = c.RPopLPush(ctx, "queue:mail", working).Err()
		if err == redis.Nil {
			err = nil
		}
		return err
	}
	job, err := c.LIndex(ctx, working, 0).Result()
	if err != nil {
		return nil
	}
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, "queue:mail", job)
		p.LRem(ctx, working, 1, job)
		return nil
	})
	return err
}

// TestDump: the dump of a real Sidekiq, read as of its time, has the counts that
// are known of it.
func TestDump(t *testing.T) {
	server := brokertest.StartRedis(t)
	c := client(t, server)
	sourcetest.Load(t, c, "testdata/state.json")
	var want struct {
		Waiting, Scheduled, Retry, Dead int
		Live                            int `json:"active_live_owner"`
		Lost                            int `json:"active_dead_owner"`
	}
	raw, err := os.ReadFile("testdata/expected.json")
	must(t, err)
	must(t, json.Unmarshal(raw, &want))
	s := open(t, Options{URL: server.URL()}, 0)
	// The dump was taken 15.69 s after the dead process' last word: its report had
	// 44.310 s of its minute left.
	asOf := daybook.At(time.Unix(1795986573, 739432800).Add(time.Minute - 44310*time.Millisecond))
	// 45 seconds later Sidekiq itself would give the dead one up, and
	// nobody else has spoken.
	for _, at := range []daybook.Time{asOf, asOf.Add(45 * time.Second)} {
		counts(t, s, at, map[daybook.OldState]int{daybook.OldWaiting: want.Waiting, daybook.OldLater: want.Scheduled,
			daybook.OldRetrying: want.Retry, daybook.OldDead: want.Dead, daybook.OldOwned: want.Live,
			daybook.OldOwnerLost: want.Lost})
	}
}

func counts(t *testing.T, s *Source, asOf daybook.Time, want map[daybook.OldState]int) {
	t.Helper()
	got := map[daybook.OldState]int{}
	_, err := s.Scan(t.Context(), asOf, func(job daybook.OldJob) error {
		got[job.State]++
		if job.Unreadable != "" {
			t.Errorf("%s: %s", job.ID, job.Unreadable)
		}
		known(t, job)
		return nil
	})
	must(t, err)
	for state, n := range want {
		if got[state] != n || n == 0 {
			t.Errorf("%s: %d, want %d", state, got[state], n)
		}
		delete(got, state)
	}
	if len(got) > 0 {
		t.Errorf("and %v", got)
	}
}

// known are jobs of the dump, to the last digit.
func known(t *testing.T, job daybook.OldJob) {
	t.Helper()
	is := fmt.Sprintf("%s %s %s %d/%d due %s, %q", job.State, job.Class, job.Args, job.Attempts, job.MaxAttempts,
		job.DueAt, job.Error)
	want, listed := map[string]string{
		"bb7dd141672d7d7618b2bd83": `later MailJob [100,"ok"] 0/6 due 2026-11-29T22:09:49.252949Z, ""`,
		"13d74e66d58840735cf7857c": `retrying MailJob [201,"fail"] 1/6 due 2026-11-29T22:09:14.414401Z, "RuntimeError: boom"`,
		"b87ef75d520679843b543364": `dead MailJob [300,"fail"] 1/1 due , "RuntimeError: boom"`,
		"9a349ee1b7e3a9901a2ca8d6": `owner_lost MailJob [500,"hang"] 0/6 due , ""`,
		"57a905f48a978f5b01784c4e": `waiting MailJob [0,"ok"] 0/6 due , ""`,
	}[job.ID]
	if listed && is != want {
		t.Errorf("%s is\n%s\nwant\n%s", job.ID, is, want)
	}
	if job.ID == "9a349ee1b7e3a9901a2ca8d6" && job.Owner != "vm:17928:df993a5737dd:d9c" {
		t.Errorf("%s has owner %s", job.ID, job.Owner)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
