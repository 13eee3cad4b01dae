package daybook

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Time is an instant of the database's clock: microseconds since 1970 in UTC.
// Zero means "no time". One integer, so both databases keep it exactly and no
// session's time zone can shift it.
type Time int64

// At turns a standard time into a Time; the zero time becomes zero.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Std is the instant as a standard time in UTC.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Add moves the instant by d, to whole microseconds, and stops at the end of
// year 9999 instead of overflowing.
func (t Time) Add(d time.Duration) Time {
	sum := int64(t) + d.Microseconds()
	if d > 0 && (sum < int64(t) || sum > int64(TimeMax)) {
		return TimeMax
	}
	return Time(sum)
}

// Sub is how long after u the instant t is, at most the 292 years that a
// duration can say.
func (t Time) Sub(u Time) time.Duration {
	const most = Time(math.MaxInt64 / int64(time.Microsecond))
	return time.Duration(max(-most, min(t-u, most))) * time.Microsecond
}

// String is RFC 3339 in UTC with microseconds, or "" for no time.
func (t Time) String() string {
	text, _ := t.AppendText(nil)
	return string(text)
}

// AppendText appends RFC 3339 in UTC with microseconds, or nothing for no time. It
// writes the digits itself: an answer of a thousand jobs has five thousand times.
// The error is always nil.
func (t Time) AppendText(to []byte) ([]byte, error) {
	if t == 0 {
		return to, nil
	}
	if t < 0 || t > TimeMax {
		return t.Std().AppendFormat(to, "2006-01-02T15:04:05.000000Z"), nil
	}
	seconds, micros := int64(t)/1e6, int64(t)%1e6
	year, month, day := t.Std().Date()
	to = digits(slices.Grow(to, len("2006-01-02T15:04:05.000000Z")), int64(year), 4)
	to = digits(append(to, '-'), int64(month), 2)
	to = digits(append(to, '-'), int64(day), 2)
	to = digits(append(to, 'T'), seconds/3600%24, 2)
	to = digits(append(to, ':'), seconds/60%60, 2)
	to = digits(append(to, ':'), seconds%60, 2)
	return append(digits(append(to, '.'), micros, 6), 'Z'), nil
}

// digits appends a number, with zeros before it.
func digits(to []byte, n int64, width int) []byte {
	to = append(to, "000000"[:width]...)
	for i := len(to) - 1; n > 0; i-- {
		to[i] = byte('0' + n%10)
		n /= 10
	}
	return to
}

// MarshalText writes RFC 3339 in UTC with microseconds.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText reads RFC 3339; a zone is required.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := ParseTime("time", string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// ParseTime reads RFC 3339 with a zone, up to year 9999, for the named field.
func ParseTime(field, s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(strings.TrimSpace(s)))
	if err != nil {
		return 0, Invalid(field, "wants RFC 3339 with a zone, like 2026-12-24T18:00:00Z, got %s", quote(s))
	}
	u := At(t)
	if u <= 0 || u > TimeMax {
		return 0, Invalid(field, "wants a time after 1970 and up to year 9999, got %s", quote(s))
	}
	return u, nil
}
