package daybook

import (
	"strings"
	"testing"
	"time"
)

// TestWhyOf: for every job one answer, the first thing that stands in its way.
func TestWhyOf(t *testing.T) {
	worker := with2(testLive, func(s *Session) { s.Queues = []string{"reports", "mail"} })
	other := with2(testLive, func(s *Session) { s.Queues = []string{"reports"} })
	picky := with2(worker, func(s *Session) { s.Kinds = []string{"welcome"} })
	mute := with2(testLive, func(s *Session) { s.Queues = nil })
	muteOther := with2(mute, func(s *Session) { s.Kinds = []string{"other"} })
	quiet := with2(testLive, func(s *Session) { s.Quiet = true })
	paused := Queue{Name: "mail", Paused: true, PausedAt: testNow.Add(-time.Hour), PausedBy: "ada"}
	for _, tt := range []struct {
		name     string
		job      Job
		queue    Queue
		sessions []Session
		because  string
		since    Time
	}{
		{"held comes first", with(waitingJob(), held, expires(0), due(time.Hour)), paused, nil, "held", 0},
		{"expired, not swept yet", with(waitingJob(), expires(0), due(time.Hour)), paused, nil, "expired", testNow},
		{"later", with(waitingJob(), due(time.Hour)), paused, nil, "later", 0},
		{"paused", waitingJob(), paused, nil, "paused", testNow.Add(-time.Hour)},
		{"no worker at all", waitingJob(), Queue{}, nil, "no_worker", testNow.Add(-time.Minute)},
		{"no worker of this queue", waitingJob(), Queue{}, []Session{other}, "no_worker",
			testNow.Add(-time.Minute)},
		{"only quiet workers", waitingJob(), Queue{}, []Session{quiet}, "no_worker", testNow.Add(-time.Minute)},
		{"only ended workers", waitingJob(), Queue{}, []Session{worker.End(testNow)}, "no_worker",
			testNow.Add(-time.Minute)},
		{"a worker that doesn't say", waitingJob(), Queue{}, []Session{other, mute}, "unsaid", testNow.Add(-time.Minute)},
		{"one that doesn't say, of another kind", waitingJob(), Queue{}, []Session{muteOther}, "no_worker",
			testNow.Add(-time.Minute)},
		{"ready", waitingJob(), Queue{}, []Session{other, worker}, "ready", testNow.Add(-time.Minute)},
		{"ready for one kind", waitingJob(), Queue{}, []Session{picky}, "ready", testNow.Add(-time.Minute)},
		{"running", runningJob(), Queue{}, nil, "running", testNow.Add(-10 * time.Minute)},
		{"lapsed", with(runningJob(), func(j *Job) { j.LeaseUntil = testNow }), Queue{}, nil, "lapsed", testNow},
		{"set aside", endedJob(SetAside, ReasonCrashes), Queue{}, nil, "crashes", testNow.Add(-time.Hour)},
		{"succeeded", endedJob(Succeeded, ""), Queue{}, nil, "succeeded", testNow.Add(-time.Hour)},
	} {
		w := WhyOf(tt.job, tt.queue, tt.sessions, nil, testNow)
		if w.Because != tt.because || w.Since != tt.since || w.Job != testJob || w.State != tt.job.State {
			t.Errorf("%s: got %s since %s, want %s since %s", tt.name, w.Because, w.Since, tt.because, tt.since)
		}
		if w.Sentence == "" || strings.Contains(w.Sentence, "\n") || strings.Contains(w.Sentence, "%!") {
			t.Errorf("%s: the sentence is %q", tt.name, w.Sentence)
		}
		if !strings.HasPrefix(w.Sentence, w.Fact) || strings.Contains(w.Fact, "daybook job") {
			t.Errorf("%s: the fact is %q of %q", tt.name, w.Fact, w.Sentence)
		}
		if (w.Safe != nil) != (tt.job.State == SetAside) {
			t.Errorf("%s: says of retrying %+v", tt.name, w.Safe)
		}
	}
}

