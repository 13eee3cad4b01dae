package daybook

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The fixed world of the domain's tests: one instant, one owner.
var (
	testNow     = At(time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC))
	testJob     = ID{6: 0x70, 8: 0x80, 15: 1}
	testSession = ID{6: 0x70, 8: 0x80, 15: 2}
	otherOwner  = ID{6: 0x70, 8: 0x80, 15: 3}
	testOwner   = Owner{testSession, 4}
	testBy      = By{Actor: "ada", Reason: "looked into it"}
	testLive    = Session{ID: testSession, Worker: "w1", Lease: 30 * time.Second,
		StartedAt: testNow.Add(-time.Hour), ExpiresAt: testNow.Add(20 * time.Second), Renewals: 7}
	testProblem = NewProblem("boom", "", "")
)

// A situation is one job before a move.
type situation struct {
	name string
	job  Job
}

// with changes a copy of a job.
func with(j Job, changes ...func(*Job)) Job {
	for _, change := range changes {
		change(&j)
	}
	return j
}

func situations() []situation {
	var all []situation
	all = append(all, waitingSituations()...)
	all = append(all, runningSituations()...)
	return append(all, endedSituations()...)
}

func waitingJob() Job {
	return Job{ID: testJob, Queue: "mail", Kind: "welcome", State: Waiting, RunAt: testNow.Add(-time.Minute),
		Generation: 4, MaxFailures: 3, OnLost: LostRetry, Timeout: time.Hour,
		EnqueuedAt: testNow.Add(-2 * time.Hour), FirstClaimedAt: testNow.Add(-time.Hour)}
}

func runningJob() Job {
	return with(waitingJob(), func(j *Job) {
		j.State, j.Session, j.Worker = Running, testSession, "w1"
		j.LeaseUntil, j.ClaimedAt = testNow.Add(20*time.Second), testNow.Add(-10*time.Minute)
		j.GrantedAt = 5
	})
}

func endedJob(state State, reason Reason) Job {
	return with(waitingJob(), func(j *Job) {
		j.State, j.Reason, j.EndedAt = state, reason, testNow.Add(-time.Hour)
	})
}

// Small changes that make one situation out of another.
func open(name string) func(*Job) {
	return func(j *Job) { j.OpenEffect, j.Ledger = name, true }
}
func failed(n int) func(*Job)             { return func(j *Job) { j.Failures = n } }
func crashed(n int) func(*Job)            { return func(j *Job) { j.Crashes = n } }
func expires(in time.Duration) func(*Job) { return func(j *Job) { j.ExpiresAt = testNow.Add(in) } }
func due(in time.Duration) func(*Job)     { return func(j *Job) { j.RunAt = testNow.Add(in) } }
func firstClaimed(in time.Duration) func(*Job) {
	return func(j *Job) { j.FirstClaimedAt = testNow.Add(in) }
}
func held(j *Job)    { j.HeldBy = "cutover" }
func fresh(j *Job)   { j.Generation, j.FirstClaimedAt = 0, 0 }
func origin(j *Job)  { j.Origin = &Origin{System: "sidekiq", ID: "1"} }
func asked(j *Job)   { j.CancelRequestedAt = testNow.Add(-time.Second) }
func once(j *Job)    { j.MaxFailures = 1 }
func aside(j *Job)   { j.OnLost = LostSetAside }
func started(j *Job) { j.StartedAt = testNow.Add(-9 * time.Minute) }
func ledger(j *Job)  { j.Ledger = true }

func waitingSituations() []situation {
	return []situation{
		{"waiting", waitingJob()},
		{"waiting due-now", with(waitingJob(), due(0))},
		{"waiting later", with(waitingJob(), due(time.Microsecond))},
		{"waiting expiring", with(waitingJob(), expires(time.Microsecond))},
		{"waiting expired", with(waitingJob(), expires(0))},
		{"waiting expired open", with(waitingJob(), expires(0), open("charge"))},
		{"waiting open", with(waitingJob(), open("charge"))},
		{"waiting held", with(waitingJob(), held)},
		{"waiting held expired", with(waitingJob(), held, expires(0))},
		{"waiting suspect", with(waitingJob(), crashed(2))},
		{"waiting fresh", with(waitingJob(), fresh)},
		{"waiting origin", with(waitingJob(), fresh, origin)},
		{"waiting origin held", with(waitingJob(), fresh, origin, held)},
		{"waiting origin attempted", with(waitingJob(), origin)},
	}
}

