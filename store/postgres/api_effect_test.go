package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
)

// TestSQLEffects leads twins through random lives: the owner of one speaks Go,
// the owner of the other SQL, and both say the same at the same time. Answers,
// rows, calls, timeline and evidence must be the same. What was met is counted,
// so that a walk that met too little fails.
func TestSQLEffects(t *testing.T) {
	b := newSQLBook(t)
	b.doubled = true
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	met := map[string]int{}
	for n := range 16 {
		w := &twins{sqlBook: b, Rand: rand.New(rand.NewPCG(seed, uint64(n))), met: met}
		for i := range w.who {
			w.who[i].queue = fmt.Sprintf("q%d-%d", n, i)
		}
		w.begin()
		switch n {
		case 0:
			w.known()
		case 1:
			w.judged()
		}
		for range 40 {
			w.step()
		}
		w.compare()
	}
	t.Logf("met %v", met)
	for _, what := range []string{"call", "done", "probe", "wait", "ask", "finish done", "finish absent", "finish unknown",
		"effect_name_reused", "refused", "fenced", "invalid", "doubled", "effect_changed", "unsure", "round 1"} {
		if met[what] == 0 {
			t.Errorf("the walk never met %s", what)
		}
	}
}

// twin is one of two jobs that must live the same life.
type twin struct {
	queue string
	id    daybook.ID
	owner daybook.Owner // of the newest claim
	past  []daybook.Owner
}

// twins are a job whose owner speaks Go and one whose owner speaks SQL.
type twins struct {
	*sqlBook
	*rand.Rand
	who   [2]twin
	calls []daybook.ID
	lived []string
	met   map[string]int
}

func (w *twins) note(format string, args ...any) {
	w.lived = append(w.lived, fmt.Sprintf(format, args...))
}

func (w *twins) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(w.lived, "\n      "))
}

func (w *twins) begin() {
	w.Helper()
	r := daybook.Request{Kind: "k", MaxFailures: 5 + w.IntN(20)}
	if w.IntN(3) == 0 {
		r.OnLost = daybook.LostSetAside
	}
	for i := range w.who {
		r.Queue = w.who[i].queue
		got, err := w.book.Enqueue(w.Context(), r)
		if err != nil {
			w.Fatal(err)
		}
		w.who[i].id = got.ID
	}
	for range 3 {
		w.calls = append(w.calls, daybook.NewID())
	}
}

// known is a life that meets what a short random one may miss: a wait, a probe,
// a late word that shows an effect doubled, another input.
func (w *twins) known() {
	w.Helper()
	checked := daybook.Begin{Name: "charge", Policy: "checked", Quiet: 10 * time.Second, Limit: 5 * time.Second}
	again := func() int {
		w.endBy("fail")
		w.pass(time.Second)
		w.claim()
		return len(w.who[0].past) - 1
	}
	n := again()
	w.beginBy(n, checked)
	n = again()
	w.beginBy(n, checked)
	w.pass(15 * time.Second)
	w.beginBy(n, checked)
	w.compare()
	w.finishBy(n, daybook.EffectEnd{Name: "charge", Outcome: "absent"})
	w.beginBy(n, checked)
	w.finishBy(0, daybook.EffectEnd{Name: "charge", Outcome: "done", Result: json.RawMessage(`{"late": true}`)})
	w.compare()
	w.finishBy(n, daybook.EffectEnd{Name: "charge", Outcome: "done"})
	w.compare()
	keyed := daybook.Begin{Name: "mail:2", Policy: "keyed", Window: time.Hour, Fingerprint: "a"}
	w.beginBy(n, keyed)
	w.finishBy(n, daybook.EffectEnd{Name: "mail:2", Outcome: "absent"})
	put := daybook.Begin{Name: "put", Policy: "repeatable"}
	w.beginBy(n, put)
	n, keyed.NextKey = again(), true
	w.beginBy(n, put)
	w.finishBy(n, daybook.EffectEnd{Name: "put", Outcome: "absent"})
	w.beginBy(n, keyed)
	w.finishBy(n, daybook.EffectEnd{Name: "mail:2", Outcome: "done"})
	w.finishBy(n-1, daybook.EffectEnd{Name: "mail:2", Outcome: "done"}) // of the round before
	w.compare()
	keyed.Fingerprint = "b"
	w.beginBy(again(), keyed)
	w.compare()
	w.settle()
	w.revive()
}