// What the sentences must tell, and must not.
func TestWhySentences(t *testing.T) {
	failed := func(n int) func(*Job) { return func(j *Job) { j.Failures = n } }
	lapsed := with(runningJob(), func(j *Job) { j.LeaseUntil = testNow.Add(-time.Minute) })
	paused := Queue{Name: "mail", Paused: true, PausedAt: testNow, PausedBy: "ada", PausedReason: "Zürich is\ndown"}
	for _, tt := range []struct {
		job       Job
		queue     Queue
		want, not string
	}{
		{lapsed, Queue{}, "ran out at " + lapsed.LeaseUntil.String() + "; the reconciler will take", "runs until"},
		{runningJob(), Queue{}, "its lease runs until", "ran out"},
		{with(waitingJob(), due(time.Hour)), Queue{}, "due at", "failed"},
		{with(waitingJob(), due(time.Hour), failed(1)), Queue{}, "after 1 failed attempt", "attempts"},
		{with(waitingJob(), due(time.Hour), failed(2)), Queue{}, "after 2 failed attempts", "%"},
		{waitingJob(), paused, `by "ada", reason "Zürich is\ndown"`, "\n"},
		{waitingJob(), Queue{Paused: true, PausedBy: "ada"}, `by "ada"`, "reason"},
		{endedJob(Cancelled, ""), Queue{}, "daybook job revive brings it back", "%"},
		{endedJob(Expired, ""), Queue{}, "daybook job revive brings it back", "%"},
		{endedJob(Succeeded, ""), Queue{}, "succeeded since", "revive"},
		{endedJob(SetAside, ReasonCrashes), Queue{}, "; a person decides: daybook job revive or cancel", "%"},
	} {
		got := WhyOf(tt.job, tt.queue, nil, nil, testNow).Sentence
		if !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("got %q, want %q in it and not %q", got, tt.want, tt.not)
		}
	}
}

func TestSafeToRetry(t *testing.T) {
	effect := func(name string, p Policy, s EffectState) Effect {
		return Effect{Name: name, Policy: p,
			State: s}
	}
	for _, tt := range []struct {
		name    string
		effects []Effect
		yes     bool
		open    string
	}{
		{"no ledger", nil, true, ""},
		{"all done or absent", []Effect{effect("a", PolicyKeyed, EffectDone), effect("b", PolicyAsk, EffectAbsent)},
			true, ""},
		{"repeatable", []Effect{effect("a", PolicyRepeatable, EffectIsOpen)}, true, ""},
		{"one open", []Effect{effect("a", PolicyKeyed, EffectDone), effect("b", PolicyAsk, EffectIsOpen)}, false,
			"b"},
		{"two open", []Effect{effect("a", PolicyChecked, EffectIsOpen), effect("b", PolicyAsk, EffectIsOpen)},
			false, "a b"},
		{"handler open", []Effect{effect("handler", PolicyAsk, EffectIsOpen)}, false, "handler"},
		{"handler absent", []Effect{effect("handler", PolicyAsk, EffectAbsent)}, true, ""},
		{"handler happened", []Effect{effect("handler", PolicyAsk, EffectDone)}, false, ""},
	} {
		got := SafeToRetry(endedJob(SetAside, ReasonLost), tt.effects, testNow)
		if got.Yes != tt.yes || strings.Join(got.Open, " ") != tt.open || got.Grounds == "" {
			t.Errorf("%s: got %+v, want %v, open %q", tt.name, got, tt.yes, tt.open)
		}
	}
}

