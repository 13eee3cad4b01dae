package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Meaning is what an endpoint's answer means for the job that was posted.
type Meaning int

// The meanings. An answer that comes from the endpoint is believed: one that
// isn't a success says that nothing happened.
const (
	Failed    Meaning = iota // it didn't happen, and counts as a failure
	Succeeded                // it happened
	Permanent                // it didn't happen, and trying again is useless
	Released                 // it didn't happen yet: later, and nobody is to blame
	Unsure                   // the answer isn't the endpoint's own: nobody knows
)

// UnsureDefault are the statuses by which a gateway says that the endpoint behind
// it gave no (whole) answer, or none in time: it may have acted.
var UnsureDefault = []int{http.StatusBadGateway, http.StatusGatewayTimeout}

// RetryAfterMin and RetryAfterMax bound the pause that an endpoint asks for. A job
// that is given back costs no failure, so without the first an endpoint that says
// 0 would be called without a pause; past the second it is asked again anyway.
const (
	RetryAfterMin = time.Second
	RetryAfterMax = 24 * time.Hour
)

// Verdict is what to do about an answer.
type Verdict struct {
	Meaning Meaning
	After   time.Duration // of Released
}

// Judge says what an answer means: 2xx succeeded, 422 is permanent, 429 and 503
// with a Retry-After that can be read give the job back, everything else failed,
// a redirect too. unsure are the statuses that leave it open. now is when the
// answer came.
func Judge(status int, h http.Header, unsure []int, now time.Time) Verdict {
	switch {
	case slices.Contains(unsure, status):
		return Verdict{Meaning: Unsure}
	case status >= 200 && status <= 299:
		return Verdict{Meaning: Succeeded}
	case status == http.StatusUnprocessableEntity:
		return Verdict{Meaning: Permanent}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		if after, ok := RetryAfter(h, now); ok {
			return Verdict{Released, after}
		}
	}
	return Verdict{Meaning: Failed}
}

// RetryAfter reads the header of that name, in seconds or as a date (RFC 9110),
// and holds it to RetryAfterMin and RetryAfterMax. A date counts from the answer's
// own Date where it has one: the endpoint's clock may be another than ours.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(RetryAfterMax/time.Second) { // more digits than an int64 has, too
			return RetryAfterMax, true
		}
		return max(RetryAfterMin, time.Duration(n)*time.Second), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(RetryAfterMin, at.Sub(now)), RetryAfterMax), true
}
