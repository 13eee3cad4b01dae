package bullmq

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

func key(name string) string { return "bull:mail:" + name }

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		server := brokertest.StartRedis(t)
		line, err := proxy.Start(server.Addr())
		must(t, err)
		t.Cleanup(func() { line.Close() })
		c := client(t, server)
		must(t, c.ZAdd(t.Context(), key("marker"), redis.Z{Member: "0"}).Err())
		must(t, c.HSet(t.Context(), key("meta"), "version", "bullmq:6.7.0", "opts.maxLenEvents", 10000).Err())
		return sourcetest.Harness{
			URL: server.URL(), Client: c, Proxy: line,
			Open: func(t testing.TB, url string, whole int64) cutover.Old { return open(t, Options{URL: url}, whole) },
			Put: func(t testing.TB, state daybook.OldState, id, args string, due time.Time) {
				put(t, c, state, id, args, due)
			},
			Produce: func(t testing.TB, id, args string) bool {
				if c.Exists(t.Context(), key(id)).Val() == 0 { // else it is ignored, and nobody is told
					put(t, c, daybook.OldWaiting, id, args, time.Time{})
				}
				return true
			},
			Spoil: func(t testing.TB, id string) {
				must(t, c.LPush(t.Context(), key("wait"), id).Err())
				must(t, c.HSet(t.Context(), key(id), "name", "send", "data", "{").Err())
			},
			Unknown: func(t testing.TB) { must(t, c.HSet(t.Context(), key("meta"), "version", "bullmq:9.0.0").Err()) },
			Flow:    func() error { return flow(c) },
		}
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
	o.Queue = queue
	s, err := Open(o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	if whole != 0 {
		s.store.ReadWholeUpTo(whole)
	}
	return s
}

func put(t testing.TB, c *redis.Client, state daybook.OldState, id, args string, due time.Time) {
	t.Helper()
	ctx := t.Context()
	hash := func(more ...any) {
		fields := append([]any{"name", "send", "data", args, "opts", `{"attempts":5}`, "timestamp", "1795986397910",
			"delay", 0, "priority", 0}, more...)
		must(t, c.HSet(ctx, key(id), fields...).Err())
	}
	set := func(name string, score float64) {
		must(t, c.ZAdd(ctx, key(name), redis.Z{Score: score, Member: id}).Err())
	}
	delayed := float64(due.UnixMilli()*4096 + 3)
	switch state {
	case daybook.OldWaiting:
		hash("deid", "d "+id)
		must(t, c.Set(ctx, key("de:d "+id), id, time.Hour).Err())
		must(t, c.LPush(ctx, key("wait"), id).Err())
	case daybook.OldLater:
		hash()
		set("delayed", delayed)
	case daybook.OldRetrying:
		hash("atm", 2, "failedReason", "boom")
		set("delayed", delayed)
	case daybook.OldDead:
		hash("atm", 5, "failedReason", "boom", "finishedOn", 1)
		set("failed", float64(due.UnixMilli()))
	case daybook.OldDone:
		hash("atm", 1, "finishedOn", 1)
		set("completed", float64(due.UnixMilli()))
	case daybook.OldBlocked:
		hash()
		set("waiting-children", 1)
	case daybook.OldOwned, daybook.OldOwnerLost:
		hash("pb", "w1", "processedOn", time.Now().UnixMilli())
		must(t, c.LPush(ctx, key("active"), id).Err())
		if state == daybook.OldOwned {
			must(t, c.Set(ctx, key(id+":lock"), "token", 20*time.Second).Err())
		}
	default:
		t.Fatalf("no %s in BullMQ", state)
	}
}

// step is a worker's taking of a job, or what its shutdown does with one.
var step = redis.NewScript(`
if ARGV[1] == '0' then
	redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
	return 1
end
local id = redis.call('LINDEX', KEYS[2], 0)
if id then
	redis.call('LREM', KEYS[2], 1, id)
	redis.call('RPUSH', KEYS[1], id)
end
return 1
`)

