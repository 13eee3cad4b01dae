package daybook

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLedger tries every line of testdata/ledger.txt: what the ledger answers to
// a begin or a finish in each situation of an effect, and what it writes.
func TestLedger(t *testing.T) {
	text, err := os.ReadFile("testdata/ledger.txt")
	if err != nil {
		t.Fatal(err)
	}
	var asked words
	seen := map[string]bool{}
	for n, line := range strings.Split(string(text), "\n") {
		situation, want, found := strings.Cut(line, "→")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		case !strings.HasPrefix(line, " "):
			asked = words{t: t, line: n + 1, all: strings.Fields(line)}
			continue
		}
		if key := fmt.Sprint(asked.all, strings.Fields(situation)); !found || seen[key] {
			t.Fatalf("line %d: wants a new `situation → answer`, got %q", n+1, line)
		} else {
			seen[key] = true
		}
		w := words{t: t, line: n + 1, all: strings.Fields(situation)}
		if got, want := w.ask(asked), strings.TrimSpace(want); got != want {
			t.Errorf("line %d: %s, %s:\n got %s\nwant %s", n+1, strings.Join(asked.all, " "),
				strings.TrimSpace(situation), got, want)
		}
	}
}

// words are one line of the table: bare words, and name=value.
type words struct {
	t    *testing.T
	line int
	all  []string
}

func (w words) has(word string) bool { return slices.Contains(w.all, word) }

func (w words) text(name, otherwise string) string {
	for _, word := range w.all {
		if value, found := strings.CutPrefix(word, name+"="); found {
			return value
		}
	}
	return otherwise
}

func (w words) number(name string, otherwise int64) int64 {
	w.t.Helper()
	n, err := strconv.ParseInt(w.text(name, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		w.t.Fatalf("line %d: %s: %v", w.line, name, err)
	}
	return n
}

func (w words) duration(name string) time.Duration { return w.parse(w.text(name, "0s")) }

func (w words) parse(text string) time.Duration {
	w.t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatalf("line %d: %v", w.line, err)
	}
	return d
}

// at reads an instant as its distance from now; none is no time.
func (w words) at(name string) Time {
	if w.text(name, "") == "" {
		return 0
	}
	return testNow.Add(w.duration(name))
}

// ids of begins, by their number in the table.
func callNumber(n int64) ID { return ID{6: 0x70, 8: 0x80, 14: 1, 15: byte(n)} }

// job is the running job whose owner asks.
func (w words) job() Job {
	return with(runningJob(), ledger, func(j *Job) {
		j.Effects = int(w.number("effects", 1))
		if lease := w.at("lease"); lease != 0 {
			j.LeaseUntil = lease
		}
		if w.has("cancel-asked") {
			asked(j)
		}
		if w.has("open") {
			j.OpenEffect = "charge"
		}
	})
}

// effect is the row that the ledger has; none has no name.
func (w words) effect() Effect {
	w.t.Helper()
	if w.has("new") {
		return Effect{}
	}
	by := w.number("by", 2)
	e := Effect{Job: testJob, Name: "charge", Generation: by, Round: int(w.number("round", 0)),
		BegunAt: testNow.Add(-10 * time.Minute), CallUntil: w.at("until"), SafeUntil: w.at("safe"),
		Quiet: w.duration("quiet"), Fingerprint: w.text("input", ""), Used: w.number("used", by),
		Call: callNumber(w.number("call", 1)), Probed: w.number("probed", 0), Unsure: w.number("unsure", 0),
		Doubled: w.has("doubled"), Result: json.RawMessage(w.text("result", ""))}
	if at := w.at("begun"); at != 0 {
		e.BegunAt = at
	}
	e.Key = EffectKey(testJob, e.Name, e.Round)
	for _, p := range []Policy{PolicyRepeatable, PolicyKeyed, PolicyChecked, PolicyAsk} {
		if w.has(string(p)) {
			e.Policy = p
		}
	}
	for _, s := range []EffectState{EffectIsOpen, EffectDone, EffectAbsent} {
		if w.has(string(s)) {
			e.State = s
		}
	}
	if e.Policy == "" || e.State == "" {
		w.t.Fatalf("line %d: an effect has a policy and a state", w.line)
	}
	w.calls(&e)
	return e
}

