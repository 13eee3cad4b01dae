package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestSQLLives leads jobs through random lives, their owners' moves by SQL and
// all others by Go, and holds each row and its history to what the pure moves
// make of the same life.
func TestSQLLives(t *testing.T) {
	b := newSQLBook(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 16 {
		l := &life{sqlBook: b, Rand: random, queue: fmt.Sprintf("q%d", n), habit: n}
		l.begin()
		for range 40 {
			l.step()
			l.compare()
		}
	}
	// Sessions go sooner than history does.
	if n := b.value(b.conn, "SELECT count(*)::text FROM daybook.ended WHERE outcome <> 1 AND worker IS NULL"); n != "0" {
		t.Errorf("%s attempts don't know their worker", n)
	}
}

// life is one job in a queue of its own, and what it must be.
type life struct {
	*sqlBook
	*rand.Rand
	queue   string
	habit   int // what its owner does most
	session daybook.Session
	job     daybook.Job
	history []daybook.Attempt
	effects int
	words   string   // the newest error, before the book cuts it
	lived   []string // for the error
}

func (l *life) note(format string, args ...any) {
	l.lived = append(l.lived, fmt.Sprintf(format, args...))
}

func (l *life) fail(format string, args ...any) {
	l.Helper()
	l.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(l.lived, ", "))
}

// begin enqueues the job by SQL.
func (l *life) begin() {
	l.Helper()
	r := daybook.Request{Queue: l.queue, Kind: "k", Args: json.RawMessage(`{"n": 1.0}`), MaxFailures: 1 + l.IntN(6),
		Priority: l.IntN(3) - 1}
	if l.IntN(2) == 0 {
		r.OnLost = daybook.LostSetAside
	}
	if l.IntN(2) == 0 {
		r.In = time.Duration(l.IntN(3)) * time.Hour
	}
	if l.IntN(4) == 0 {
		r.ExpiresAt = l.now().Add(1000 * time.Hour).Std()
	}
	id := l.value(l.conn, `SELECT id::text FROM daybook.enqueue($1, $2, $3::text::json, max_failures => $4, priority => $5,
		on_lost => $6, run_in => $7::text::interval, expires_at => $8)`, r.Queue, r.Kind, string(r.Args), r.MaxFailures,
		r.Priority, string(r.OnLost), interval(r.In), timeOrNull(r.ExpiresAt))
	r.ID, _ = daybook.ParseID(id)
	prepared, err := r.Prepare()
	if err != nil {
		l.Fatal(err)
	}
	l.job = prepared.Enqueue(l.now())
	l.note("enqueue %+v", r)
}

// interval writes a duration as an interval.
func interval(d time.Duration) string { return fmt.Sprintf("%d microseconds", d.Microseconds()) }

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func (l *life) step() {
	l.Helper()
	switch n := l.IntN(20); {
	case n < 4:
		d := time.Duration(l.IntN(90)) * time.Minute
		if l.IntN(8) == 0 {
			d = time.Duration(l.IntN(20*24)) * time.Hour
		}
		l.pass(d)
		l.note("pass %s", d)
	case n < 10 && l.job.State != daybook.Running:
		l.claimIt()
	case n < 12 && l.habit%4 == 3:
		l.lose()
	case n < 15:
		l.finish()
	case n < 16:
		l.move("cancel", func(j daybook.Job) (daybook.Change, error) {
			return j.Cancel(daybook.By{Actor: "ada"}, l.IntN(3) == 0, l.now())
		})
	case n < 17:
		l.lose()
	case n < 18 && l.job.OpenEffect == "":
		l.move("revive", func(j daybook.Job) (daybook.Change, error) { return j.Revive(daybook.By{Actor: "ada"}, l.now()) })
	}
}

func (l *life) lose() {
	l.Helper()
	l.move("lose", func(j daybook.Job) (daybook.Change, error) {
		owner := daybook.Owner{Session: j.Session, Generation: j.Generation}
		return j.Lose(daybook.Loss{Cause: daybook.LossSession, Owner: owner}, l.now())
	})
}