func runningSituations() []situation {
	return []situation{
		{"running", runningJob()},
		{"running started", with(runningJob(), started)},
		{"running ledger", with(runningJob(), ledger)},
		{"running open", with(runningJob(), open("charge"))},
		{"running asked", with(runningJob(), asked)},
		{"running open asked", with(runningJob(), open("charge"), asked)},
		{"running last-failure", with(runningJob(), failed(2))},
		{"running second-crash", with(runningJob(), crashed(1))},
		{"running last-crash", with(runningJob(), crashed(2))},
		{"running once", with(runningJob(), once)},
		{"running aside", with(runningJob(), aside)},
		{"running aside started", with(runningJob(), aside, started)},
		{"running aside ledger", with(runningJob(), aside, ledger)},
		{"running aside open", with(runningJob(), aside, open("charge"))},
		{"running aside asked", with(runningJob(), aside, asked)},
		{"running aside once", with(runningJob(), aside, once)},
		{"running snoozed", with(runningJob(), firstClaimed(-SnoozeMax))},
		{"running snoozing", with(runningJob(), firstClaimed(-SnoozeMax+time.Microsecond))},
		{"running expired", with(runningJob(), expires(-time.Minute))},
	}
}

func endedSituations() []situation {
	all := []situation{
		{"succeeded", endedJob(Succeeded, "")},
		{"set_aside lost open", with(endedJob(SetAside, ReasonLost), open(HandlerEffect))},
		{"set_aside timeout open", with(endedJob(SetAside, ReasonTimeout), open(HandlerEffect))},
		{"set_aside effect_open open", with(endedJob(SetAside, ReasonEffectOpen), open("charge"))},
		{"set_aside failures open", with(endedJob(SetAside, ReasonFailures), open("charge"), failed(3))},
		{"cancelled", endedJob(Cancelled, "")},
		{"cancelled open", with(endedJob(Cancelled, ""), open(HandlerEffect))},
		{"cancelled held", with(endedJob(Cancelled, ""), held)},
		{"expired", with(endedJob(Expired, ""), expires(-time.Hour))},
		{"moved", with(endedJob(Moved, ""), fresh, origin)},
	}
	for _, reason := range Reasons {
		j := endedJob(SetAside, reason)
		switch reason {
		case ReasonFailures:
			j.Failures = 3
		case ReasonCrashes:
			j.Crashes = 3
		}
		all = append(all, situation{"set_aside " + string(reason), j})
	}
	return all
}

// A tried move is one way to call a move.
type triedMove struct {
	name string
	try  func(Job) (Change, error)
}

