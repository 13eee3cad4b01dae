package daybook

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRevivalForgives: what a revival clears, and what it never does.
func TestRevivalForgives(t *testing.T) {
	was := with(endedJob(SetAside, ReasonFailures), failed(3), crashed(2), expires(-time.Hour), func(j *Job) {
		j.LastError, j.Progress, j.Key = testProblem, json.RawMessage(`{"at":9}`), "k"
		j.Origin = &Origin{System: "sidekiq"}
	})
	c, err := was.Revive(testBy, testNow)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Now
	want := with(was, func(j *Job) {
		j.State, j.Reason, j.RunAt, j.EndedAt = Waiting, "", testNow, 0
		j.Failures, j.Crashes, j.ExpiresAt, j.FirstClaimedAt, j.CancelRequestedAt = 0, 0, 0, 0, 0
	})
	if asJSON(t, got) != asJSON(t, want) || got.FirstClaimedAt != 0 {
		t.Errorf("got  %s\nwant %s", asJSON(t, got), asJSON(t, want))
	}
	event := *c.Event
	if want := (Event{At: testNow, What: "revived", Generation: 4, Actor: "ada", Reason: "looked into it",
		Detail: "was set_aside (failures)"}); event != want {
		t.Errorf("got event %+v, want %+v", event, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSnoozeClock: it starts at the first claim, outlives releases and
// failures, and starts anew after a revival.
func TestSnoozeClock(t *testing.T) {
	j := with(waitingJob(), fresh)
	at := testNow
	claim := func() {
		c, err := j.Claim(Grant{Session: testLive}, at)
		if err != nil {
			t.Fatal(err)
		}
		j = c.Now
	}
	release := func() Change {
		c, err := j.Release(Owner{testSession, j.Generation}, 24*time.Hour, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for day := range 30 {
		claim()
		if j.FirstClaimedAt != testNow {
			t.Fatalf("day %d: the snooze clock moved to %s", day, j.FirstClaimedAt)
		}
		j = release().Now
		if at = at.Add(24 * time.Hour); j.State != Waiting || j.RunAt != at {
			t.Fatalf("day %d: got %s at %s, want waiting at %s", day, j.State, j.RunAt, at)
		}
	}
	claim()
	c := release()
	if c.Now.State != SetAside || c.Now.Reason != ReasonGaveUp ||
		c.Attempt.Why != "snoozed since "+testNow.String() {
		t.Errorf("got %s %s because %q, want set_aside gave_up", c.Now.State, c.Now.Reason, c.Attempt.Why)
	}
	revived, err := c.Now.Revive(testBy, at)
	if err != nil {
		t.Fatal(err)
	}
	j = revived.Now
	claim()
	if got := release().Now; got.State != Waiting {
		t.Errorf("after a revival the first snooze gave %s %s, want waiting", got.State, got.Reason)
	}
}

func TestFold(t *testing.T) {
	at := func(minutes int) Time { return testNow.Add(time.Duration(minutes) * time.Minute) }
	release := func(g int64, minutes int) Attempt {
		return Attempt{Generation: g, Through: g, Session: testSession, Worker: "w1", Outcome: OutcomeReleased,
			ClaimedAt: at(minutes), EndedAt: at(minutes + 1)}
	}
	two, ok := release(6, 10).Fold(release(5, 0))
	if !ok || two.Count != 2 || two.First != 5 || two.Generation != 6 || two.Through != 6 ||
		two.Attempts() != 2 ||
		two.ClaimedAt != at(0) || two.EndedAt != at(11) {
		t.Errorf("two releases fold into %+v, %v", two, ok)
	}
	three, ok := release(7, 20).Fold(two)
	if !ok || three.Count != 3 || three.First != 5 || three.Generation != 7 || three.ClaimedAt != at(0) {
		t.Errorf("a release folds onto a folded row as %+v, %v", three, ok)
	}
	unlisted := release(6, 10)
	unlisted.Through = 7
	if got, ok := unlisted.Fold(release(5, 0)); !ok || got.Through != 7 {
		t.Errorf("a revoked release folds into %+v, %v, want it to account for generation 7", got, ok)
	}
	withError := release(5, 0)
	withError.Error = testProblem
	lost := release(5, 0)
	lost.Outcome = OutcomeLost
	for name, pair := range map[string][2]Attempt{
		"a loss under a release": {release(6, 10), lost},
		"a release under a loss": {lost, release(6, 10)},
		"an error below":         {release(6, 10), withError},
		"an error above":         {withError, release(4, 0)},
	} {
		if got, ok := pair[0].Fold(pair[1]); ok {
			t.Errorf("%s folds into %+v", name, got)
		}
	}
}

// TestL26Snoozes: ten thousand snoozes stay one folded row and the newest one,
// and every attempt is accounted for (riverqueue/river #972).
func TestL26Snoozes(t *testing.T) {
	j := with(waitingJob(), fresh)
	var history []Attempt
	const snoozes = 10_000
	for range snoozes {
		claimed, err := j.Claim(Grant{Session: testLive}, testNow)
		if err != nil {
			t.Fatal(err)
		}
		c, err := claimed.Now.Release(Owner{testSession, claimed.Now.Generation}, 0, testNow)
		if err != nil {
			t.Fatal(err)
		}
		j, history = c.Now, append(history, *c.Attempt)
		if n := len(history); n > 2 {
			if folded, ok := history[n-2].Fold(history[n-3]); ok {
				history = append(history[:n-3], folded, history[n-1])
			}
		}
	}
	if len(history) != 2 {
		t.Fatalf("got %d rows of history, want 2", len(history))
	}
	if got := history[0].Attempts() + history[1].Attempts(); got != snoozes {
		t.Errorf("the rows stand for %d attempts, want %d", got, snoozes)
	}
	if j.Generation != snoozes || j.Failures != 0 || j.Crashes != 0 {
		t.Errorf("got generation %d, %d failures, %d crashes; want %d and none", j.Generation, j.Failures,
			j.Crashes, snoozes)
	}
}

// TestRandomLives walks jobs through random moves and holds every life to what
// is true of all: the generation never falls and is what the history accounts
// for, each generation has one outcome, counts balance, and a job that ended
// moves on by a person alone.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(300) {
		liveOnce(t, seed)
	}
}

func liveOnce(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	n := NewJob{Job: with(waitingJob(), fresh)}
	if random.IntN(2) == 0 {
		n.Job.OnLost = LostSetAside
	}
	if random.IntN(3) == 0 {
		n.Job.ExpiresAt = testNow.Add(time.Duration(random.IntN(40)) * time.Hour)
	}
	j := n.Enqueue(testNow)
	counts := Change{Move: MoveEnqueue, Now: j}.Delta()
	accounted := int64(0)
	at := testNow
	for range 60 {
		at = at.Add(time.Duration(random.IntN(3)) * time.Hour)
		c, err := randomMove(j, random, at)
		if err != nil {
			continue
		}
		if c.Now.Generation < j.Generation {
			t.Fatalf("seed %d: %s lowered the generation", seed, c.Move)
		}
		if j.State.Final() && c.Move != MoveRevive && c.Move != MoveSettle {
			t.Fatalf("seed %d: %s moved a job that was %s", seed, c.Move, j.State)
		}
		if a := c.Attempt; a != nil {
			if a.Generation <= accounted {
				t.Fatalf("seed %d: generation %d ended twice", seed, a.Generation)
			}
			accounted = a.Through
		}
		j = c.Now
		if j.State != Running && j.Generation != accounted {
			t.Fatalf("seed %d: generation %d, history accounts for %d", seed, j.Generation, accounted)
		}
		if counts.Add(c.Delta()); !counts.Balanced() || *counts.stand(j.State) != 1 {
			t.Fatalf("seed %d: after %s the counts are %+v", seed, c.Move, counts)
		}
		if j.State == Waiting && (j.Failures >= j.MaxFailures || j.Crashes >= j.CrashLimit()) {
			t.Fatalf("seed %d: waits with %d failures and %d crashes", seed, j.Failures, j.Crashes)
		}
	}
}

func randomMove(j Job, random *rand.Rand, at Time) (Change, error) {
	o := Owner{testSession, j.Generation}
	switch random.IntN(14) {
	default:
		return j.Claim(Grant{Session: testLive, Incarnation: int64(random.IntN(2))}, at)
	case 0:
		return j.Complete(o, nil, at)
	case 1:
		return j.Fail(o, Failure{Permanent: random.IntN(5) == 0}, at)
	case 2:
		return j.Release(o, time.Duration(random.IntN(2))*time.Hour, at)
	case 3:
		return j.Lose(Loss{Cause: LossSession, Owner: o, Starts: random.IntN(2) == 0}, at)
	case 4:
		return j.Lose(Loss{Cause: LossUnlisted, Owner: o}, at)
	case 5:
		return j.Lose(Loss{Cause: LossTimeout, Owner: o}, at)
	case 6:
		return j.Cancel(testBy, random.IntN(2) == 0, at)
	case 7:
		return j.Expire(at)
	case 8:
		e := Effect{Name: HandlerEffect, State: EffectIsOpen, Generation: j.Generation}
		if j.OpenEffect == "" {
			return Change{}, ErrRefused
		}
		return j.Settle(e, Verdict{Happened: random.IntN(2) == 0}, testBy, at)
	case 9, 10:
		return j.Revive(testBy, at)
	}
}