// move carries out a move of somebody else by Go.
func (l *life) move(name string, decide func(daybook.Job) (daybook.Change, error)) {
	l.Helper()
	err := l.book.Store().Write(l.Context(), name, func(tx daybook.Tx) error {
		jobs, err := tx.Lock(l.Context(), []daybook.ID{l.job.ID})
		if err != nil {
			return err
		}
		c, err := decide(jobs[0])
		if err != nil {
			return nil // the job's state doesn't allow it
		}
		if err := tx.Save(l.Context(), []daybook.Change{c}); err != nil {
			return err
		}
		l.note("%s", name)
		l.apply(c)
		return nil
	})
	if err != nil {
		l.fail("%s: %v", name, err)
	}
}

// apply writes what a move did into the model. A move of Go's was made on a row
// without args and error.
func (l *life) apply(c daybook.Change) {
	was := l.job
	l.job = c.Now
	l.job.Args = was.Args
	if l.job.LastError == nil {
		l.job.LastError = was.LastError
	}
	if c.Effect != nil {
		l.effects++
	}
	a := c.Attempt
	if a == nil {
		return
	}
	if n := len(l.history); a.Outcome == daybook.OutcomeReleased && !l.job.Ledger && n > 1 {
		if folded, ok := l.history[n-1].Fold(l.history[n-2]); ok {
			l.history = append(l.history[:n-2], folded)
		}
	}
	l.history = append(l.history, *a)
}

// claimIt asks for the job, and holds the answer to the pure move.
func (l *life) claimIt() {
	l.Helper()
	was := ""
	if !l.session.ID.IsZero() && l.IntN(3) > 0 {
		was = l.session.ID.String()
		if l.session.HalfSpent(l.now()) {
			l.session, _ = l.session.Renew(l.now(), false)
		}
	}
	claims, err := l.claim(l.conn, was, "", 1+l.IntN(3), l.queue)
	if err != nil || len(claims) > 1 {
		l.fail("claims: %v, %v", claims, err)
	}
	if len(claims) == 1 {
		id, _ := daybook.ParseID(claims[0].session)
		l.session = l.loaded(id)
	}
	l.note("claim %v", claims)
	c, err := l.job.Claim(daybook.Grant{Session: l.session}, l.now())
	if (err == nil) != (len(claims) == 1) {
		l.fail("claimed %v, the move says %v", claims, err)
	}
	if err == nil {
		got := claims[0]
		if got.id != c.Now.ID.String() || got.generation != c.Now.Generation || got.args != string(l.job.Args) ||
			got.kind != "k" || daybook.At(got.lease) != l.session.ExpiresAt || was != "" && got.session != was {
			l.fail("claimed %+v, the move says %+v by %+v", got, c.Now, l.session)
		}
		l.apply(c)
	}
}

func (l *life) loaded(id daybook.ID) daybook.Session {
	l.Helper()
	found, err := l.book.Sessions(l.Context(), daybook.SessionFilter{ID: id})
	if err != nil || len(found) != 1 {
		l.fail("session %s: %v, %v", id, found, err)
	}
	found[0].Ref, found[0].Running = 0, 0
	return found[0]
}

// finish reports an attempt by SQL: mostly the current one, sometimes an old
// one again, sometimes one of nobody.
func (l *life) finish() {
	l.Helper()
	o := l.outcome()
	state, err := l.report(o)
	got := stateOf(err)
	l.note("%s of %d: %s %s", o.Kind, o.Owner.Generation, state, got)
	c, refused := l.decide(&o)
	switch daybook.CodeOf(refused) {
	case "":
		if err != nil || state != string(c.Now.State) {
			l.fail("answers %s, %v; the move says %s", state, err, c.Now.State)
		}
		l.apply(c)
	case daybook.CodeEffectOpen:
		if got != stateRefused {
			l.fail("answers %s, %v; the move says %v", state, err, refused)
		}
	case daybook.CodeFenced:
		for _, past := range l.history {
			if o.Repeated(past) {
				if err != nil || state != string(l.job.State) {
					l.fail("a repeat is answered %s, %v", state, err)
				}
				return
			}
		}
		if got != stateFenced || !strings.HasPrefix(l.refusal(err).Message, strings.Split(refused.Error(), " of ")[0]) {
			l.fail("answers %s, %v; the move says %v", state, err, refused)
		}
	default:
		l.fail("the move says %v", refused)
	}
}