// calls reads called=GENERATION@SINCE/ROUND,… and late=GENERATION:OUTCOME@SINCE,…
func (w words) calls(e *Effect) {
	for _, text := range list(w.text("called", fmt.Sprintf("%d@-10m/%d", e.Generation, e.Round))) {
		generation, rest, _ := strings.Cut(text, "@")
		since, round, _ := strings.Cut(rest, "/")
		one := words{t: w.t, line: w.line, all: []string{"g=" + generation, "r=" + round}}
		e.Calls = append(e.Calls, EffectCall{Generation: one.number("g", 0), Round: int(one.number("r", 0)),
			At: testNow.Add(w.parse(since))})
	}
	for _, text := range list(w.text("late", "")) {
		generation, rest, _ := strings.Cut(text, ":")
		outcome, since, _ := strings.Cut(rest, "@")
		one := words{t: w.t, line: w.line, all: []string{"g=" + generation}}
		e.Late = append(e.Late, Late{Generation: one.number("g", 0), Outcome: EffectOutcome(outcome),
			At: testNow.Add(w.parse(since))})
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ask puts the question to the ledger, and writes down the answer.
func (w words) ask(asked words) string {
	w.t.Helper()
	j, e := w.job(), w.effect()
	o := testOwner
	o.Generation = asked.number("owner", o.Generation)
	var answers []string
	switch asked.all[0] {
	case "begin":
		b := Begin{Name: asked.text("name", "charge"), Policy: Policy(asked.all[1]), Window: asked.duration("window"),
			Quiet: asked.duration("quiet"), Limit: asked.duration("limit"), Fingerprint: asked.text("input", ""),
			NextKey: asked.has("next-key"), Call: callNumber(asked.number("call", 9))}
		if err := b.check(); err != nil {
			return string(CodeOf(err)) + " " + err.(*Error).Field
		}
		begun, write, err := j.BeginEffect(o, e, b, testNow)
		if err != nil {
			return string(CodeOf(err))
		}
		answers = append(answers, w.begun(begun, e, write), written(e, write))
	case "finish":
		f := EffectEnd{Name: asked.text("name", "charge"), Outcome: EffectOutcome(asked.all[1]),
			Result: json.RawMessage(asked.text("result", ""))}
		if err := f.check(); err != nil {
			return string(CodeOf(err)) + " " + err.(*Error).Field
		}
		write, err := j.FinishEffect(o, e, f, testNow)
		if err != nil {
			return string(CodeOf(err))
		}
		answers = append(answers, written(e, write))
	case "late":
		e.Late = append(e.Late, Late{Generation: asked.number("by", 2), Outcome: EffectOutcome(asked.all[1]), At: testNow})
		answers = append(answers, written(e, e.Evidence(e.Late[len(e.Late)-1], testNow)))
	default:
		w.t.Fatalf("line %d: asks for %q", w.line, asked.all[0])
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.Join(answers, ""), ":"))
}

// begun is what the owner is told.
func (w words) begun(b Begun, e Effect, write EffectWrite) string {
	out := string(b.Decision)
	round := e.Round
	if write.Effect.Name != "" {
		round = write.Effect.Round
	}
	if b.Key != EffectKey(testJob, "charge", round) {
		w.t.Errorf("line %d: the key is %s, not that of round %d", w.line, b.Key, round)
	}
	if b.CallUntil != 0 {
		out += " until " + ahead(b.CallUntil)
	}
	if b.WaitUntil != 0 {
		out += " until " + ahead(b.WaitUntil)
	}
	if len(b.Result) > 0 {
		out += " with " + string(b.Result)
	}
	return out
}

func ahead(at Time) string {
	if d := at.Sub(testNow); d < 0 {
		return d.String()
	}
	return "+" + at.Sub(testNow).String()
}

// written is what the ledger writes: what changed in the row, the event, and the
// job's own move.
func written(was Effect, w EffectWrite) (out string) {
	now := w.Effect
	show := func(name string, was, now any) {
		if was != now && now != any("") && now != any(int64(0)) {
			out += fmt.Sprintf(" %s=%v", name, now)
		} else if was != now {
			out += " no-" + name
		}
	}
	if now.Name != "" {
		show("state", was.State, now.State)
		show("by", was.Generation, now.Generation)
		show("policy", was.Policy, now.Policy)
		show("round", was.Round, now.Round)
		show("used", was.Used, now.Used)
		show("probed", was.Probed, now.Probed)
		show("unsure", was.Unsure, now.Unsure)
		show("until", instant(was.CallUntil), instant(now.CallUntil))
		show("safe", instant(was.SafeUntil), instant(now.SafeUntil))
		show("ended", instant(was.EndedAt), instant(now.EndedAt))
		show("quiet", was.Quiet, now.Quiet)
		show("input", was.Fingerprint, now.Fingerprint)
		show("result", string(was.Result), string(now.Result))
		if was.Doubled != now.Doubled {
			out += " doubled"
		}
	}
	if out != "" {
		out = ":" + out
	}
	if w.Event != nil {
		out += fmt.Sprintf(" %q", w.Event.What)
	}
	if w.Change != nil {
		out += " job " + answer(*w.Change, nil)
	}
	if out == "" {
		return " (nothing)"
	}
	return out
}

func instant(at Time) string {
	if at == 0 {
		return ""
	}
	return ahead(at)
}

// TestEffectKeys: a key is stable, and another for each job, name and round.
func TestEffectKeys(t *testing.T) {
	seen := map[string]string{}
	for _, job := range []ID{testJob, testSession} {
		for _, name := range []string{"a", "a1", "b", strings.Repeat("x", NameMax)} {
			for round := range 12 {
				key := EffectKey(job, name, round)
				what := fmt.Sprint(job, name, round)
				if len(key) != 32 || seen[key] != "" || key != EffectKey(job, name, round) {
					t.Errorf("%s: key %s, which %s has", what, key, seen[key])
				}
				seen[key] = what
			}
		}
	}
	// As written in other languages: sha256 of id, name, a zero byte and the
	// round in digits, the first sixteen bytes in hex.
	if got := EffectKey(testJob, "charge", 0); got != knownKey {
		t.Errorf("the key of charge is %s, was %s", got, knownKey)
	}
}

const knownKey = "c0c7e441d32daf934b606d215ab7df3b"
