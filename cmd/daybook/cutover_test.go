package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/sidekiq"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/store/postgres"
)

// oldQueue is a cli beside a Redis with a queue of Sidekiq's that nobody works on; nil
// where old systems aren't asked for.
type oldQueue struct {
	*cli
	url   string
	redis *redis.Client
}

// newOldQueue is nil where nobody asked for old systems: then there is no test.
func newOldQueue(t *testing.T) *oldQueue {
	t.Helper()
	if !sourcetest.Wanted() {
		t.Log("DAYBOOK_TEST_OLD=1 runs this")
		return nil
	}
	server := brokertest.StartRedis(t)
	q := &oldQueue{cli: newCLI(t), url: server.URL() + "/0"}
	q.redis = redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { q.redis.Close() })
	t.Setenv(environmentFrom, q.url)
	return q
}

func (q *oldQueue) must(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

// sidekiqMessage is a job as Sidekiq writes it.
func sidekiqMessage(jid string) string {
	return fmt.Sprintf(`{"class":"MailJob","args":[%q],"jid":%q,"queue":"mail","retry":5,"created_at":1795986589.25}`,
		jid, jid)
}

// put lays a job into one of Sidekiq's sets, or into its list.
func (q *oldQueue) put(key, jid string, due time.Time) {
	q.t.Helper()
	job := sidekiqMessage(jid)
	ctx := q.t.Context()
	if key == "queue:mail" {
		q.must(q.redis.LPush(ctx, key, job).Err())
		return
	}
	q.must(q.redis.ZAdd(ctx, key, redis.Z{Score: float64(due.Unix()), Member: job}).Err())
}

// The handed dumps, read as of their time by the command line, have the counts
// that are known of them.
func TestCutoverDumps(t *testing.T) {
	for _, dump := range []struct{ system, queue, asOf string }{
		{"asynq", "default", "2026-11-29T21:03:09.147Z"}, {"bullmq", "mail", "2026-11-29T21:07:03Z"},
		{"rq", "mail", "2026-11-29T21:21:50Z"}, {"sidekiq", "mail", "2026-11-29T21:09:49.429432Z"},
	} {
		t.Run(dump.system, func(t *testing.T) {
			q := newOldQueue(t)
			if q == nil {
				return
			}
			folder := filepath.Join("..", "..", "cutover", dump.system, "testdata")
			sourcetest.Load(t, q.redis, filepath.Join(folder, "state.json"))
			text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
			q.must(err)
			var known map[string]any
			q.must(json.Unmarshal(text, &known))
			var got cutover.OldInventory
			q.json(statusDone, &got, "cutover", "inventory", "--system", dump.system, "--queue", dump.queue,
				"--as-of", dump.asOf)
			for state, names := range map[daybook.OldState][]string{
				daybook.OldWaiting: {"waiting"}, daybook.OldLater: {"scheduled", "repeat_schedulers"},
				daybook.OldRetrying: {"retry"}, daybook.OldDead: {"dead", "failed(dead)"},
				daybook.OldDone:    {"completed_retained", "completed", "finished"},
				daybook.OldBlocked: {"aggregating", "waiting_children", "deferred"},
				daybook.OldOwned:   {"active_live_owner"}, daybook.OldOwnerLost: {"active_dead_owner"},
			} {
				want := 0.0
				for _, name := range names {
					n, _ := known[name].(float64)
					want += n
				}
				if float64(got.States[state]) != want {
					t.Errorf("%s: got %d, want %v", state, got.States[state], want)
				}
			}
		})
	}
}

// Every example of every command of a cutover runs, in an order in which a
// cutover goes.
func TestCutoverExamples(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	for n := range 5 {
		q.put("queue:mail", fmt.Sprintf("%024x", n), time.Time{})
	}
	for _, verb := range strings.Fields(
		"plan inventory shadow gate move settle run watch reconcile retire status rollback") {
		for _, command := range commands() {
			if command.CommandPath() != "daybook cutover "+verb {
				continue
			}
			for _, line := range examplesOf(command) {
				line = strings.ReplaceAll(line, "redis://localhost:6379/0", q.url)
				line = strings.ReplaceAll(line, "--for 24h", "--for 0s")
				line = strings.ReplaceAll(line, "'", "")
				line = strings.Replace(line, "--reason Redis goes away", "--reason away", 1)
				line = strings.Replace(line, "--reason the new handler fails", "--reason fails", 1)
				args := strings.Fields(line)[1:]
				if verb == "shadow" {
					args = append(args, "--for", "0s")
				}
				switch s := q.run(args...); {
				case verb == "retire" || verb == "rollback":
					if s.status != statusDone && s.status != statusRefused { // not quiet for a day yet
						t.Errorf("%s: %+v", line, s)
					}
				case s.status != statusDone:
					t.Errorf("%s: %+v", line, s)
				case strings.HasSuffix(line, "-o json") && !json.Valid([]byte(s.out)):
					t.Errorf("%s: %s", line, s.out)
				}
			}
		}
	}
}

// What a cutover refuses, with which status and words.
func TestCutoverRefuses(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	says := func(status int, want string, args ...string) {
		t.Helper()
		if s := q.want(status, append([]string{"cutover"}, args...)...); !strings.Contains(s.err+s.out, want) {
			t.Errorf("cutover %q: got %+v, want %q", args, s, want)
		}
	}
	says(statusNotFound, "no cutover", "move", "mail")
	says(statusNotFound, "no cutover", "status", "mail")
	says(statusUsage, "--system", "plan", "mail", "--system", "resque", "--queue", "mail")
	says(statusUnavailable, "127.0.0.1:1", "inventory", "--system", "sidekiq", "--queue", "mail", "--from",
		"redis://:secret@127.0.0.1:1/0")
	says(statusDone, "NOT ANSWERED", "plan", "mail", "--system", "sidekiq", "--queue", "mail")
	says(statusRefused, "is in phase plan, too early for move; the next command is daybook cutover shadow mail\n", "move",
		"mail")
	says(statusDone, "seen", "shadow", "mail", "--for", "0s")
	says(statusRefused, "Where do new jobs enter", "gate", "mail")
	q.want(statusRefused, "queue", "resume", "mail", "--reason", "by hand")
	says(statusDone, "set_aside is above 20", "plan", "mail", "--system", "sidekiq", "--queue", "mail", "--intake",
		"deploy", "--owners", "ask", "--rollback-if", "set_aside>20")
	says(statusRefused, "isn't proved after 1s", "gate", "mail", "--for", "1s")
	says(statusRefused, "isn't proved; run cutover gate first", "move", "mail")
	says(statusRefused, "too early for settle; the next command is daybook cutover gate mail\n", "settle", "mail")
	says(statusDone, "untouched", "gate", "mail")
	says(statusRefused, "too early for run; the next command is daybook cutover move mail\n", "run", "mail")
	says(statusRefused, "can be changed up to shadow", "plan", "mail", "--owners", "safe")
	q.put("queue:mail", "a2", time.Time{})
	q.must(q.redis.Rename(t.Context(), "daybook:cutover:sidekiq:mail:aside", "elsewhere").Err())
	says(statusRefused, "daybook: ", "settle", "mail")
}

// A job that comes into an old worker's hands after the book runs is in no list:
// reconcile names it.
func TestCutoverReconcileNames(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carry("gate", "move", "settle", "run")
	ctx := t.Context()
	q.must(q.redis.SAdd(ctx, "processes", "vm:9:zzz").Err())
	q.must(q.redis.HSet(ctx, "vm:9:zzz", "info", `{"queues":["mail"],"identity":"vm:9:zzz"}`, "busy", 1, "quiet", "false",
		"beat", fmt.Sprint(time.Now().Unix())).Err())
	inHand := func(message string) {
		work, err := json.Marshal(map[string]any{"queue": "mail", "run_at": 1795986563, "payload": message})
		q.must(err)
		q.must(q.redis.HSet(ctx, "vm:9:zzz:workers", "t1", work).Err())
	}
	var b cutover.Balance
	inHand(sidekiqMessage("a1"))
	q.json(statusViolation, &b, "cutover", "reconcile", "mail")
	if b.Balanced || len(b.Wrong) != 1 || b.Wrong[0].ID != "a1" || b.Still != 0 {
		t.Errorf("got %+v, want a1 named, which is in both", b)
	}
	inHand(sidekiqMessage("b2"))
	b = cutover.Balance{}
	q.json(statusViolation, &b, "cutover", "reconcile", "mail")
	if b.Balanced || len(b.Wrong) != 1 || b.Wrong[0].ID != "b2" {
		t.Errorf("got %+v, want b2 named", b)
	}
	if s := q.want(statusViolation, "cutover", "reconcile", "mail"); !strings.Contains(s.out, "WRONG") {
		t.Errorf("got %+v", s)
	}
	q.want(statusRefused, "cutover", "retire", "mail", "--quiet", "0s")
}

// carry plans a cutover with all questions answered and takes these steps.
func (q *oldQueue) carry(verbs ...string) {
	q.t.Helper()
	q.carryWith("deploy", verbs...)
}

// gate closes the gate that is proved the soonest.
func (q *oldQueue) gate() {
	q.t.Helper()
	q.must(q.redis.Do(q.t.Context(), "ACL", "SETUSER", "old", "on", ">pw", "~*", "+@all").Err())
	q.ok("cutover", "gate", "mail", "--workers-user", "old")
}

func (q *oldQueue) carryWith(intake string, verbs ...string) {
	q.t.Helper()
	q.ok("cutover", "plan", "mail", "--system", "sidekiq", "--queue", "mail", "--intake", intake, "--owners", "ask",
		"--no-rollback")
	q.ok("cutover", "shadow", "mail", "--for", "0s")
	for _, verb := range verbs {
		if verb == "gate" {
			q.gate()
			continue
		}
		q.ok("cutover", verb, "mail")
	}
}

// A producer that writes to both systems from the gate on has one job: the old
// copy is recognised by its id, which is the request key here.
func TestCutoverDouble(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carryWith("double", "gate")
	q.put("queue:mail", "b2", time.Time{})
	q.ok("enqueue", "--queue", "mail", "--kind", "MailJob", "--args", `["b2"]`, "--key", "b2")
	var swept cutover.Swept
	if q.json(statusDone, &swept, "cutover", "move", "mail"); swept.Taken != 1 || swept.Known != 1 {
		t.Errorf("got %+v, want a1 moved in and b2 recognised", swept)
	}
	var list struct{ Jobs []daybook.Job }
	if q.json(statusDone, &list, "job", "list", "--queue", "mail"); len(list.Jobs) != 2 {
		t.Errorf("got %d jobs, want 2", len(list.Jobs))
	}
	q.ok("cutover", "settle", "mail")
	q.ok("cutover", "run", "mail")
	var b cutover.Balance
	if q.json(statusDone, &b, "cutover", "reconcile", "mail"); b.Moved != 2 || b.Again != 1 {
		t.Errorf("got %+v", b)
	}
	q.ok("check", "--full")
}

// A rollback that begins while a mover has jobs in its hands: what it took and
// can't record any more goes back.
func TestCutoverTurnsBack(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	for n := range 5 {
		q.put("queue:mail", fmt.Sprint("w", n), time.Time{})
	}
	before := q.redis.LRange(t.Context(), "queue:mail", 0, -1).Val()
	q.carry("gate")
	q.mover(func(ctx context.Context, book *daybook.Book, at string) {
		if at == cutover.GapTaken {
			_, err := book.AdvanceCutover(ctx, "mail", daybook.PhaseReturning, daybook.By{Actor: "ada", Reason: "no"})
			q.must(err)
		}
	})
	q.ok("cutover", "rollback", "mail", "-y")
	if after := q.redis.LRange(t.Context(), "queue:mail", 0, -1).Val(); !slices.Equal(after, before) {
		t.Errorf("the old queue has %q, before it had %q", after, before)
	}
}

// L75: Moving queues leaves scheduled and retry jobs behind, or doubles them.
// A mover dies half-way, twice, and the whole old store is restored from its dump
// and moved once more: each job of it is here exactly once, with its due time, and
// what can't be read is named. Only what has no id can't be told from another one.
func TestL75MovedOnce(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	due := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	fill := func() {
		for n := range 40 {
			q.put("queue:mail", fmt.Sprintf("w%d", n), time.Time{})
		}
		for n := range 9 {
			for _, set := range []string{"schedule", "retry", "dead"} {
				q.put(set, fmt.Sprintf("%s%d", set, n), due.Add(time.Duration(n)*time.Minute))
			}
		}
		q.must(q.redis.LPush(t.Context(), "queue:mail", "{not json").Err())
	}
	fill()
	q.carry("gate")
	q.dies(cutover.GapTaken)
	q.dies(cutover.GapImported)
	q.ok("cutover", "move", "mail")
	fill()
	var again cutover.Swept
	if q.json(statusDone, &again, "cutover", "move", "mail"); again.Taken != 1 || again.Aside != 1 ||
		again.Known != 67 {
		t.Errorf("the dump once more: got %+v, want the 67 with an id recognised", again)
	}
	q.ok("cutover", "settle", "mail")
	q.ok("cutover", "run", "mail")
	var list struct{ Jobs []daybook.Job }
	q.json(statusDone, &list, "job", "list", "--queue", "mail", "--limit", "500")
	times := map[string]int{}
	for _, j := range list.Jobs {
		if j.Origin == nil {
			t.Fatalf("job %s has no origin", j.ID)
		}
		times[j.Origin.ID]++
		var n int
		if _, err := fmt.Sscanf(j.Origin.ID, "schedule%d", &n); err == nil &&
			!j.RunAt.Std().Equal(due.Add(time.Duration(n)*time.Minute)) {
			t.Errorf("%s is due at %s", j.Origin.ID, j.RunAt)
		}
	}
	for id, n := range times {
		if without := (daybook.OldJob{Body: []byte("{not json")}).Name(); n != 1 && (id != without || n != 2) {
			t.Errorf("%s is here %d times", id, n)
		}
	}
	var b cutover.Balance
	q.json(statusDone, &b, "cutover", "reconcile", "mail")
	if len(times) != 68 || b.Moved != 58 || b.Dead != 11 || b.Again != 67 {
		t.Errorf("%d jobs, balance %+v", len(times), b)
	}
	if out := q.ok("cutover", "status", "mail"); !strings.Contains(out, "1 of them") {
		t.Errorf("the board doesn't tell of what can't be read:\n%s", out)
	}
	q.ok("check", "--full")
}

// dies has a mover stop for good in a gap.
func (q *oldQueue) dies(gap string) {
	q.t.Helper()
	q.mover(func(ctx context.Context, _ *daybook.Book, at string) {
		if at == gap {
			ctx.Value(dying{}).(context.CancelFunc)()
		}
	})
}

type dying struct{}

// mover moves, which must fail by what step does.
func (q *oldQueue) mover(step func(ctx context.Context, book *daybook.Book, at string)) {
	q.t.Helper()
	old, err := sidekiq.Open(sidekiq.Options{URL: q.url, Queue: "mail"})
	q.must(err)
	defer old.Close()
	a := &app{stderr: io.Discard, now: q.clock, flags: globals{db: q.db, schema: postgres.SchemaDefault}}
	q.must(a.onBook(q.t.Context(), func(ctx context.Context, book *daybook.Book) error {
		ctx, die := context.WithCancel(ctx)
		defer die()
		ctx = context.WithValue(ctx, dying{}, die)
		o := cutover.Options{Batch: 7, Step: func(at string) { step(ctx, book, at) }}
		if _, err := cutover.New(book, old, "mail", o).Move(ctx); err == nil {
			q.t.Error("the mover came to its end")
		}
		return nil
	}))
}