// outcome draws what an owner says.
func (l *life) outcome() daybook.Outcome {
	o := daybook.Outcome{Job: l.job.ID, Owner: daybook.Owner{Session: l.job.Session, Generation: l.job.Generation}}
	if l.job.Session.IsZero() {
		o.Owner.Session = l.session.ID
	}
	if n := len(l.history); n > 0 && l.IntN(4) == 0 {
		past := l.history[l.IntN(n)]
		o.Owner = daybook.Owner{Session: past.Session, Generation: past.Generation}
	}
	switch l.IntN(12) {
	case 0:
		o.Owner.Generation++
	case 1:
		o.Owner.Session = daybook.NewID()
	}
	if o.Owner.Session.IsZero() {
		o.Owner.Session = daybook.NewID()
	}
	kind := l.IntN(7)
	if l.IntN(2) == 0 {
		kind = 1 + l.habit%4 // two of them fail, two release
	}
	switch kind {
	case 0:
		o.Kind, o.Result = daybook.OutcomeSucceeded, l.result()
	case 1, 2:
		l.words = l.text()
		o.Kind, o.Problem, o.Permanent = daybook.OutcomeFailed, daybook.NewProblem(l.words, "", ""), l.IntN(6) == 0
		if l.IntN(2) == 0 {
			in := time.Duration(l.IntN(7200)) * time.Second
			o.RetryIn = &in
		}
	default:
		o.Kind, o.In = daybook.OutcomeReleased, time.Duration(l.IntN(3))*time.Hour
	}
	return o
}

// result draws a result; some can't be kept.
func (l *life) result() json.RawMessage {
	switch l.IntN(5) {
	case 0:
		return nil
	case 1:
		return json.RawMessage(`{"a":"\u0000"}`)
	case 2:
		return json.RawMessage(`"` + strings.Repeat("x", daybook.ResultMax) + `"`)
	}
	return json.RawMessage(` {"b": 1.50, "a": "é"}`)
}

// text draws an error's text; some are cut, in the middle of a character too.
func (l *life) text() string {
	switch l.IntN(4) {
	case 0:
		return strings.Repeat("x", l.IntN(3)) + strings.Repeat("é", 8180+l.IntN(20))
	case 1:
		return strings.Repeat("x", daybook.ErrorMax-2+l.IntN(5))
	case 2:
		return strings.Repeat("a", l.IntN(4)) + strings.Repeat("😀", 4090+l.IntN(10)) + "\n"
	}
	return "boom\n\tat line 3"
}

// report says it by SQL.
func (l *life) report(o daybook.Outcome) (string, error) {
	args := []any{o.Job.String(), o.Owner.Generation, o.Owner.Session.String()}
	call := "SELECT daybook."
	switch o.Kind {
	case daybook.OutcomeSucceeded:
		call += "complete($1::text::uuid, $2, $3::text::uuid, $4::text::json)"
		args = append(args, nullJSON(o.Result))
	case daybook.OutcomeReleased:
		call += "release($1::text::uuid, $2, $3::text::uuid, $4::text::interval)"
		args = append(args, interval(o.In))
	default:
		call += "fail($1::text::uuid, $2, $3::text::uuid, $4, $5, $6::text::interval)"
		args = append(args, l.words, o.Permanent, nil)
		if o.RetryIn != nil {
			args[5] = interval(*o.RetryIn)
		}
	}
	return l.try(l.conn, call, args...)
}

