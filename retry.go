package daybook

import "time"

// Backoff is a retry curve: First after the first failure, doubling, at most
// Cap, spread by ±Spread so that jobs that failed together don't come back
// together.
type Backoff struct {
	First, Cap time.Duration
	Spread     float64 // 0…1
}

// BackoffDefault is 1 s, doubling, ±10 %, at most an hour.
var BackoffDefault = Backoff{First: time.Second, Cap: time.Hour, Spread: 0.1}

// Delay is how long to wait after the given number of failures. random is in
// [0, 1) and places the delay inside the spread. It never overflows: failure
// 2^31 waits Cap, like failure 40 (riverqueue/river PR #698 is the report of a
// curve that went negative). The cap holds for the spread too.
func (b Backoff) Delay(failures int64, random float64) time.Duration {
	d := min(b.First, b.Cap)
	for n := int64(1); n < failures && 0 < d && d < b.Cap; n++ {
		if d > b.Cap/2 {
			d = b.Cap
			break
		}
		d *= 2
	}
	spread := float64(d) * (1 + b.Spread*(2*random-1))
	if spread >= float64(b.Cap) {
		return max(0, b.Cap)
	}
	return max(0, time.Duration(spread))
}
