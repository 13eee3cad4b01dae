package daybook

import (
	"math"
	"testing"
	"time"
)

// TestL24RetryDelay: the curve reaches its cap and stays there; it never
// overflows into the past (riverqueue/river PR #698).
func TestL24RetryDelay(t *testing.T) {
	none := Backoff{First: time.Second, Cap: time.Hour}
	for _, tt := range []struct {
		curve    Backoff
		failures int64
		random   float64
		want     time.Duration
	}{
		{none, 0, 0.5, time.Second},
		{none, 1, 0.5, time.Second},
		{none, 2, 0.5, 2 * time.Second},
		{none, 3, 0.5, 4 * time.Second},
		{none, 12, 0.5, 2048 * time.Second},
		{none, 13, 0.5, time.Hour},
		{none, 40, 0.5, time.Hour},
		{none, 310, 0.5, time.Hour},
		{none, 1 << 31, 0.5, time.Hour},
		{none, math.MaxInt64, 0.5, time.Hour},
		{BackoffDefault, 1, 0, 900 * time.Millisecond},
		{BackoffDefault, 1, 0.5, time.Second},
		{BackoffDefault, 1, 0.75, 1050 * time.Millisecond},
		{BackoffDefault, 40, 0, 54 * time.Minute},
		{BackoffDefault, 40, 0.5, time.Hour},
		{BackoffDefault, 40, 0.999, time.Hour},
		{BackoffDefault, 310, 0.999, time.Hour},
		{BackoffDefault, 1 << 31, 0.999, time.Hour},
		{BackoffDefault, -5, 0.5, time.Second},
		{Backoff{First: time.Second, Cap: math.MaxInt64, Spread: 0.1}, 1 << 31, 0.999, math.MaxInt64},
		{Backoff{First: time.Second, Cap: math.MaxInt64}, 310, 0.5, math.MaxInt64},
		{Backoff{First: 2 * time.Hour, Cap: time.Hour}, 1, 0.5, time.Hour},
		{Backoff{Cap: time.Hour}, 1 << 62, 0.5, 0},
		{Backoff{}, 1 << 62, 0.5, 0},
		{Backoff{First: -time.Second, Cap: time.Hour}, 1 << 62, 0.5, 0},
		{Backoff{First: time.Second, Cap: -time.Hour}, 9, 0.5, 0},
	} {
		if got := tt.curve.Delay(tt.failures, tt.random); got != tt.want {
			t.Errorf("%+v: failure %d at %g: got %s, want %s", tt.curve, tt.failures, tt.random, got, tt.want)
		}
	}
}

// TestRetryDelayRises: each failure waits at least as long as the one before,
// up to the cap, wherever in the spread it falls.
func TestRetryDelayRises(t *testing.T) {
	for _, random := range []float64{0, 0.25, 0.5, 0.75, 0.999999} {
		last := time.Duration(0)
		for n := int64(1); n <= 100; n++ {
			d := BackoffDefault.Delay(n, random)
			if d < last || d <= 0 || d > BackoffDefault.Cap {
				t.Fatalf("failure %d at %g waits %s after %s", n, random, d, last)
			}
			last = d
		}
	}
}

// TestL24NextAttempt: the same through the move: never due in the past.
func TestL24NextAttempt(t *testing.T) {
	for _, failures := range []int{39, 309, 1<<31 - 1} {
		j := with(runningJob(), failed(failures), func(j *Job) { j.MaxFailures = math.MaxInt })
		delay := BackoffDefault.Delay(int64(j.Failures)+1, 0.5)
		c, err := j.Fail(testOwner, Failure{Problem: testProblem, Delay: delay}, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.Now.RunAt, testNow.Add(time.Hour); got != want {
			t.Errorf("after %d failures it is due at %s, want %s", failures, got, want)
		}
	}
	c, err := runningJob().Fail(testOwner, Failure{Problem: testProblem, Delay: -time.Hour}, testNow)
	if err != nil || c.Now.RunAt != testNow {
		t.Errorf("a delay below zero: due at %s, %v; want now", c.Now.RunAt, err)
	}
}