func triedMoves() []triedMove {
	moves := []triedMove{
		{"claim", claimMove(Grant{Session: testLive})},
		{"claim paused", claimMove(Grant{Session: testLive, Paused: true})},
		{"claim ended-session", claimMove(Grant{Session: testLive.End(testNow)})},
		{"claim second-suspect", claimMove(Grant{Session: testLive, Suspects: 1})},
		{"claim incarnation", claimMove(Grant{Session: testLive, Incarnation: 1})},
		{"lose session", loseMove(LossSession, testOwner, false)},
		{"lose unstarted", loseMove(LossSession, testOwner, true)},
		{"lose unlisted", loseMove(LossUnlisted, testOwner, false)},
		{"lose timeout", loseMove(LossTimeout, testOwner, false)},
		{"lose stale", loseMove(LossSession, Owner{testSession, 3}, false)},
		{"lose other-session", loseMove(LossSession, Owner{otherOwner, 4}, false)},
		{"cancel", func(j Job) (Change, error) { return j.Cancel(testBy, false, testNow) }},
		{"cancel force", func(j Job) (Change, error) { return j.Cancel(testBy, true, testNow) }},
		{"expire", func(j Job) (Change, error) { return j.Expire(testNow) }},
		{"settle happened", settleMove("charge", Verdict{Happened: true, Result: json.RawMessage(`7`)})},
		{"settle absent", settleMove("charge", Verdict{Generation: 4})},
		{"settle stay", settleMove("charge", Verdict{Happened: true, Stay: true})},
		{"settle more", settleMove("charge", Verdict{More: true})},
		{"settle elder", settleMove("charge", Verdict{Generation: 3})},
		{"settle handler happened",
			settleMove(HandlerEffect, Verdict{Happened: true, Result: json.RawMessage(`7`)})},
		{"settle handler absent", settleMove(HandlerEffect, Verdict{})},
		{"settle handler stay", settleMove(HandlerEffect, Verdict{Happened: true, Stay: true})},
		{"settle done", func(j Job) (Change, error) {
			return j.Settle(Effect{Name: "charge", State: EffectDone, Generation: 4}, Verdict{}, testBy, testNow)
		}},
		{"revive", func(j Job) (Change, error) { return j.Revive(testBy, testNow) }},
		{"unhold", func(j Job) (Change, error) { return j.Unhold(testBy, testNow) }},
		{"move out", func(j Job) (Change, error) { return j.MoveOut(testBy, testNow) }},
		{"prune", pruneMove(testNow.Add(-time.Hour))},
		{"prune young", pruneMove(testNow.Add(-time.Hour - time.Microsecond))},
	}
	for _, o := range []struct {
		name  string
		owner Owner
	}{{"", testOwner}, {" stale", Owner{testSession, 3}}, {" ahead", Owner{testSession, 5}}, {" other-session",
		Owner{otherOwner, 4}}} {
		moves = append(moves, ownerMoves(o.name, o.owner)...)
	}
	return moves
}

func ownerMoves(suffix string, o Owner) []triedMove {
	fail := func(f Failure) func(Job) (Change, error) {
		f.Problem = testProblem
		return func(j Job) (Change, error) { return j.Fail(o, f, testNow) }
	}
	return []triedMove{
		{"complete" + suffix, func(j Job) (Change, error) {
			return j.Complete(o, json.RawMessage(`{"ok":true}`), testNow)
		}},
		{"fail" + suffix, fail(Failure{})},
		{"fail in-10s" + suffix, fail(Failure{Delay: 10 * time.Second})},
		{"fail permanent" + suffix, fail(Failure{Permanent: true})},
		{"fail undecodable" + suffix, fail(Failure{Permanent: true, Reason: ReasonUndecodable})},
		{"ask" + suffix, func(j Job) (Change, error) { return j.Ask(o, "charge", testNow) }},
		{"release" + suffix, func(j Job) (Change, error) { return j.Release(o, 0, testNow) }},
		{"release in-10s" + suffix, func(j Job) (Change, error) { return j.Release(o, 10*time.Second, testNow) }},
		{"start" + suffix, func(j Job) (Change, error) {
			next, err := j.Started(o, testNow)
			return Change{Was: j, Now: next}, err
		}},
	}
}

func claimMove(g Grant) func(Job) (Change, error) {
	return func(j Job) (Change, error) { return j.Claim(g, testNow) }
}

func loseMove(cause LossCause, o Owner, starts bool) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		return j.Lose(Loss{Cause: cause, Owner: o, Starts: starts}, testNow)
	}
}

func settleMove(name string, v Verdict) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		e := Effect{Job: j.ID, Name: name, Policy: PolicyAsk, State: EffectIsOpen, Generation: 4}
		return j.Settle(e, v, testBy, testNow)
	}
}

func pruneMove(cutoff Time) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		if !j.Prunable(cutoff) {
			return Change{}, ErrRefused
		}
		return Change{Move: MovePrune, Was: j}, nil
	}
}