// TestTimelineOf: everything that happened, in time order, with who and why.
func TestTimelineOf(t *testing.T) {
	at := func(minute int) Time { return testNow.Add(time.Duration(minute) * time.Minute) }
	j := with(runningJob(), started, func(j *Job) {
		j.EnqueuedAt, j.ClaimedAt, j.StartedAt, j.Generation = at(0), at(50), at(51), 9
	})
	h := History{
		Key: &KeyRecord{Key: "k", Replays: 3, LastReplayAt: at(1)},
		Attempts: []Attempt{
			{Generation: 1, Session: testSession, Worker: "w1", ClaimedAt: at(2), StartedAt: at(3), EndedAt: at(4),
				Outcome: OutcomeFailed, Error: testProblem},
			{Generation: 7, First: 2, Count: 6, Session: testSession, ClaimedAt: at(5), EndedAt: at(10),
				Outcome: OutcomeReleased},
			{Generation: 8, Session: testSession, Worker: "w1", ClaimedAt: at(20), EndedAt: at(31),
				Outcome: OutcomeLost, Why: "session ended"},
		},
		Refusals: []Refusal{{At: at(40), Generation: 8, Session: testSession, Operation: "complete",
			Said: `{"ok":1}`}},
		Events: []Event{{At: at(45), What: "revived", Actor: "ada", Reason: "fixed"}},
		Effects: []Effect{
			{Name: "charge", Policy: PolicyAsk, State: EffectDone, Generation: 8, Key: "x", BegunAt: at(21),
				EndedAt: at(22)},
			{Name: "handler", Policy: PolicyAsk, State: EffectDone, Generation: 8, Key: "y", BegunAt: at(23),
				EndedAt: at(44), SettledBy: "ada"},
		},
	}
	want := []string{"0 accepted", "1 replayed", "2 claimed", "3 started", "4 failed", "10 released",
		"20 claimed", "23 effect begun", "31 lost", "40 fenced", "45 revived", "50 claimed", "51 started"}
	var got []string
	details := map[string]string{}
	for _, e := range TimelineOf(j, h) {
		line := strings.TrimSuffix(e.At.Sub(testNow).String(), "m0s")
		if line == "0s" {
			line = "0"
		}
		got = append(got, line+" "+e.What)
		details[line+" "+e.What] = e.Detail
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for line, want := range map[string]string{
		"0 accepted": "queue mail, kind welcome", "1 replayed": "3 more times", "4 failed": "boom",
		"10 released": "6 attempts in a row, generations 2 to 7",
		"31 lost":     "session ended", "40 fenced": `complete refused: not the owner any more. {"ok":1}`,
		"50 claimed": "by worker w1",
	} {
		if !strings.Contains(details[line], want) {
			t.Errorf("%s says %q, want %q in it", line, details[line], want)
		}
	}
	moved := TimelineOf(with(waitingJob(), origin), History{})
	if len(moved) != 1 || moved[0].What != "moved in" ||
		!strings.Contains(moved[0].Detail, "from sidekiq id 1") {
		t.Errorf("a moved job begins with %+v", moved)
	}
}

func TestBacklogOf(t *testing.T) {
	q := Queue{Name: "mail", Eligible: 2, Later: 3, Held: 4, Oldest: testNow.Add(-90 * time.Second),
		Counts: Counts{Accepted: 9, Waiting: 9},
		Kinds: []KindCounts{{Kind: "a", SetAside: map[Reason]int64{ReasonLost: 1, ReasonCrashes: 2}},
			{Kind: "b", SetAside: map[Reason]int64{ReasonLost: 5}}}}
	b := BacklogOf(q, testNow)
	if b.Oldest != 90 || b.Eligible != 2 || b.Later != 3 || b.Held != 4 || b.Accepted != 9 ||
		b.Reasons[ReasonLost] != 6 || b.Reasons[ReasonCrashes] != 2 {
		t.Errorf("got %+v", b)
	}
	q.Paused = true
	if got := BacklogOf(q, testNow).Oldest; got != 0 {
		t.Errorf("a paused queue's oldest eligible job is %g s old; pausing counts apart", got)
	}
}
