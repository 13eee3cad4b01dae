package daybook

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLedgerLives leads one effect of a job through random begins, ends, losses,
// revivals and verdicts of owners old and new, and holds every life to what is
// true of all: what is done stays; nobody is told to call what may still happen
// unless the policy bears it; a new key only when nothing is behind the old one.
func TestLedgerLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &ledgerLife{T: rt, now: testNow, job: with(waitingJob(), fresh, func(j *Job) { j.MaxFailures = 1000 })}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {}, "claim": l.claim, "begin": l.begin, "begin'": l.begin, "begin''": l.begin,
			"finish": l.finish, "finish'": l.finish, "late": l.late, "lose": l.lose, "fail": l.fail, "settle": l.settle,
			"pass": l.pass})
	})
}

// ledgerLife is a job with one effect, and what its destination may have seen.
type ledgerLife struct {
	*rapid.T
	now    Time
	job    Job
	effect Effect
	calls  []outsideCall // every leave to call
}

// outsideCall is one leave to call, and whether anybody knows that nothing is
// behind it.
type outsideCall struct {
	generation int64
	key        string
	policy     Policy
	at         Time
	until      Time
	over       bool // known not to have happened, or to be the one that is done
}

func (l *ledgerLife) pass(t *rapid.T) {
	seconds := rapid.SampledFrom([]int{1, 5, 20, 60, 600}).Draw(t, "seconds")
	l.now = l.now.Add(time.Duration(seconds) * time.Second)
}

func (l *ledgerLife) claim(t *rapid.T) {
	if c, err := l.job.Claim(Grant{Session: testLive}, max(l.now, l.job.RunAt)); err == nil {
		l.apply(c)
	}
}

func (l *ledgerLife) owner(t *rapid.T) Owner {
	o := Owner{testSession, l.job.Generation}
	if rapid.IntRange(0, 9).Draw(t, "old") == 0 {
		o.Generation--
	}
	return o
}

func (l *ledgerLife) apply(c Change) {
	if c.Now.Generation < l.job.Generation {
		l.Fatalf("%s lowered the generation", c.Move)
	}
	if c.Effect != nil && c.Effect.Name == l.effect.Name {
		l.effect = *c.Effect
	}
	l.job = c.Now
	l.job.LeaseUntil = l.now.Add(20 * time.Second)
}

// write does what a store does.
func (l *ledgerLife) write(w EffectWrite) {
	was := l.effect
	if e := w.Effect; e.Name != "" {
		if e.Generation < was.Generation || e.Round < was.Round {
			l.Fatalf("generation %d, round %d became %d, %d", was.Generation, was.Round, e.Generation, e.Round)
		}
		if strictness[e.Policy] < strictness[was.Policy] {
			l.Fatalf("policy %s became %s", was.Policy, e.Policy)
		}
		if e.Round == was.Round && was.SafeUntil != 0 && e.SafeUntil > was.SafeUntil {
			l.Fatalf("the window of one key grew from %s to %s", was.SafeUntil, e.SafeUntil)
		}
		e.Calls = was.Calls
		if w.Called {
			e.Calls = append(e.Calls[:len(e.Calls):len(e.Calls)], EffectCall{e.Generation, e.Round, l.now})
		}
		l.effect = e
	}
	if was.State == EffectDone && (l.effect.State != EffectDone || string(l.effect.Result) != string(was.Result)) {
		l.Fatalf("what was done became %s with %s", l.effect.State, l.effect.Result)
	}
	if w.Change != nil {
		l.apply(*w.Change)
	}
	l.job.OpenEffect = ""
	if l.effect.State == EffectIsOpen {
		l.job.OpenEffect = l.effect.Name
	}
	if l.job.State == Succeeded && l.job.OpenEffect != "" {
		l.Fatal("succeeded with an open effect")
	}
}

func (l *ledgerLife) begin(t *rapid.T) {
	b := Begin{Name: "charge", Policy: rapid.SampledFrom([]Policy{PolicyRepeatable, PolicyKeyed, PolicyKeyed, PolicyChecked,
		PolicyChecked, PolicyAsk}).Draw(t, "policy"), NextKey: rapid.Bool().Draw(t, "next key"),
		Call: callNumber(int64(rapid.IntRange(1, 3).Draw(t, "call")))}
	switch b.Policy {
	case PolicyKeyed:
		b.Window = time.Duration(rapid.SampledFrom([]int{5, 60, 3600}).Draw(t, "window")) * time.Second
	case PolicyChecked:
		b.Quiet = time.Duration(rapid.SampledFrom([]int{0, 30}).Draw(t, "quiet")) * time.Second
	}
	if rapid.Bool().Draw(t, "limited") {
		b.Limit = 5 * time.Second
	}
	if err := b.check(); err != nil {
		l.Fatal(err)
	}
	o, was := l.owner(t), l.effect
	begun, w, err := l.job.BeginEffect(o, was, b, l.now)
	if err != nil {
		return
	}
	if o.Generation != l.job.Generation || l.job.State != Running {
		l.Fatalf("generation %d began while the job was %s at %d", o.Generation, l.job.State, l.job.Generation)
	}
	if begun.Decision == DecisionCall {
		l.called(b, begun, w)
	}
	for _, c := range l.calls {
		if begun.Decision == DecisionProbe && l.now < c.until && !c.over {
			l.Fatalf("probes at %s while a call may be at it until %s", l.now, c.until)
		}
	}
	if begun.Decision == DecisionDone != (was.State == EffectDone) && begun.Decision != DecisionAsk {
		l.Fatalf("answers %s where the effect is %s", begun.Decision, was.State)
	}
	l.write(w)
}

