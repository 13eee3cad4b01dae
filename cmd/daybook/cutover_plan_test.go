package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/sidekiq"
	"github.com/daybookdev/daybook/store/postgres"
)

// atBook works on the book without a command.
func (q *oldQueue) atBook(work func(context.Context, *daybook.Book) error) error {
	a := &app{stderr: io.Discard, now: q.clock, flags: globals{db: q.db, schema: postgres.SchemaDefault}}
	return a.onBook(q.t.Context(), work)
}

// Producers that write to both before the gate have old workers do what the book
// would do once more: the gate refuses, until those jobs here are called off. The old
// copies then are the old system's, and one that still lies there is asked about.
func TestCutoverDoubleTooEarly(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carryWith("double")
	q.ok("enqueue", "--queue", "mail", "--kind", "MailJob", "--args", `["a1"]`, "--key", "a1")
	refused := func() {
		t.Helper()
		s := q.want(statusRefused, "cutover", "gate", "mail")
		if !strings.Contains(s.err, "1 jobs were written to queue mail before the gate, such as ") {
			t.Errorf("got %+v", s)
		}
	}
	refused()
	if s := q.ok("cutover", "status", "mail"); !strings.Contains(s, "shadow: old may claim") {
		t.Errorf("the refused gate has changed something:\n%s", s)
	}
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		_, err := book.AdvanceCutover(ctx, "mail", daybook.PhaseGate, daybook.By{Actor: "ada"}) // as if it came in between
		return err
	}))
	refused()
	q.ok("job", "cancel", "--queue", "mail", "--state", "waiting", "--reason", "too early", "-y")
	q.ok("enqueue", "--queue", "mail", "--kind", "MailJob", "--args", `["b2"]`, "--key", "b2") // since the gate
	q.gate()
	q.put("queue:mail", "b2", time.Time{})
	var swept cutover.Swept
	if q.json(statusDone, &swept, "cutover", "move", "mail"); swept.Taken != 1 || swept.Asked != 1 || swept.Known != 1 {
		t.Errorf("got %+v, want a1 asked about and b2 recognised", swept)
	}
	q.ok("check", "--full")
}

// What plan was told of classes holds for the later steps, unless they are told
// something else.
func TestCutoverMapping(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	file := filepath.Join(q.dir, "classes.toml")
	q.must(os.WriteFile(file, []byte("[MailJob]\nkind = \"mail\"\nargs = \"only\"\ntimeout = \"90s\"\n"), 0o600))
	q.put("queue:mail", "a1", time.Time{})
	page := q.ok("cutover", "plan", "mail", "--system", "sidekiq", "--queue", "mail", "--intake", "deploy", "--owners",
		"ask", "--no-rollback", "--map", file)
	if !strings.Contains(page, "1 → kind mail (by --map)") {
		t.Errorf("the page doesn't say what classes become:\n%s", page)
	}
	q.ok("cutover", "shadow", "mail", "--for", "0s")
	q.gate()
	q.ok("cutover", "move", "mail")
	q.must(os.WriteFile(file, []byte("[MailJob]\nkind = \"other\"\n"), 0o600))
	q.put("queue:mail", "b2", time.Time{})
	q.ok("cutover", "settle", "mail", "--map", file)
	got := map[string]string{}
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		page, err := book.Jobs(ctx, daybook.Filter{Queue: "mail"})
		for _, j := range page.Items {
			got[j.Origin.ID] = fmt.Sprint(j.Kind, " ", string(j.Args), " ", j.Timeout)
		}
		return err
	}))
	if want := map[string]string{"a1": `mail "a1" 1m30s`, "b2": `other ["b2"] 24h0m0s`}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A process that doesn't say at once that it is quiet is told again, as long as gate is
// to wait.
func TestCutoverGateWaits(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.carry()
	ctx := t.Context()
	q.must(q.redis.SAdd(ctx, "processes", "vm:9:zzz").Err())
	beat := func(quiet string) error {
		return q.redis.HSet(ctx, "vm:9:zzz", "info", `{"queues":["mail"],"identity":"vm:9:zzz"}`, "busy", 0, "quiet", quiet,
			"beat", fmt.Sprint(time.Now().Unix())).Err()
	}
	q.must(beat("false"))
	heard := make(chan error, 1)
	go func() { // it hears when it is told again: once each, when a gate begins, and then
		for range 3 {
			if err := q.redis.BRPop(ctx, time.Minute, "vm:9:zzz-signals").Err(); err != nil {
				heard <- err
				return
			}
		}
		heard <- beat("true")
	}()
	s := q.want(statusRefused, "cutover", "gate", "mail", "--for", "1s")
	if !strings.Contains(s.err, "; it is open: ") || !strings.Contains(s.err, "vm:9:zzz may still take jobs: stop it") {
		t.Errorf("got %+v", s)
	}
	q.ok("cutover", "gate", "mail")
	q.must(<-heard)
}