// decide is the pure move that the outcome asks for. Where the curve decides
// when, it takes what the book took, if that is on the curve.
func (l *life) decide(o *daybook.Outcome) (daybook.Change, error) {
	l.Helper()
	if o.Kind == daybook.OutcomeSucceeded && len(o.Result) > 0 {
		problem := ""
		if err := daybook.CheckJSON("result", o.Result); err != nil {
			problem = err.Error()
		}
		if len(o.Result) > daybook.ResultMax {
			problem = fmt.Sprintf("result: at most %d bytes, got %d", daybook.ResultMax, len(o.Result))
		}
		if problem != "" {
			o.Kind, o.Permanent, o.Result = daybook.OutcomeFailed, true, nil
			o.Problem = daybook.NewProblem(problem, "result", "")
		}
	}
	switch o.Kind {
	case daybook.OutcomeSucceeded:
		return l.job.Complete(o.Owner, o.Result, l.now())
	case daybook.OutcomeReleased:
		return l.job.Release(o.Owner, o.In, l.now())
	}
	f := daybook.Failure{Problem: o.Problem, Permanent: o.Permanent}
	switch now := l.sqlBook.job(l.job.ID.String()); {
	case o.RetryIn != nil:
		f.Delay = *o.RetryIn
	case now.State == daybook.Waiting:
		f.Delay = now.RunAt.Sub(l.now())
		least := daybook.BackoffDefault.Delay(int64(l.job.Failures)+1, 0)
		most := daybook.BackoffDefault.Delay(int64(l.job.Failures)+1, 0.9999999)
		if l.job.State == daybook.Running && o.Owner.Generation == l.job.Generation && o.Owner.Session == l.job.Session &&
			(f.Delay < least || f.Delay > most+time.Microsecond) {
			l.fail("after %d failures it waits %s, the curve says %s to %s", l.job.Failures+1, f.Delay, least, most)
		}
	}
	return l.job.Fail(o.Owner, f, l.now())
}

// compare holds row and history to the model.
func (l *life) compare() {
	l.Helper()
	got := l.sqlBook.job(l.job.ID.String())
	want := l.job
	if want.State == daybook.Running {
		want.LeaseUntil = l.loaded(want.Session).ExpiresAt
	} else if want.State != daybook.Succeeded {
		want.ClaimedAt = 0 // the row has it while it means something
	}
	if g, w := shownJob(got), shownJob(want); g != w {
		l.fail("got  %s\nwant %s", g, w)
	}
	if want.State == daybook.Waiting {
		place := l.value(l.conn, `SELECT concat_ws(' ', r.rank, r.run_at, r.suspect, r.ledger, r.kind, r.expires_at)
			FROM daybook.ready r JOIN daybook.job j ON j.seq = r.seq WHERE j.id = $1::text::uuid`, l.job.ID.String())
		ready := fmt.Sprint(^want.Priority, " ", int64(want.RunAt), " ", flag(want.Suspect()), " ", flag(l.effects > 0), " k")
		if want.ExpiresAt != 0 {
			ready += fmt.Sprint(" ", int64(want.ExpiresAt))
		}
		if place != ready {
			l.fail("it waits as %s, want %s", place, ready)
		}
	}
	attempts, err := l.book.Attempts(l.Context(), l.job.ID)
	if err != nil || len(attempts) != len(l.history) {
		l.fail("%d attempts, %v; want %d", len(attempts), err, len(l.history))
	}
	for i := range attempts {
		attempts[i].Result, l.history[i].Result = nil, nil
		if g, w := shownAttempt(attempts[i]), shownAttempt(l.history[i]); g != w {
			l.fail("attempt %d:\ngot  %.500s\nwant %.500s", i, g, w)
		}
	}
}

func flag(b bool) string {
	if b {
		return "t"
	}
	return "f"
}

// shownJob is a job to compare: what people see, args byte for byte, and what
// moves read besides.
func shownJob(j daybook.Job) string {
	j.Origin = nil
	args, result := j.Args, j.Result
	j.Args, j.Result = nil, nil
	doc, err := json.Marshal(j)
	first := j.FirstClaimedAt
	if j.State != daybook.Running && j.State != daybook.Waiting {
		first = 0
	}
	return fmt.Sprint(string(doc), err, string(args), string(result), first, j.Timeout, j.StartedAt, j.OpenEffect,
		j.Ledger)
}

func shownAttempt(a daybook.Attempt) string {
	doc, err := json.Marshal(a)
	return fmt.Sprint(string(doc), err, a.Through)
}
