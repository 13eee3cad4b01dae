package asynq

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

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
				if c.Exists(t.Context(), key("t:"+id)).Val() == 1 { // as its script for enqueueing looks
					return false
				}
				put(t, c, daybook.OldWaiting, id, args, time.Time{})
				return true
			},
			Spoil: func(t testing.TB, id string) {
				must(t, c.LPush(t.Context(), key("pending"), id).Err())
				must(t, c.HSet(t.Context(), key("t:"+id), "msg", "\xff\xff", "state", "pending").Err())
			},
			Unknown: func(t testing.TB) {
				must(t, c.LPush(t.Context(), key("pending"), "new").Err())
				m := protowire.AppendTag(message1("new", "[]", 0, ""), 16, protowire.BytesType)
				must(t, c.HSet(t.Context(), key("t:new"), "msg", protowire.AppendString(m, "x"), "state", "pending").Err())
			},
			Flow:     func() error { return flow(c) },
			Stumbles: true,
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

func key(name string) string { return "asynq:{mail}:" + name }

// message1 is a job as Asynq writes it.
func message1(id, args string, retried uint64, failed string) []byte {
	var m []byte
	text := func(field protowire.Number, v string) {
		if v != "" {
			m = protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), v)
		}
	}
	number := func(field protowire.Number, v uint64) {
		if v != 0 {
			m = protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
		}
	}
	text(1, "mail:send")
	text(2, args)
	text(3, id)
	text(4, queue)
	number(5, 25)
	number(6, retried)
	text(7, failed)
	number(8, 1800)
	return m
}

func put(t testing.TB, c *redis.Client, state daybook.OldState, id, args string, due time.Time) {
	t.Helper()
	ctx := t.Context()
	now := time.Now()
	at := float64(due.Unix())
	set := func(name string, score float64) {
		must(t, c.ZAdd(ctx, key(name), redis.Z{Score: score, Member: id}).Err())
	}
	hash := func(is string, retried uint64, failed string, more ...any) {
		fields := append([]any{"msg", message1(id, args, retried, failed), "state", is}, more...)
		must(t, c.HSet(ctx, key("t:"+id), fields...).Err())
	}
	c.SAdd(ctx, "asynq:queues", queue)
	switch state {
	case daybook.OldWaiting:
		hash("pending", 0, "", "pending_since", now.UnixNano())
		must(t, c.LPush(ctx, key("pending"), id).Err())
	case daybook.OldLater:
		hash("scheduled", 0, "")
		set("scheduled", at)
	case daybook.OldRetrying:
		hash("retry", 1, "boom")
		set("retry", at)
	case daybook.OldDead:
		hash("archived", 25, "boom")
		set("archived", at)
	case daybook.OldDone:
		hash("completed", 0, "")
		set("completed", at)
	case daybook.OldBlocked:
		hash("aggregating", 0, "", "group", "g 1")
		must(t, c.SAdd(ctx, key("groups"), "g 1").Err())
		set("g:g 1", 1)
	case daybook.OldOwned:
		hash("active", 0, "")
		must(t, c.LPush(ctx, key("active"), id).Err())
		set("lease", float64(now.Unix()+28))
		report := "asynq:workers:{vm:1:abc}"
		must(t, c.ZAdd(ctx, "asynq:workers", redis.Z{Score: float64(now.Unix() + 8), Member: report}).Err())
		must(t, c.HSet(ctx, report, id, "\x0a\x02vm").Err())
	case daybook.OldOwnerLost:
		hash("active", 0, "")
		must(t, c.LPush(ctx, key("active"), id).Err())
		set("lease", float64(now.Unix()-5))
	default:
		t.Fatalf("no %s in Asynq", state)
	}
}

// step is a server's taking of a job, or its giving one back at its shutdown.
var step = redis.NewScript(`
if ARGV[1] == '0' then
	local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
	if id then
		redis.call('ZADD', KEYS[3], redis.call('TIME')[1] + 30, id)
		redis.call('HSET', ARGV[2] .. id, 'state', 'active')
	end
	return 1
end
local id = redis.call('LINDEX', KEYS[2], 0)
if id then
	redis.call('LREM', KEYS[2], 0, id)
	redis.call('ZREM', KEYS[3], id)
	redis.call('RPUSH', KEYS[1], id)
	redis.call('HSET', ARGV[2] .. id, 'state', 'pending')
end
return 1
`)

