package daybook

import (
	"math"
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

const stampLayout = "2006-01-02T15:04:05.000000Z"

// String is RFC 3339 in UTC with microseconds, or "" for no time.
func (t Time) String() string {
	if t == 0 {
		return ""
	}
	return t.Std().Format(stampLayout)
}

// MarshalText writes RFC 3339 in UTC with microseconds.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

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
