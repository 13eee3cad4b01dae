package daybook

import (
	"testing"
	"time"
)

// TestSuspects: a job that crashed its process least(2, limit-1) times is a
// suspect, where the limit is five crashes or max_failures.
func TestSuspects(t *testing.T) {
	for _, tt := range []struct {
		maxFailures int
		limit       int
		suspectAt   int // crashes; 0 is never
	}{
		{1, 1, 0}, {2, 2, 1}, {3, 3, 2}, {4, 4, 2}, {5, 5, 2}, {20, 5, 2}, {10_000, 5, 2},
	} {
		for crashes := range tt.limit + 1 {
			j := with(waitingJob(), func(j *Job) { j.MaxFailures, j.Crashes = tt.maxFailures, crashes })
			if got := j.CrashLimit(); got != tt.limit {
				t.Errorf("max_failures %d: got crash limit %d, want %d", tt.maxFailures, got, tt.limit)
			}
			want := tt.suspectAt > 0 && crashes >= tt.suspectAt
			if got := j.Suspect(); got != want {
				t.Errorf("max_failures %d, %d crashes: got suspect %v, want %v", tt.maxFailures, crashes, got, want)
			}
		}
	}
}

// TestL8LossOnTheLastAttempt: a crash on the only attempt sets the job aside
// with a reason instead of leaving it locked for ever (graphile/worker #254).
func TestL8LossOnTheLastAttempt(t *testing.T) {
	j := with(runningJob(), once)
	c, err := j.Lose(Loss{Cause: LossSession, Owner: testOwner}, testNow)
	if err != nil {
		t.Fatal(err)
	}
	if c.Now.State != SetAside || c.Now.Reason != ReasonCrashes {
		t.Errorf("got %s %s, want set_aside crashes", c.Now.State, c.Now.Reason)
	}
	if c.Attempt.Outcome != OutcomeLost || c.Attempt.Why != string(LossSession) {
		t.Errorf("got attempt %s because %q, want lost because its session ended", c.Attempt.Outcome, c.Attempt.Why)
	}
}

// TestL19OnePoisonJob: one job that kills its process is set aside, and the
// many that shared the process are not (sidekiq/sidekiq #4633).
func TestL19OnePoisonJob(t *testing.T) {
	const poison, all = 50, 100
	jobs := make([]Job, all)
	for i := range jobs {
		jobs[i] = with(waitingJob(), fresh, func(j *Job) { j.MaxFailures = 20 })
	}
	deaths := 0
	for round := 0; ; round++ {
		if round > 2*all {
			t.Fatalf("no end after %d rounds", round)
		}
		claimed := claimAll(t, jobs)
		if len(claimed) == 0 {
			break
		}
		dies := false
		for _, i := range claimed {
			dies = dies || i == poison
		}
		if dies {
			deaths++
		}
		for _, i := range claimed {
			jobs[i] = endClaim(t, jobs[i], dies)
		}
	}
	if got := jobs[poison]; got.State != SetAside || got.Reason != ReasonCrashes {
		t.Errorf("the poison job is %s %s after %d crashes, want set_aside crashes", got.State, got.Reason,
			got.Crashes)
	}
	for i, j := range jobs {
		if i != poison && (j.State != Succeeded || j.Crashes > 2) {
			t.Fatalf("job %d is %s with %d crashes, want succeeded and at most 2", i, j.State, j.Crashes)
		}
	}
	if deaths != CrashesMax {
		t.Errorf("got %d dead processes, want %d", deaths, CrashesMax)
	}
}

// claimAll lets one session claim whatever it may, and says which.
func claimAll(t *testing.T, jobs []Job) (claimed []int) {
	t.Helper()
	suspects := 0
	for i, j := range jobs {
		c, err := j.Claim(Grant{Session: testLive, Suspects: suspects}, testNow)
		if err != nil {
			continue
		}
		if j.Suspect() {
			suspects++
		}
		jobs[i] = c.Now
		claimed = append(claimed, i)
	}
	return claimed
}

func endClaim(t *testing.T, j Job, dies bool) Job {
	t.Helper()
	o := Owner{j.Session, j.Generation}
	var c Change
	var err error
	if dies {
		c, err = j.Lose(Loss{Cause: LossSession, Owner: o}, testNow)
	} else {
		c, err = j.Complete(o, nil, testNow)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.Now
}

// TestHandlerEffect: what a lost attempt leaves says since when and under which
// generation the handler may have acted.
func TestHandlerEffect(t *testing.T) {
	for _, tt := range []struct {
		name  string
		job   Job
		begun Time
	}{
		{"start recorded", with(runningJob(), aside, started), testNow.Add(-9 * time.Minute)},
		{"no start recorded", with(runningJob(), aside), testNow.Add(-10 * time.Minute)},
	} {
		c, err := tt.job.Lose(Loss{Cause: LossSession, Owner: testOwner}, testNow)
		if err != nil {
			t.Fatal(err)
		}
		want := Effect{Job: testJob, Name: "handler", Policy: PolicyAsk, State: EffectIsOpen, Generation: 4,
			Key: EffectKey(testJob, "handler", 0), BegunAt: tt.begun}
		if c.Effect == nil || c.Effect.Key != want.Key || c.Effect.BegunAt != want.BegunAt ||
			c.Effect.Generation != want.Generation || c.Effect.Policy != want.Policy || c.Effect.Job != want.Job {
			t.Errorf("%s: got effect %+v, want %+v", tt.name, c.Effect, want)
		}
		if c.Now.OpenEffect != "handler" {
			t.Errorf("%s: the row doesn't know of the open effect", tt.name)
		}
	}
}

func TestEffectKey(t *testing.T) {
	key := EffectKey(testJob, "charge", 0)
	if got, want := key, EffectKey(testJob, "charge", 0); got != want || len(got) != 32 {
		t.Errorf("got keys %q and %q, want one of 32 digits", got, want)
	}
	for name, other := range map[string]string{
		"another job":   EffectKey(testSession, "charge", 0),
		"another name":  EffectKey(testJob, "charg", 0),
		"another round": EffectKey(testJob, "charge", 1),
		"a digit moved": EffectKey(testJob, "charge1", 0),
	} {
		if other == key {
			t.Errorf("%s has the same key", name)
		}
	}
}