func flow(c *redis.Client) error {
	return step.Run(context.Background(), c, []string{key("wait"), key("active")}, rand.IntN(2)).Err()
}

// TestDump: the dump of a real BullMQ has the counts that are known of it. All
// three locks lived when it was taken; 24 seconds later that of the dead worker
// had run out.
func TestDump(t *testing.T) {
	server := brokertest.StartRedis(t)
	sourcetest.Load(t, client(t, server), "testdata/state.json")
	var want struct {
		Waiting, Scheduled, Retry, Dead, Completed int
		Schedulers                                 int `json:"repeat_schedulers"`
		Blocked                                    int `json:"waiting_children"`
		Live                                       int `json:"active_live_owner"`
		Lost                                       int `json:"active_dead_owner"`
	}
	raw, err := os.ReadFile("testdata/expected.json")
	must(t, err)
	must(t, json.Unmarshal(raw, &want))
	s := open(t, Options{URL: server.URL()}, 0)
	place, err := s.Check(t.Context())
	if err != nil || place.Version != "6.7.0" {
		t.Errorf("it is %+v (%v)", place, err)
	}
	got := map[daybook.OldState]int{}
	schedulers := 0
	_, err = s.Scan(t.Context(), daybook.At(time.Unix(1795986423, 0)), func(job daybook.OldJob) error {
		got[job.State]++
		if job.Key == "scheduler nightly" {
			schedulers++
		}
		if job.Unreadable != "" {
			t.Errorf("%s: %s", job.ID, job.Unreadable)
		}
		known(t, job)
		return nil
	})
	must(t, err)
	for state, n := range map[daybook.OldState]int{daybook.OldWaiting: want.Waiting,
		daybook.OldLater: want.Scheduled + want.Schedulers, daybook.OldRetrying: want.Retry, daybook.OldDead: want.Dead,
		daybook.OldDone: want.Completed, daybook.OldBlocked: want.Blocked, daybook.OldOwned: want.Live,
		daybook.OldOwnerLost: want.Lost} {
		if got[state] != n || n == 0 {
			t.Errorf("%s: %d, want %d", state, got[state], n)
		}
		delete(got, state)
	}
	if len(got) > 0 || schedulers != want.Schedulers {
		t.Errorf("and %v, %d of schedulers", got, schedulers)
	}
	sum := int64(0)
	left, err := s.Left(t.Context())
	must(t, err)
	for _, n := range left {
		sum += n
	}
	if want := want.Waiting + want.Scheduled + want.Schedulers + want.Retry + want.Dead + want.Blocked + want.Live +
		want.Lost; sum != int64(want) {
		t.Errorf("left are %v, want %d together", left, want)
	}
}

// known are jobs of the dump, to the last digit.
func known(t *testing.T, job daybook.OldJob) {
	t.Helper()
	is := fmt.Sprintf("%s %s %s %d/%d prio %d due %s since %s, %q %q %q", job.State, job.Class, job.Args, job.Attempts,
		job.MaxAttempts, job.Priority, job.DueAt, job.EnqueuedAt, job.Error, job.Owner, job.Key)
	want, listed := map[string]string{
		"1": `retrying send {"n":200,"do":"fail"} 1/5 prio 0 due 2026-11-29T22:06:27.877000Z since ` +
			`2026-11-29T21:06:27.509000Z, "boom" "" ""`,
		"10": `owner_lost send {"n":500,"do":"hang"} 0/3 prio 0 due  since 2026-11-29T21:06:31.162000Z, "" "w16192" ""`,
		"repeat:nightly:1796007600000": `later send {"n":800} 0/1 prio 0 due 2026-11-30T03:00:00.000000Z since ` +
			`2026-11-29T21:06:37.937000Z, "" "" "scheduler nightly"`,
	}[job.ID]
	if listed && is != want {
		t.Errorf("%s is\n%s\nwant\n%s", job.ID, is, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