// called holds a leave to call to what else may have been called.
func (l *ledgerLife) called(b Begin, begun Begun, w EffectWrite) {
	if begun.CallUntil > max(l.job.LeaseUntil, l.now) {
		l.Fatalf("may call until %s, past the lease until %s", begun.CallUntil, l.job.LeaseUntil)
	}
	if !w.Called { // the repeat of a begin
		if last := l.calls[len(l.calls)-1]; last.generation != l.effect.Generation || last.key != begun.Key {
			l.Fatalf("a repeat got key %s, the begin of generation %d key %s", begun.Key, last.generation, last.key)
		}
		return
	}
	if begun.CallUntil <= l.now {
		l.Fatalf("may call until %s, which is over at %s", begun.CallUntil, l.now)
	}
	for _, c := range l.calls {
		if c.over {
			continue
		}
		oneKey := b.Policy == PolicyKeyed && c.key == begun.Key && begun.CallUntil <= c.at.Add(b.Window)
		if b.Policy != PolicyRepeatable && !oneKey {
			l.Fatalf("told to call as %s while nobody knows what the call of generation %d came to", b.Policy, c.generation)
		}
	}
	l.calls = append(l.calls, outsideCall{generation: w.Effect.Generation, key: begun.Key, policy: b.Policy, at: l.now,
		until: begun.CallUntil})
}

func (l *ledgerLife) finish(t *rapid.T) {
	f := EffectEnd{Name: "charge", Outcome: rapid.SampledFrom([]EffectOutcome{OutcomeDone, OutcomeAbsent, OutcomeAbsent,
		OutcomeUnknown}).Draw(t, "outcome")}
	if f.Outcome == OutcomeDone {
		f.Result = []byte(fmt.Sprint(len(l.calls)))
	}
	o, was := l.owner(t), l.effect
	w, err := l.job.FinishEffect(o, was, f, l.now)
	if err != nil {
		return
	}
	probe := was.Probed == o.Generation
	for i := range l.calls {
		own := l.calls[i].generation == o.Generation
		l.calls[i].over = l.calls[i].over || probe && f.Outcome != OutcomeUnknown || own && f.Outcome == OutcomeAbsent
	}
	l.write(w)
	l.doubled()
	if l.effect.State == EffectAbsent {
		for _, c := range l.calls {
			if !c.over {
				l.Fatalf("absent, and nobody knows what the call of generation %d came to", c.generation)
			}
		}
	}
}

// late is what a fenced owner of some call says.
func (l *ledgerLife) late(t *rapid.T) {
	if len(l.calls) == 0 {
		t.Skip("no call")
	}
	c := rapid.SampledFrom(l.calls).Draw(t, "call")
	if c.generation == l.job.Generation && l.job.State == Running {
		t.Skip("its owner still owns")
	}
	late := Late{Generation: c.generation, At: l.now, Outcome: rapid.SampledFrom([]EffectOutcome{OutcomeDone,
		OutcomeAbsent}).Draw(t, "outcome")}
	l.effect.Late = append(l.effect.Late, late)
	l.write(l.effect.Evidence(late, l.now))
	l.doubled()
}

// doubled holds the mark to who says that its call happened.
func (l *ledgerLife) doubled() {
	happened := map[int64]string{}
	for _, c := range l.calls {
		for _, late := range l.effect.Late {
			if late.Generation == c.generation && late.Outcome == OutcomeDone {
				happened[c.generation] = c.key
			}
		}
		if l.effect.State == EffectDone && l.effect.Generation == c.generation {
			happened[c.generation] = c.key
		}
	}
	keys := map[string]bool{}
	for _, k := range happened {
		keys[k] = true
	}
	if l.effect.Doubled && len(happened) < 2 {
		l.Fatalf("doubled, and only %v say that it happened", happened)
	}
	if !l.effect.Doubled && len(keys) > 1 && l.effect.Policy != PolicyRepeatable {
		l.Fatalf("not doubled, though %v happened under keys of their own", happened)
	}
}

func (l *ledgerLife) lose(t *rapid.T) {
	c, err := l.job.Lose(Loss{Cause: LossTimeout, Owner: Owner{testSession, l.job.Generation}}, l.now)
	if err == nil {
		l.apply(c)
	}
}

func (l *ledgerLife) fail(t *rapid.T) {
	move := func() (Change, error) { return l.job.Fail(Owner{testSession, l.job.Generation}, Failure{}, l.now) }
	switch rapid.IntRange(0, 3).Draw(t, "otherwise") {
	case 0:
		move = func() (Change, error) { return l.job.Release(Owner{testSession, l.job.Generation}, 0, l.now) }
	case 1:
		move = func() (Change, error) { return l.job.Complete(Owner{testSession, l.job.Generation}, nil, l.now) }
	case 2:
		move = func() (Change, error) { return l.job.Revive(testBy, l.now) }
	}
	if c, err := move(); err == nil {
		l.apply(c)
		l.write(EffectWrite{})
	}
}

func (l *ledgerLife) settle(t *rapid.T) {
	v := Verdict{Happened: rapid.Bool().Draw(t, "happened")}
	if l.effect.Name == "" {
		t.Skip("no effect")
	}
	c, err := l.job.Settle(l.effect, v, testBy, l.now)
	if err != nil {
		return
	}
	for i := range l.calls {
		l.calls[i].over = true
	}
	l.apply(c)
	l.write(EffectWrite{})
	l.doubled()
}
