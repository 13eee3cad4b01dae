package daybook

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLedgerLives leads one effect of a job through random begins, ends, losses,
// revivals and verdicts of owners old and new, and holds every life to what is
// true of all: what is done stays; nobody is told to call what may still happen
// unless the policy bears it; a new key only when nothing is behind the old one.
func TestLedgerLives(t *testing.T) {
	for seed := range uint64(3000) {
		l := &ledgerLife{T: t, Rand: rand.New(rand.NewPCG(seed, 2)), seed: seed, now: testNow,
			job: with(waitingJob(), fresh, func(j *Job) { j.MaxFailures = 1000 })}
		steps := []func(){l.claim, l.begin, l.begin, l.begin, l.finish, l.finish, l.late, l.lose, l.fail, l.settle, l.pass}
		for range 50 {
			steps[l.IntN(len(steps))]()
		}
	}
}

// ledgerLife is a job with one effect, and what its destination may have seen.
type ledgerLife struct {
	*testing.T
	*rand.Rand
	seed   uint64
	now    Time
	job    Job
	effect Effect
	calls  []outsideCall // every leave to call
}

// broken ends the test, and says which life it was.
func (l *ledgerLife) broken(format string, args ...any) {
	l.Helper()
	l.Fatalf("seed %d: %s", l.seed, fmt.Sprintf(format, args...))
}

// drawn is one of a list.
func drawn[T any](l *ledgerLife, of ...T) T { return of[l.IntN(len(of))] }

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

func (l *ledgerLife) pass() {
	seconds := drawn(l, 1, 5, 20, 60, 600)
	l.now = l.now.Add(time.Duration(seconds) * time.Second)
}

func (l *ledgerLife) claim() {
	if c, err := l.job.Claim(Grant{Session: testLive}, max(l.now, l.job.RunAt)); err == nil {
		l.apply(c)
	}
}

func (l *ledgerLife) owner() Owner {
	o := Owner{testSession, l.job.Generation}
	if l.IntN(10) == 0 {
		o.Generation--
	}
	return o
}

func (l *ledgerLife) apply(c Change) {
	if c.Now.Generation < l.job.Generation {
		l.broken("%s lowered the generation", c.Move)
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
			l.broken("generation %d, round %d became %d, %d", was.Generation, was.Round, e.Generation, e.Round)
		}
		if strictness[e.Policy] < strictness[was.Policy] {
			l.broken("policy %s became %s", was.Policy, e.Policy)
		}
		if e.Round == was.Round && was.SafeUntil != 0 && e.SafeUntil > was.SafeUntil {
			l.broken("the window of one key grew from %s to %s", was.SafeUntil, e.SafeUntil)
		}
		e.Calls = was.Calls
		if w.Called {
			e.Calls = append(e.Calls[:len(e.Calls):len(e.Calls)], EffectCall{e.Generation, e.Round, l.now})
		}
		l.effect = e
	}
	if was.State == EffectDone && (l.effect.State != EffectDone || string(l.effect.Result) != string(was.Result)) {
		l.broken("what was done became %s with %s", l.effect.State, l.effect.Result)
	}
	if w.Change != nil {
		l.apply(*w.Change)
	}
	l.job.OpenEffect = ""
	if l.effect.State == EffectIsOpen {
		l.job.OpenEffect = l.effect.Name
	}
	if l.job.State == Succeeded && l.job.OpenEffect != "" {
		l.broken("succeeded with an open effect")
	}
}

