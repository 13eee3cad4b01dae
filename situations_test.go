package daybook

import (
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