// What can't be moved, since nobody knows its queue, stands in the way of the end, and
// is named: one that was there from the beginning, and one that came at the end.
func TestCutoverNamesWhatStays(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	ctx := t.Context()
	garbage := func(text string) { q.must(q.redis.ZAdd(ctx, "dead", redis.Z{Score: 1, Member: text}).Err()) }
	garbage("{nobody's")
	q.put("queue:mail", "a1", time.Time{})
	q.carry("gate", "move", "settle", "run")
	var b cutover.Balance
	q.json(statusViolation, &b, "cutover", "reconcile", "mail")
	if len(b.Wrong) != 1 || !strings.Contains(b.Wrong[0].What, "nobody knows whose it is") {
		t.Errorf("got %+v, want what is in the dead set named", b)
	}
	q.want(statusRefused, "cutover", "retire", "mail", "--quiet", "0s")
	q.must(q.redis.Del(ctx, "dead").Err())
	q.ok("cutover", "reconcile", "mail")
	q.want(statusRefused, "cutover", "retire", "mail", "--quiet", "1h")
	garbage("{another")
	s := q.want(statusRefused, "cutover", "retire", "mail", "--quiet", "0s")
	if !strings.Contains(s.err, "the old queue isn't empty: 1 in dead; ") {
		t.Errorf("got %+v", s)
	}
	q.must(q.redis.Del(ctx, "dead").Err())
	q.ok("cutover", "retire", "mail", "--quiet", "0s")
}

// The mapping files of the guides can be read.
func TestCutoverGuidesMappings(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "cutover", "*.md"))
	if err != nil || len(pages) != 4 {
		t.Fatalf("got %v (%v)", pages, err)
	}
	for _, page := range append(pages, filepath.Join("..", "..", "docs", "cutover.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, block, found := strings.Cut(string(text), "```toml\n")
		block, _, _ = strings.Cut(block, "```")
		file := filepath.Join(t.TempDir(), "classes.toml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := readMapping(file); !found || err != nil || len(m.Classes) == 0 {
			t.Errorf("%s: %v (%v)", page, m, err)
		}
	}
}

// A plan that is made again keeps what isn't said anew, and later steps go by what it
// was told of the old system.
func TestCutoverPlanKeeps(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	plan := func(more ...string) (b cutover.Board) {
		t.Helper()
		q.json(statusDone, &b, append([]string{"cutover", "plan", "mail"}, more...)...)
		return b
	}
	plan("--system", "sidekiq", "--queue", "mail", "--prefix", "app:", "--workers-user", "old", "--to", "letters",
		"--intake", "deploy", "--owners-wait", "90s", "--rollback-if", "set_aside>20")
	b := plan("--owners", "ask")
	want := cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk, Wait: cutover.Seconds(90 * time.Second),
		Rollback: b.Plan.Rollback, How: cutover.How{Prefix: "app:", WorkersUser: "old"}}
	if b.Cutover.Queue != "letters" || len(b.Plan.Rollback) != 1 || !reflect.DeepEqual(b.Plan, want) {
		t.Errorf("got %+v into %s, want %+v", b.Plan, b.Cutover.Queue, want)
	}
	if b := plan("--no-rollback", "--workers-user", "w"); !b.Plan.NoRollback || b.Plan.How.WorkersUser != "w" ||
		b.Plan.How.Prefix != "app:" || b.Plan.Owners != cutover.OwnersAsk {
		t.Errorf("got %+v", b.Plan)
	}
	q.want(statusUsage, "cutover", "plan", "mail", "--owners", "safe", "--reason", "ctl\x1b[31m")
	steps := len(b.Cutover.Steps)
	b = plan("--owners-wait", "80s", "--reason", "no longer", "--actor", "grace")
	if n := len(b.Cutover.Steps); n != 4 || b.Plan.Owners != cutover.OwnersAsk || b.Cutover.Steps[n-1].Actor != "grace" ||
		b.Cutover.Steps[n-1].Reason != "no longer" || b.Cutover.Steps[n-1].What != daybook.PlanChanged || steps != 2 {
		t.Errorf("got %+v, want each change of the plan as a step, by whom and why", b)
	}
	if b = plan("--reason", "nothing new"); len(b.Cutover.Steps) != 4 {
		t.Errorf("got %+v, want no step where nothing changes", b.Cutover.Steps)
	}
	q.ok("cutover", "shadow", "mail", "--for", "0s")
	if s := q.want(statusNotFound, "cutover", "gate", "mail", "--for", "1s"); !strings.Contains(s.err, `"w"`) {
		t.Errorf("the gate goes by another user than the planned one: %+v", s)
	}
	if s := q.want(statusUsage, "cutover", "rollback", "mail"); !strings.Contains(s.err, "daybook cutover status mail") {
		t.Errorf("got %+v, want a way to look only", s)
	}
}

// arriving is an old queue that a producer writes to just before it is read.
type arriving struct {
	cutover.Old
	produce func()
}

func (a *arriving) Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (
	cutover.Scan, error) {
	if fn := a.produce; fn != nil {
		a.produce = nil
		fn()
	}
	return a.Old.Scan(ctx, asOf, visit)
}