// answer writes what a move did, in the words of testdata/moves.txt.
func answer(c Change, err error) string {
	if err != nil {
		return string(CodeOf(err))
	}
	was, now := c.Was, c.Now
	var b strings.Builder
	switch {
	case c.Move == MovePrune:
		return "gone"
	case now.State == was.State && now.Reason == was.Reason:
		b.WriteString("stays")
	case now.Reason != "":
		fmt.Fprintf(&b, "%s:%s", now.State, now.Reason)
	default:
		b.WriteString(string(now.State))
	}
	for _, f := range []struct {
		mark     string
		was, now int64
	}{{"g", was.Generation, now.Generation}, {"f", int64(was.Failures), int64(now.Failures)},
		{"c", int64(was.Crashes), int64(now.Crashes)}} {
		if f.was != f.now {
			fmt.Fprintf(&b, " %s%d", f.mark, f.now)
		}
	}
	if now.State == Waiting && now.RunAt != was.RunAt {
		fmt.Fprintf(&b, " +%s", now.RunAt.Sub(testNow))
	}
	for _, f := range []struct {
		mark string
		set  bool
	}{{"asked", was.CancelRequestedAt == 0 && now.CancelRequestedAt != 0}, {"unheld", was.HeldBy != "" &&
		now.HeldBy == ""},
		{"begun", was.StartedAt == 0 && now.StartedAt != 0}, {"result", string(was.Result) != string(now.Result)},
		{"closed", was.OpenEffect != "" && now.OpenEffect == ""}, {"opened", was.OpenEffect == "" &&
			now.OpenEffect != ""}} {
		if f.set {
			b.WriteString(" " + f.mark)
		}
	}
	return b.String() + rows(c)
}

// rows writes what else the change stores.
func rows(c Change) (s string) {
	if a := c.Attempt; a != nil {
		s += " attempt=" + string(a.Outcome)
		if a.Through != a.Generation {
			s += fmt.Sprintf("..%d", a.Through)
		}
	}
	if e := c.Effect; e != nil {
		s += fmt.Sprintf(" effect=%s:%s", e.Name, e.State)
	}
	if e := c.Event; e != nil {
		s += fmt.Sprintf(" %q", e.What)
	}
	return s
}

// expected is the table of testdata/moves.txt: move → situation pattern → answer.
type expected map[string]map[string]string

func readExpected(t *testing.T) expected {
	t.Helper()
	text, err := os.ReadFile("testdata/moves.txt")
	if err != nil {
		t.Fatal(err)
	}
	table, move := expected{}, ""
	for n, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			if move = strings.TrimSpace(line); table[move] != nil {
				t.Fatalf("line %d: move %q stands twice", n+1, move)
			}
			table[move] = map[string]string{}
		default:
			pattern, answer, ok := strings.Cut(strings.TrimSpace(line), "→")
			pattern = strings.TrimSpace(pattern)
			if !ok || table[move] == nil || table[move][pattern] != "" {
				t.Fatalf("line %d: wants a new `situation → answer` under a move, got %q", n+1, line)
			}
			table[move][pattern] = strings.TrimSpace(answer)
		}
	}
	return table
}

// find is the most telling pattern that the situation matches: its own name,
// else the longest `words *`.
func find(patterns map[string]string, name string) (pattern string) {
	if _, ok := patterns[name]; ok {
		return name
	}
	for p := range patterns {
		prefix, wild := strings.CutSuffix(p, "*")
		prefix = strings.TrimSuffix(prefix, " ")
		matches := prefix == "" || name == prefix || strings.HasPrefix(name, prefix+" ")
		if wild && matches && len(p) > len(pattern) {
			pattern = p
		}
	}
	return pattern
}

// TestMoves tries every move, in every way to call it, in every situation, and
// compares with the answers written out in testdata/moves.txt.
func TestMoves(t *testing.T) {
	table := readExpected(t)
	used := map[string]bool{}
	for _, m := range triedMoves() {
		patterns, ok := table[m.name]
		if !ok {
			t.Errorf("move %q has no answers in the table", m.name)
			continue
		}
		for _, s := range situations() {
			pattern := find(patterns, s.name)
			used[m.name+"\x00"+pattern] = true
			c, err := m.try(s.job)
			if got, want := answer(c, err), patterns[pattern]; got != want {
				t.Errorf("%s, %s: got %q, want %q", m.name, s.name, got, want)
			}
		}
	}
	for move, patterns := range table {
		for p := range patterns {
			if !used[move+"\x00"+p] {
				t.Errorf("%s: no situation uses the line of %q", move, p)
			}
		}
	}
}