func (l *ledgerLife) begin() {
	b := Begin{Name: "charge", Policy: drawn(l, PolicyRepeatable, PolicyKeyed, PolicyKeyed, PolicyChecked,
		PolicyChecked, PolicyAsk), NextKey: l.IntN(2) == 0,
		Call: callNumber(int64(1 + l.IntN(3)))}
	switch b.Policy {
	case PolicyKeyed:
		b.Window = time.Duration(drawn(l, 5, 60, 3600)) * time.Second
	case PolicyChecked:
		b.Quiet = time.Duration(drawn(l, 0, 30)) * time.Second
	}
	if l.IntN(2) == 0 {
		b.Limit = 5 * time.Second
	}
	if err := b.check(); err != nil {
		l.broken("%v", err)
	}
	o, was := l.owner(), l.effect
	begun, w, err := l.job.BeginEffect(o, was, b, l.now)
	if err != nil {
		return
	}
	if o.Generation != l.job.Generation || l.job.State != Running {
		l.broken("generation %d began while the job was %s at %d", o.Generation, l.job.State, l.job.Generation)
	}
	if begun.Decision == DecisionCall {
		l.called(b, begun, w)
	}
	for _, c := range l.calls {
		if begun.Decision == DecisionProbe && l.now < c.until && !c.over {
			l.broken("probes at %s while a call may be at it until %s", l.now, c.until)
		}
	}
	if begun.Decision == DecisionDone != (was.State == EffectDone) && begun.Decision != DecisionAsk {
		l.broken("answers %s where the effect is %s", begun.Decision, was.State)
	}
	l.write(w)
}

// called holds a leave to call to what else may have been called.
func (l *ledgerLife) called(b Begin, begun Begun, w EffectWrite) {
	if begun.CallUntil > max(l.job.LeaseUntil, l.now) {
		l.broken("may call until %s, past the lease until %s", begun.CallUntil, l.job.LeaseUntil)
	}
	if !w.Called { // the repeat of a begin
		if last := l.calls[len(l.calls)-1]; last.generation != l.effect.Generation || last.key != begun.Key {
			l.broken("a repeat got key %s, the begin of generation %d key %s", begun.Key, last.generation, last.key)
		}
		return
	}
	if begun.CallUntil <= l.now {
		l.broken("may call until %s, which is over at %s", begun.CallUntil, l.now)
	}
	for _, c := range l.calls {
		if c.over {
			continue
		}
		oneKey := b.Policy == PolicyKeyed && c.key == begun.Key && begun.CallUntil <= c.at.Add(b.Window)
		if b.Policy != PolicyRepeatable && !oneKey {
			l.broken("told to call as %s while nobody knows what the call of generation %d came to", b.Policy, c.generation)
		}
	}
	l.calls = append(l.calls, outsideCall{generation: w.Effect.Generation, key: begun.Key, policy: b.Policy, at: l.now,
		until: begun.CallUntil})
}

func (l *ledgerLife) finish() {
	f := EffectEnd{Name: "charge", Outcome: drawn(l, OutcomeDone, OutcomeAbsent, OutcomeAbsent,
		OutcomeUnknown)}
	if f.Outcome == OutcomeDone {
		f.Result = []byte(fmt.Sprint(len(l.calls)))
	}
	o, was := l.owner(), l.effect
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
				l.broken("absent, and nobody knows what the call of generation %d came to", c.generation)
			}
		}
	}
}

// late is what a fenced owner of some call says.
func (l *ledgerLife) late() {
	if len(l.calls) == 0 {
		return
	}
	c := drawn(l, l.calls...)
	if c.generation == l.job.Generation && l.job.State == Running {
		return
	}
	late := Late{Generation: c.generation, At: l.now, Outcome: drawn(l, OutcomeDone,
		OutcomeAbsent)}
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
		l.broken("doubled, and only %v say that it happened", happened)
	}
	if !l.effect.Doubled && len(keys) > 1 && l.effect.Policy != PolicyRepeatable {
		l.broken("not doubled, though %v happened under keys of their own", happened)
	}
}

func (l *ledgerLife) lose() {
	c, err := l.job.Lose(Loss{Cause: LossTimeout, Owner: Owner{testSession, l.job.Generation}}, l.now)
	if err == nil {
		l.apply(c)
	}
}

func (l *ledgerLife) fail() {
	move := func() (Change, error) { return l.job.Fail(Owner{testSession, l.job.Generation}, Failure{}, l.now) }
	switch l.IntN(4) {
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

func (l *ledgerLife) settle() {
	v := Verdict{Happened: l.IntN(2) == 0}
	if l.effect.Name == "" {
		return
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