// judged is a life in which a person found absent what was open: its key stays, and
// a late word of the owner makes it doubtful.
func (w *twins) judged() {
	w.Helper()
	revived := func() int {
		w.both("fail for good", func(t *twin) string {
			c := sqlClaim{id: t.id.String(), generation: t.owner.Generation, session: t.owner.Session.String()}
			return w.said(w.conn, c, "fail", "'boom'", "true")
		})
		w.settleBy("charge", daybook.Verdict{})
		w.revive()
		w.claim()
		return len(w.who[0].past) - 1
	}
	w.claim()
	keyed := daybook.Begin{Name: "charge", Policy: "keyed", Window: time.Hour, NextKey: true}
	w.beginBy(0, keyed)
	n := revived()
	w.beginBy(n, keyed)
	w.compare()
	n = revived()
	w.finishBy(n-1, daybook.EffectEnd{Name: "charge", Outcome: "done"})
	w.beginBy(n, keyed)
	w.compare()
	w.settleBy("charge", daybook.Verdict{Happened: true})
	w.compare()
}

func (w *twins) step() {
	w.Helper()
	running := w.job(w.who[0].id.String()).State == daybook.Running
	switch n := w.IntN(20); {
	case !running && n < 12:
		w.revive()
		w.claim()
	case n < 9:
		w.beginEffect()
	case n < 14:
		w.finishEffect()
	case n < 16:
		w.pass([]time.Duration{time.Second, 10 * time.Second, 29 * time.Second, time.Minute, time.Hour}[w.IntN(5)])
		w.note("pass")
		if w.IntN(2) == 0 {
			w.renew()
		}
	case n < 18:
		w.end()
	case n < 19:
		w.settle()
	default:
		w.others()
	}
}

// both has the two do the same, and wants the same answer.
func (w *twins) both(what string, do func(t *twin) string) string {
	w.Helper()
	one, two := do(&w.who[0]), do(&w.who[1])
	w.note("%s: %s", what, one)
	if one != two {
		w.fail("%s\n  by Go  %s\n  by SQL %s", what, one, two)
	}
	return one
}

// codeOf writes an error of Go's as its code.
func codeOf(err error) string {
	if err == nil {
		return "ok"
	}
	return string(daybook.CodeOf(err))
}

func (w *twins) claim() {
	w.Helper()
	w.both("claim", func(t *twin) string {
		got, err := w.book.Claim(w.Context(), daybook.ClaimRequest{Queues: []string{t.queue},
			SessionRequest: daybook.SessionRequest{Worker: "w", Lease: time.Minute}})
		if err != nil || len(got.Jobs) == 0 {
			return fmt.Sprint("nothing ", codeOf(err))
		}
		t.owner = daybook.Owner{Session: got.Session.ID, Generation: got.Jobs[0].Generation}
		t.past = append(t.past, t.owner)
		return fmt.Sprint(t.owner.Generation)
	})
}

func (w *twins) renew() {
	w.Helper()
	w.both("renew", func(t *twin) string {
		_, err := w.book.Renew(w.Context(), t.owner.Session, nil)
		return codeOf(err)
	})
}

// owners draws the newest owner or, now and then, an old one.
func (w *twins) owners() int {
	if len(w.who[0].past) == 0 || w.IntN(6) > 0 {
		return len(w.who[0].past) - 1
	}
	return w.IntN(len(w.who[0].past))
}

func (t *twin) was(n int) daybook.Owner {
	if n < 0 {
		return daybook.Owner{Session: t.id, Generation: 1} // nobody was given it yet
	}
	return t.past[n]
}

func (w *twins) name() string { return []string{"charge", "charge", "mail:2"}[w.IntN(3)] }

func (w *twins) beginEffect() {
	w.Helper()
	seconds := func(of ...int) time.Duration { return time.Duration(of[w.IntN(len(of))]) * time.Second }
	b := daybook.Begin{Name: w.name(), NextKey: w.IntN(3) == 0, Call: w.calls[w.IntN(3)], Policy: []daybook.Policy{
		"repeatable", "repeatable", "keyed", "keyed", "keyed", "checked", "checked", "ask"}[w.IntN(8)]}
	if b.Policy == daybook.PolicyKeyed || w.IntN(40) == 0 {
		b.Window = seconds(5, 60, 600, 7200)
	}
	if b.Policy == daybook.PolicyChecked || w.IntN(40) == 0 {
		b.Quiet = seconds(0, 0, 10, 70)
	}
	b.Limit = seconds(0, 0, 5, 10, 45)
	if w.IntN(3) == 0 {
		b.Fingerprint = []string{"a", "a", "a", "a", "b"}[w.IntN(5)]
	}
	w.beginBy(w.owners(), b)
}

