package storetest

import (
	"fmt"

	"github.com/daybookdev/daybook"
)

// row is what a store must keep of a job for moves, in a form that two
// rows can be compared by. What only means something while the job runs counts
// only then.
type row struct {
	ID             daybook.ID
	Queue, Kind    string
	State          daybook.State
	Reason         daybook.Reason
	Priority       int
	RunAt          daybook.Time
	ExpiresAt      daybook.Time
	HeldBy         string
	Generation     int64
	Failures       int
	Crashes        int
	MaxFailures    int
	OnLost         daybook.OnLost
	Timeout        int64
	Key            string
	EnqueuedAt     daybook.Time
	EndedAt        daybook.Time
	OpenEffect     string
	FirstClaimedAt daybook.Time
	Owned          owned
}

// owned is what a running job has besides.
type owned struct {
	Session    daybook.ID
	Worker     string
	ClaimedAt  daybook.Time
	StartedAt  daybook.Time
	GrantedAt  int64
	LeaseUntil daybook.Time
	Asked      daybook.Time
}

func rowOf(j daybook.Job) row {
	c := row{ID: j.ID, Queue: j.Queue, Kind: j.Kind, State: j.State, Reason: j.Reason, Priority: j.Priority,
		RunAt: j.RunAt, ExpiresAt: j.ExpiresAt, HeldBy: j.HeldBy, Generation: j.Generation, Failures: j.Failures,
		Crashes: j.Crashes, MaxFailures: j.MaxFailures, OnLost: j.OnLost, Timeout: int64(j.Timeout), Key: j.Key,
		EnqueuedAt: j.EnqueuedAt, EndedAt: j.EndedAt, OpenEffect: j.OpenEffect}
	switch j.State {
	case daybook.Running:
		c.Owned = owned{Session: j.Session, Worker: j.Worker, ClaimedAt: j.ClaimedAt, StartedAt: j.StartedAt,
			GrantedAt: j.GrantedAt, LeaseUntil: j.LeaseUntil, Asked: j.CancelRequestedAt}
		c.FirstClaimedAt = j.FirstClaimedAt
	case daybook.Waiting:
		c.FirstClaimedAt = j.FirstClaimedAt
	}
	return c
}

// compareClaims is compareJobs of what a claim is given: its owner learns of
// effects by beginning them.
func compareClaims(t tb, what string, got, want daybook.Job) {
	t.Helper()
	got.OpenEffect, want.OpenEffect = "", ""
	compareJobs(t, what, got, want)
}

// compareJobs ends the test when the store has another row than the moves made.
func compareJobs(t tb, what string, got, want daybook.Job) {
	t.Helper()
	if g, w := rowOf(got), rowOf(want); g != w {
		t.Fatalf("%s: job %s:\n got %s\nwant %s", what, want.ID, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w))
	}
}
