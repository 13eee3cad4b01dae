package daybook

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

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
			c, err := m.safely(s.job)
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
			c, err := m.safely(s.job)
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