// TestMovesAreSound holds every change of every situation to what must be true
// of all: counts balance, evidence is kept, nobody stays owner by accident.
func TestMovesAreSound(t *testing.T) {
	arrows := map[Transition]bool{}
	for _, m := range triedMoves() {
		for _, s := range situations() {
			c, err := m.try(s.job)
			if err != nil {
				checkRefusal(t, m.name+", "+s.name, err)
				continue
			}
			if c.Move == "" {
				continue // a start moves nothing
			}
			arrows[Transition{Move: c.Move, From: c.Was.State, To: c.Now.State}] = true
			checkChange(t, m.name+", "+s.name, c)
		}
	}
	for _, a := range Transitions {
		made := a.Move == MoveEnqueue || a.Move == MoveImport // they start from no job
		if a.By = ""; !made && !arrows[a] {
			t.Errorf("no situation makes the arrow %s from %s to %s", a.Move, a.From, a.To)
		}
	}
}

func checkRefusal(t *testing.T, where string, err error) {
	t.Helper()
	if errors.Is(err, ErrRefused) && err == error(ErrRefused) {
		return // prune answers no sentence
	}
	text := err.Error()
	named := strings.Contains(text, testJob.String()) || strings.Contains(text, testSession.String())
	if !named || strings.Contains(text, "\n") || len(text) > 250 {
		t.Errorf("%s: wants one line that names the job or session, got %q", where, text)
	}
}

func checkChange(t *testing.T, where string, c Change) {
	t.Helper()
	was, now := c.Was, c.Now
	d := c.Delta()
	stood := Counts{Accepted: 1}
	*stood.stand(was.State)++
	if stood.Add(d); !stood.Balanced() {
		t.Errorf("%s: counts don't balance after delta %+v", where, d)
	}
	for i, n := range stood.Fields()[:7] {
		want := int64(0)
		if State(CountNames[i]) == now.State || CountNames[i] == "moved_out" && now.State == Moved {
			want = 1
		}
		if c.Move != MovePrune && *n != want {
			t.Errorf("%s: %d jobs stand as %s after it, want %d", where, *n, CountNames[i], want)
		}
	}
	if was.State == Running && now.State != Running {
		checkEndedAttempt(t, where, c)
	} else if c.Attempt != nil {
		t.Errorf("%s: ended an attempt though nothing ran", where)
	}
	if c.Event != nil && (c.Event.At != testNow || c.Event.What == "") {
		t.Errorf("%s: event %+v has no time or name", where, c.Event)
	}
	if c.Move != MovePrune && now.State.Final() != (now.EndedAt != 0 && now.State != SetAside) {
		t.Errorf("%s: a %s job with ended_at %q", where, now.State, now.EndedAt)
	}
}

func checkEndedAttempt(t *testing.T, where string, c Change) {
	t.Helper()
	was, now, a := c.Was, c.Now, c.Attempt
	if a == nil {
		t.Errorf("%s: ended no attempt", where)
		return
	}
	got := Attempt{Generation: a.Generation, Through: a.Through, Session: a.Session, Worker: a.Worker,
		ClaimedAt: a.ClaimedAt, StartedAt: a.StartedAt, EndedAt: a.EndedAt}
	want := Attempt{Generation: was.Generation, Through: now.Generation, Session: was.Session,
		Worker:    was.Worker,
		ClaimedAt: was.ClaimedAt, StartedAt: was.StartedAt, EndedAt: testNow}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: attempt %+v, want %+v", where, got, want)
	}
	left := []any{now.Session, now.Worker, now.LeaseUntil, now.StartedAt, now.CancelRequestedAt, now.GrantedAt}
	if none := []any{ID{}, "", Time(0), Time(0), Time(0), int64(0)}; fmt.Sprint(left) != fmt.Sprint(none) {
		t.Errorf("%s: the row still names its owner: %v", where, left)
	}
}
