package rq

import (
	"bytes"
	"compress/zlib"
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
		return sourcetest.Harness{
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
				must(t, c.RPush(t.Context(), "rq:queue:mail", id).Err())
				must(t, c.HSet(t.Context(), "rq:job:"+id, "data", "neither", "status", "queued").Err())
			},
			Unknown: func(t testing.TB) { report(t, c, "new", "idle", "2.3.1") },
			Flow:    func() error { return flow(c) },
			Process: func(t testing.TB) { report(t, c, "w1", "idle", "1.13.0") },
			Quiet:   func(t testing.TB) { report(t, c, "w1", "suspended", "1.13.0") },
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

// packed is a call as RQ's JSON serializer writes it.
func packed(t testing.TB, args string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := fmt.Fprintf(w, `["rqjobs.send", null, %s, {}]`, args)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func put(t testing.TB, c *redis.Client, state daybook.OldState, id, args string, due time.Time) {
	t.Helper()
	ctx := t.Context()
	hash := func(status string, more ...any) {
		fields := append([]any{"data", packed(t, args), "status", status, "origin", queue, "timeout", 180, "created_at",
			"2026-11-29T21:20:27.892145Z", "description", "rqjobs.send()"}, more...)
		must(t, c.HSet(ctx, "rq:job:"+id, fields...).Err())
	}
	set := func(name string, at time.Time) {
		must(t, c.ZAdd(ctx, "rq:"+name+":mail", redis.Z{Score: float64(at.Unix()), Member: id}).Err())
	}
	ended := []any{"ended_at", "2026-11-29T21:20:18.191939Z", "retries_left", 2}
	began := []any{"worker_name", "w1", "last_heartbeat", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}
	switch state {
	case daybook.OldWaiting:
		hash("queued", "enqueued_at", "2026-11-29T21:20:27.892145Z")
		must(t, c.RPush(ctx, "rq:queue:mail", id).Err())
	case daybook.OldLater:
		hash("scheduled")
		set("scheduled", due)
	case daybook.OldRetrying:
		hash("scheduled", ended...)
		set("scheduled", due)
	case daybook.OldDead:
		hash("failed", ended...)
		set("failed", due)
		must(t, c.PExpire(ctx, "rq:job:"+id, time.Hour).Err())
	case daybook.OldDone:
		hash("finished", ended...)
		set("finished", due)
	case daybook.OldBlocked:
		hash("deferred")
		set("deferred", due)
	case daybook.OldOwned:
		hash("started", began...)
		set("wip", time.Now().Add(80*time.Second))
	case daybook.OldOwnerLost:
		hash("started", began...)
		set("wip", time.Now().Add(-5*time.Second))
	default:
		t.Fatalf("no %s in RQ", state)
	}
}

// report is what a worker writes of itself.
func report(t testing.TB, c *redis.Client, name, state, version string) {
	t.Helper()
	must(t, c.SAdd(t.Context(), "rq:workers:mail", "rq:worker:"+name).Err())
	must(t, c.HSet(t.Context(), "rq:worker:"+name, "state", state, "version", version, "last_heartbeat",
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")).Err())
}

// step is one atomic move: a retry or an unready job comes due, or is put off.
var step = redis.NewScript(`
if ARGV[1] == '0' then
	local id = redis.call('LPOP', KEYS[1])
	if id then redis.call('ZADD', KEYS[2], 4000000000, id) end
	return 1
end
local next = redis.call('ZPOPMIN', KEYS[2])
if next[1] then redis.call('RPUSH', KEYS[1], next[1]) end
return 1
`)

func flow(c *redis.Client) error {
	return step.Run(context.Background(), c, []string{"rq:queue:mail", "rq:scheduled:mail"}, rand.IntN(2)).Err()
}

// TestDump: the dump of a real RQ, read as of a time when the dead worker's job had
// run out and the others' hadn't, has the counts that are known of it.
func TestDump(t *testing.T) {
	server := brokertest.StartRedis(t)
	sourcetest.Load(t, client(t, server), "testdata/state.json")
	var want struct {
		Waiting, Scheduled, Retry, Finished, Deferred int
		Failed                                        int `json:"failed(dead)"`
		Live                                          int `json:"active_live_owner"`
		Lost                                          int `json:"active_dead_owner"`
	}
	raw, err := os.ReadFile("testdata/expected.json")
	must(t, err)
	must(t, json.Unmarshal(raw, &want))
	s := open(t, Options{URL: server.URL()}, 0)
	place, err := s.Check(t.Context())
	if err != nil || place.Version != "1.13.0" {
		t.Errorf("it is %+v (%v)", place, err)
	}
	got := map[daybook.OldState]int{}
	_, err = s.Scan(t.Context(), daybook.At(time.Unix(1795987310, 0)), func(job daybook.OldJob) error {
		got[job.State]++
		if job.Unreadable != "" {
			t.Errorf("%s: %s", job.ID, job.Unreadable)
		}
		known(t, job)
		return nil
	})
	must(t, err)
	for state, n := range map[daybook.OldState]int{daybook.OldWaiting: want.Waiting, daybook.OldLater: want.Scheduled,
		daybook.OldRetrying: want.Retry, daybook.OldDead: want.Failed, daybook.OldDone: want.Finished,
		daybook.OldBlocked: want.Deferred, daybook.OldOwned: want.Live, daybook.OldOwnerLost: want.Lost} {
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
	is := fmt.Sprintf("%s %s %s %d/%d %s due %s since %s, %q %q", job.State, job.Class, job.ArgsAs, job.Attempts,
		job.MaxAttempts, job.Timeout, job.DueAt, job.EnqueuedAt, job.Error, job.Owner)
	want, listed := map[string]string{
		"81d172f2-2a30-48ab-8131-18e89828c643": `retrying rqjobs.send pickle 1/5 3m0s due 2026-11-29T22:20:18.000000Z ` +
			`since 2026-11-29T21:20:17.997768Z, "" ""`,
		"1c5912a0-c505-4b3c-9fbd-8f4e364566aa": `later rqjobs.send pickle 0/1 3m0s due 2026-11-29T22:20:27.000000Z since ` +
			`2026-11-29T21:20:27.892145Z, "" ""`,
		"1f0b972c-54f1-4144-80f1-ad473af11cf3": `dead rqjobs.send pickle 1/1 3m0s due  since 2026-11-29T21:20:17.998190Z, ` +
			`"RuntimeError: boom" ""`,
		"b774b0d8-81c1-4a3e-9fa3-2896794225a4": `owner_lost rqjobs.send pickle 0/1 2h0m0s due  since ` +
			`2026-11-29T21:20:18.525433Z, "" "dead"`,
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