func (w *twins) beginBy(n int, b daybook.Begin) {
	w.Helper()
	if b.Call.IsZero() {
		b.Call = daybook.NewID() // the same for both
	}
	got := w.both(fmt.Sprintf("begin by %d %+v", n, b), func(t *twin) string {
		if t == &w.who[0] {
			return w.goBegin(t, t.was(n), b)
		}
		return w.sqlBegin(t, t.was(n), b)
	})
	w.met[strings.Fields(got)[0]]++
}

func (w *twins) goBegin(t *twin, o daybook.Owner, b daybook.Begin) string {
	got, err := w.book.BeginEffect(w.Context(), t.id, o, b)
	if err != nil {
		return codeOf(err)
	}
	return fmt.Sprint(got.Decision, w.keyOf(t, b.Name, got.Key), string(got.Result), int64(got.WaitUntil),
		int64(got.CallUntil))
}

// keyOf tells which round's key it is.
func (w *twins) keyOf(t *twin, name, key string) string {
	for round := range 50 {
		if key == daybook.EffectKey(t.id, name, round) {
			return fmt.Sprint(" key ", round, " ")
		}
	}
	w.fail("%s is no key of %s", key, name)
	return ""
}

func (w *twins) sqlBegin(t *twin, o daybook.Owner, b daybook.Begin) string {
	var decision, key string
	var result *string
	var wait, until *time.Time
	orNull := func(d time.Duration) any {
		if d == 0 {
			return nil
		}
		return interval(d)
	}
	err := w.conn.QueryRow(w.Context(), w.in(`SELECT decision, key, result::text, wait_until, call_until
		FROM daybook.effect_begin($1::text::uuid, $2, $3::text::uuid, $4, $5, $6::text::interval, $7::text::interval,
			$8::text::interval, nullif($9::text, ''), $10, $11::text::uuid)`), t.id.String(), o.Generation,
		o.Session.String(), b.Name, string(b.Policy), orNull(b.Window), orNull(b.Quiet), orNull(b.Limit), b.Fingerprint,
		b.NextKey, b.Call.String()).Scan(&decision, &key, &result, &wait, &until)
	if err != nil {
		return w.told(t, o, err, "effect_begin:"+b.Name, string(b.Policy))
	}
	return fmt.Sprint(daybook.Decision(decision), w.keyOf(t, b.Name, key), textOf(result), microsOf(wait), microsOf(until))
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func microsOf(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// told is the code of Go's that a refusal of SQL's stands for; a fenced one is
// reported, as every program has to.
func (w *twins) told(t *twin, o daybook.Owner, err error, operation, said string) string {
	w.Helper()
	r := w.refusal(err)
	if strings.Contains(r.Message, "\n") || len(r.Message) > 250 {
		w.fail("not one clear line: %s", r.Message)
	}
	switch r.Code {
	case stateInvalid:
		return "invalid"
	case stateFenced:
		w.must(w.conn, "SELECT daybook.report_fenced($1::text::uuid, $2, $3::text::uuid, $4, $5)", t.id.String(),
			o.Generation, o.Session.String(), operation, said)
		return "fenced"
	case stateRefused:
		return refusedAs(r)
	}
	w.fail("%v", err)
	return ""
}

func refusedAs(r *pgconn.PgError) string {
	switch {
	case strings.Contains(r.Message, "begun in this attempt already"):
		return "effect_name_reused"
	case strings.Contains(r.Message, "has no effect"):
		return "not_found"
	}
	return "refused"
}

func (w *twins) finishEffect() {
	w.Helper()
	f := daybook.EffectEnd{Name: w.name(), Outcome: []daybook.EffectOutcome{"done", "done", "absent", "absent",
		"unknown"}[w.IntN(5)]}
	if f.Outcome == daybook.OutcomeDone || w.IntN(20) == 0 {
		f.Result = []json.RawMessage{nil, json.RawMessage(`{"n": 1.0, "é": 2}`), json.RawMessage(`7`)}[w.IntN(3)]
	}
	w.finishBy(w.owners(), f)
}

func (w *twins) finishBy(n int, f daybook.EffectEnd) {
	w.Helper()
	got := w.both(fmt.Sprintf("finish by %d %+v", n, f), func(t *twin) string {
		o := t.was(n)
		if t == &w.who[0] {
			got, err := w.book.FinishEffect(w.Context(), t.id, o, f)
			if err != nil {
				return codeOf(err)
			}
			return fmt.Sprint("finish ", got.State, " ", got.Job, " ", flag(got.Doubled))
		}
		got, err := w.try(w.conn, `SELECT concat_ws(' ', 'finish', state, job, doubled) FROM daybook.effect_finish(
			$1::text::uuid, $2, $3::text::uuid, $4, $5, $6::text::json)`, t.id.String(), o.Generation, o.Session.String(),
			f.Name, string(f.Outcome), nullJSON(f.Result))
		if err != nil {
			return w.told(t, o, err, "effect_finish:"+f.Name, strings.TrimSpace(string(f.Outcome)+" "+string(f.Result)))
		}
		return got
	})
	w.met[strings.Fields(got)[0]]++
	if strings.HasPrefix(got, "finish") {
		w.met["finish "+string(f.Outcome)]++
	}
}

// end ends the attempt, by Go and by SQL.
func (w *twins) end() {
	w.Helper()
	w.endBy([]string{"complete", "release", "fail"}[w.IntN(3)])
}

func (w *twins) endBy(how string) {
	w.Helper()
	w.both(how, func(t *twin) string {
		c := sqlClaim{id: t.id.String(), generation: t.owner.Generation, session: t.owner.Session.String()}
		if c.generation == 0 {
			return ""
		}
		more := map[string][]string{"fail": {"'boom'", "false", "'1 s'"}}[how]
		got, err := w.say(w.conn, c, how, more...)
		if err != nil {
			return w.refusal(err).Code
		}
		return got
	})
}

func (w *twins) person(what string, do func(id daybook.ID) (daybook.Job, error)) {
	w.Helper()
	w.both(what, func(t *twin) string {
		j, err := do(t.id)
		return fmt.Sprint(codeOf(err), " ", j.State)
	})
}

func (w *twins) revive() {
	w.Helper()
	w.person("revive", func(id daybook.ID) (daybook.Job, error) { return w.book.Revive(w.Context(), id, someone) })
}

func (w *twins) settle() {
	w.Helper()
	name, v := w.name(), daybook.Verdict{Happened: w.IntN(4) == 0}
	if w.IntN(4) == 0 {
		name = daybook.HandlerEffect
	}
	w.settleBy(name, v)
}

func (w *twins) settleBy(name string, v daybook.Verdict) {
	w.Helper()
	w.person(fmt.Sprint("settle ", name, v), func(id daybook.ID) (daybook.Job, error) {
		return w.book.Settle(w.Context(), id, name, v, someone)
	})
}

// others takes the claim away.
func (w *twins) others() {
	w.Helper()
	switch w.IntN(4) {
	case 0:
		w.person("cancel", func(id daybook.ID) (daybook.Job, error) {
			return w.book.Cancel(w.Context(), id, someone, false)
		})
	case 1:
		w.person("cancel by force", func(id daybook.ID) (daybook.Job, error) {
			return w.book.Cancel(w.Context(), id, someone, true)
		})
	default:
		w.both("lose", func(t *twin) string {
			_, _, err := w.book.EndExpiredSessions(w.Context(), daybook.AtOnce)
			_, lost := w.book.RevokeLost(w.Context())
			return codeOf(err) + codeOf(lost)
		})
	}
}

// compare holds the two jobs to each other: row, ledger, history.
func (w *twins) compare() {
	w.Helper()
	one, two := w.shown(&w.who[0]), w.shown(&w.who[1])
	for i := range max(len(one), len(two)) {
		if i >= len(one) || i >= len(two) || one[i] != two[i] {
			w.fail("by Go\n  %s\nby SQL\n  %s", strings.Join(one, "\n  "), strings.Join(two, "\n  "))
		}
	}
}

// shown is all that the book has of a job, without what tells the twins apart.
func (w *twins) shown(t *twin) (lines []string) {
	w.Helper()
	j := w.job(t.id.String())
	if j.Reason == daybook.ReasonEffectChanged {
		w.met["effect_changed"]++
	}
	err := w.book.Store().Read(w.Context(), "a test", func(v daybook.View) error {
		h, err := v.History(w.Context(), j)
		j.Ref, j.ID, j.Queue, j.Session = 0, daybook.ID{}, "", daybook.ID{}
		problem := j.LastError
		j.LastError = nil
		lines = append(lines, fmt.Sprintf("%+v %+v", j, problem))
		for _, e := range h.Effects {
			e.Ref, e.Job = 0, daybook.ID{}
			w.seen(e)
			lines = append(lines, fmt.Sprintf("%+v", e))
		}
		for _, a := range h.Attempts {
			problem := a.Error
			a.Session, a.Error = daybook.ID{}, nil
			lines = append(lines, fmt.Sprintf("%+v %+v", a, problem))
		}
		for _, e := range h.Events {
			lines = append(lines, fmt.Sprintf("%+v", e))
		}
		for _, r := range h.Refusals {
			r.Session, r.Job = daybook.ID{}, daybook.ID{}
			lines = append(lines, fmt.Sprintf("%+v", r))
		}
		return err
	})
	if err != nil {
		w.fail("%v", err)
	}
	for i := range lines {
		for _, name := range []string{"charge", "mail:2", "put", daybook.HandlerEffect} {
			for round := range 20 {
				lines[i] = strings.ReplaceAll(lines[i], daybook.EffectKey(t.id, name, round), fmt.Sprint("key ", round))
			}
		}
	}
	return lines
}

func (w *twins) seen(e daybook.Effect) {
	for what, is := range map[string]bool{"doubled": e.Doubled, "unsure": e.Unsure != 0, "round 1": e.Round > 0} {
		if is {
			w.met[what]++
		}
	}
}

// TestSQLEffectViews: what is open, what came too late and what happened twice is
// to be seen.
func TestSQLEffectViews(t *testing.T) {
	b := newSQLBook(t)
	b.doubled = true
	c := b.claimed()
	begin := func(c sqlClaim) {
		b.must(b.conn, "SELECT * FROM daybook.effect_begin($1::text::uuid, $2, $3::text::uuid, 'charge', 'ask',"+
			" call_limit => '10 s')", c.id, c.generation, c.session)
	}
	effects := func() string {
		return b.value(b.conn, `SELECT concat_ws(' ', name, state, open, doubled, call_until - begun_at, late)
			FROM daybook.effects`)
	}
	backlog := func() string {
		return b.value(b.conn, "SELECT concat_ws(' ', queue, kind, open_effects, doubled_effects) FROM daybook.backlog")
	}
	begin(c)
	if got, want := effects()+", "+backlog(), "charge open t f 00:00:10, q k 1 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.said(b.conn, c, "fail", "'boom'", "permanent => true")
	id, _ := daybook.ParseID(c.id)
	if _, err := b.book.Settle(t.Context(), id, "charge", daybook.Verdict{}, someone); err != nil {
		t.Fatal(err)
	}
	if _, err := b.book.Revive(t.Context(), id, someone); err != nil {
		t.Fatal(err)
	}
	claims, err := b.claim(b.conn, c.session, "", 1, "q")
	if err != nil || len(claims) != 1 {
		t.Fatalf("%v, %v", claims, err)
	}
	begin(claims[0])
	b.must(b.conn, "SELECT daybook.effect_finish($1::text::uuid, $2, $3::text::uuid, 'charge', 'done')", claims[0].id,
		claims[0].generation, claims[0].session)
	for range 2 {
		b.said(b.conn, c, "report_fenced", "'effect_finish:charge'", `'done {"n": 1.0}'`)
	}
	want := `charge done f t 00:00:10 [{"generation" : 1, "at" : "` + b.now().String() +
		`", "outcome" : "done", "said" : "{\"n\": 1.0}"}], q k 0 1`
	if got := effects() + ", " + backlog(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.said(b.conn, claims[0], "complete")
}

// TestSQLEffectWaits: an owner that begins or ends an effect while its claim ends
// waits for that, and is fenced.
func TestSQLEffectWaits(t *testing.T) {
	b := newSQLBook(t)
	for _, call := range []string{"effect_begin(%s, 'charge', 'ask')", "effect_finish(%s, 'charge', 'done')"} {
		c, late := b.claimed(), b.session()
		named := fmt.Sprintf("'%s', %d, '%s'", c.id, c.generation, c.session)
		b.must(b.conn, "BEGIN")
		b.said(b.conn, c, "release", "'1 h'")
		answer := make(chan error)
		go func() {
			_, err := late.Exec(t.Context(), b.in("SELECT daybook."+fmt.Sprintf(call, named)))
			answer <- err
		}()
		b.waitsForLock(late)
		b.must(b.conn, "COMMIT")
		if r := b.refusal(<-answer); r.Code != stateFenced {
			t.Errorf("%s: got %s %s", call, r.Code, r.Message)
		}
		if n := b.value(b.conn, "SELECT count(*)::text FROM daybook.effect"); n != "0" {
			t.Errorf("%s: left %s effects", call, n)
		}
	}
}