// A producer that writes between a sweep and the look behind it makes nothing wrong.
func TestCutoverReconcileArrival(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carry("gate", "move", "settle", "run")
	old, err := sidekiq.Open(sidekiq.Options{URL: q.url, Queue: "mail"})
	q.must(err)
	defer old.Close()
	produced := &arriving{old, func() { q.put("queue:mail", "b2", time.Time{}) }}
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		b, err := cutover.New(book, produced, "mail", cutover.Options{}).Reconcile(ctx)
		if !b.Balanced || b.Moved != 2 || b.Arrived != 1 || produced.produce != nil {
			t.Errorf("got %+v, want it to balance with the one that arrived", b)
		}
		return err
	}))
}

// withoutIDs are entries that have none, three and two of them equal, and some that
// nobody knows to be this queue's.
func (q *oldQueue) withoutIDs() {
	q.t.Helper()
	ctx := q.t.Context()
	for _, body := range []string{`{"class":"MailJob","args":["a"],"queue":"mail"}`, "garbage"} {
		q.must(q.redis.LPush(ctx, "queue:mail", body, body).Err())
	}
	q.must(q.redis.LPush(ctx, "queue:mail", `{"class":"MailJob","args":["a"],"queue":"mail"}`).Err())
	for key, body := range map[string]string{"retry": `{"cl`, "schedule": "[]", "dead": "not json"} {
		q.must(q.redis.ZAdd(ctx, key, redis.Z{Score: float64(time.Now().Unix() + 1e6), Member: body}).Err())
	}
}

// Jobs without an id are moved by their number, all of them, and what nobody knows to
// be this queue's holds nothing up.
func TestCutoverWithoutIDs(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.withoutIDs()
	q.carry("gate")
	var swept cutover.Swept
	if q.json(statusDone, &swept, "cutover", "move", "mail"); swept.Taken != 5 || swept.Known != 0 || swept.Asked != 0 {
		t.Errorf("got %+v, want all five", swept)
	}
	q.ok("cutover", "settle", "mail")
	q.ok("cutover", "run", "mail")
	var b cutover.Balance
	q.json(statusViolation, &b, "cutover", "reconcile", "mail")
	if b.Seen+b.Arrived != 5 || b.Dead != 5 || b.Still != 0 || len(b.Wrong) != 3 {
		t.Errorf("got %+v, want five carried over, and three named", b)
	}
	q.must(q.redis.Del(t.Context(), "retry", "schedule", "dead").Err())
	b = cutover.Balance{}
	if q.json(statusDone, &b, "cutover", "reconcile", "mail"); !b.Balanced || b.Dead != 5 {
		t.Errorf("got %+v, want it to balance", b)
	}
	q.ok("check", "--full")
}

// A rollback gives each of them back, once.
func TestCutoverWithoutIDsBack(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.withoutIDs()
	ctx := t.Context()
	before := q.redis.LRange(ctx, "queue:mail", 0, -1).Val()
	q.carry("gate", "move")
	old, err := sidekiq.Open(sidekiq.Options{URL: q.url, Queue: "mail"})
	q.must(err)
	defer old.Close()
	var kept []daybook.OldJob
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		page, err := book.Items(ctx, daybook.ItemFilter{Cutover: "mail", Whole: true, Limit: 100})
		for _, i := range page.Items {
			kept = append(kept, *i.Old)
		}
		return err
	}))
	q.ok("cutover", "rollback", "mail", "-y")
	if after := q.redis.LRange(ctx, "queue:mail", 0, -1).Val(); !slices.Equal(after, before) {
		t.Errorf("given back are %q, want %q", after, before)
	}
	for _, job := range kept {
		if back, err := old.Return(ctx, job); err != nil || back {
			t.Errorf("given back again: %v, %v", back, err)
		}
	}
	if n := q.redis.LLen(ctx, "queue:mail").Val(); n != 5 || len(kept) != 5 {
		t.Errorf("%d lie there and %d were moved, want 5", n, len(kept))
	}
}

// A mover that died between the take and the record has them in the held list; what
// of equal ones is recorded there is dropped, and the others go back.
func TestCutoverWithoutIDsHeld(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.withoutIDs()
	ctx := t.Context()
	q.carry("gate")
	old, err := sidekiq.Open(sidekiq.Options{URL: q.url, Queue: "mail"})
	q.must(err)
	defer old.Close()
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		if _, err := book.AdvanceCutover(ctx, "mail", daybook.PhaseMove, daybook.By{Actor: "ada"}); err != nil {
			return err
		}
		held, err := old.Take(ctx, 100)
		if err != nil || len(held) != 5 {
			t.Fatalf("took %d: %v", len(held), err)
		}
		_, err = book.ImportOld(ctx, "mail", []daybook.Arriving{{Old: held[0], Request: daybook.Request{Queue: "mail",
			Kind: "MailJob"}}}) // one of the equal ones, and then it dies
		return err
	}))
	q.ok("cutover", "rollback", "mail", "-y")
	if n := q.redis.LLen(ctx, "queue:mail").Val(); n != 5 {
		t.Errorf("%d lie there, want all five", n)
	}
}