func flow(c *redis.Client) error {
	return step.Run(context.Background(), c, []string{key("pending"), key("active"), key("lease")}, rand.IntN(2),
		key("t:")).Err()
}

// TestDump: the dump of a real Asynq, read as of its time, has the counts that are
// known of it.
func TestDump(t *testing.T) {
	server := brokertest.StartRedis(t)
	sourcetest.Load(t, client(t, server), "testdata/state.json")
	// The dump was taken when the live server's report of 1795986186 had 6.853 s of
	// its ten left. The dead one's lease ran on, but its report had ended.
	asOf := daybook.At(time.Unix(1795986186, 0).Add(10*time.Second - 6853*time.Millisecond))
	counts(t, server, asOf)
	// A few seconds later the dead one's lease has ended as well, whether there are
	// reports or not.
	asOf = daybook.At(time.Unix(1795986212, 0))
	counts(t, server, asOf)
	for _, k := range client(t, server).Keys(t.Context(), "asynq:workers:*").Val() {
		must(t, client(t, server).Del(t.Context(), k).Err())
	}
	counts(t, server, asOf)
	g, err := open(t, Options{URL: server.URL(), Queue: "default"}, 0).GateState(t.Context())
	must(t, err)
	if len(g.Claimants) != 1 || g.Claimants[0].Busy != 2 || g.Claimants[0].Quiet || g.Closed ||
		g.Claimants[0].Name != "vm:12919:14674633-71b8-4df9-ac67-ce7439cbf78b" {
		t.Errorf("the gate is %+v", g)
	}
}

func counts(t *testing.T, server *brokertest.Redis, asOf daybook.Time) {
	t.Helper()
	var want struct {
		Waiting, Scheduled, Retry, Dead, Aggregating int
		Done                                         int `json:"completed_retained"`
		Live                                         int `json:"active_live_owner"`
		Lost                                         int `json:"active_dead_owner"`
	}
	raw, err := os.ReadFile("testdata/expected.json")
	must(t, err)
	must(t, json.Unmarshal(raw, &want))
	got := map[daybook.OldState]int{}
	s := open(t, Options{URL: server.URL(), Queue: "default"}, 0)
	_, err = s.Scan(t.Context(), asOf, func(job daybook.OldJob) error {
		got[job.State]++
		if job.Unreadable != "" {
			t.Errorf("%s: %s", job.ID, job.Unreadable)
		}
		known(t, job)
		return nil
	})
	must(t, err)
	for state, n := range map[daybook.OldState]int{daybook.OldWaiting: want.Waiting, daybook.OldLater: want.Scheduled,
		daybook.OldRetrying: want.Retry, daybook.OldDead: want.Dead, daybook.OldOwned: want.Live,
		daybook.OldOwnerLost: want.Lost, daybook.OldBlocked: want.Aggregating, daybook.OldDone: want.Done} {
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
	is := fmt.Sprintf("%s %s %s %d/%d %s due %s since %s, %q %q", job.State, job.Class, job.Args, job.Attempts,
		job.MaxAttempts, job.Timeout, job.DueAt, job.EnqueuedAt, job.Error, job.Key)
	want, listed := map[string]string{
		"order-0000": `waiting mail:send {"n":0,"do":"ok"} 0/26 30m0s due  since 2026-11-29T21:03:03.941540Z, "" ""`,
		"670f0215-fa57-4091-a978-69e678449bdd": `waiting mail:send {"n":19,"do":"ok"} 0/26 30m0s due  since ` +
			`2026-11-29T21:03:03.942924Z, "" "asynq:{default}:unique:mail:send:ce15bd9d622df7b4dad04a9c3a6b6c13"`,
		"c42c3393-84ed-4fb8-8d4c-2fe4d40b55e4": `retrying mail:send {"n":202,"do":"fail"} 1/6 30m0s due ` +
			`2026-11-29T22:02:55.000000Z since , "boom" ""`,
		"1c75cb23-09d3-4bb9-8eb6-c1ec9058c534": `dead mail:send {"n":300,"do":"fail"} 1/1 30m0s due  since , "boom" ""`,
		"cc9d2186-1b50-47dd-8e68-4acc8c107201": `later mail:send {"n":100,"do":"ok"} 0/26 30m0s due ` +
			`2026-11-29T22:03:03.000000Z since , "" ""`,
		"aa731c12-f42e-447d-a7b6-6ea8f1ad0289": `owner_lost mail:send {"n":500,"do":"hang"} 0/26 1h0m0s due  since , "" ""`,
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
