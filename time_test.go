package daybook

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestTimeText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2026-12-24T18:00:00Z", "2026-12-24T18:00:00.000000Z"},
		{"2026-12-24T18:00:00.1234567Z", "2026-12-24T18:00:00.123456Z"},
		{"2026-12-24T18:00:00+05:30", "2026-12-24T12:30:00.000000Z"},
		{" 2026-12-24t18:00:00z ", "2026-12-24T18:00:00.000000Z"},
		{"9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
		{"1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001Z"},
	} {
		got, err := ParseTime("run_at", tt.in)
		if err != nil || got.String() != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.in, got, err, tt.want)
		}
		var back Time
		if err := json.Unmarshal([]byte(asJSON(t, got)), &back); err != nil || back != got {
			t.Errorf("%s: through JSON it is %s, %v", tt.in, back, err)
		}
	}
	for _, bad := range []string{"", "2026-12-24", "2026-12-24T18:00:00", "2026-13-01T00:00:00Z",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "tomorrow", "1735063200",
		strings.Repeat("9", 10000)} {
		got, err := ParseTime("run_at", bad)
		if CodeOf(err) != CodeInvalid || !strings.HasPrefix(err.Error(), "run_at: ") || len(err.Error()) > 200 {
			t.Errorf("%.40q: got %s, %v, want it refused", bad, got, err)
		}
	}
	if Time(0).String() != "" || At(time.Time{}) != 0 || !Time(0).Std().IsZero() {
		t.Error("no time is not the zero time")
	}
}

func TestTimeArithmetic(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		name string
		got  Time
		want Time
	}{
		{"a microsecond", testNow.Add(time.Microsecond), testNow + 1},
		{"less than one", testNow.Add(999 * time.Nanosecond), testNow},
		{"back", testNow.Add(-time.Hour), testNow - 3_600_000_000},
		{"the longest delay", testNow.Add(DelayMax), testNow + Time(DelayMax.Microseconds())},
		{"past year 9999", TimeMax.Add(time.Hour), TimeMax},
		{"past all", TimeMax.Add(longest), TimeMax},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"an hour", testNow.Sub(testNow.Add(-time.Hour)), time.Hour},
		{"back", testNow.Sub(testNow.Add(time.Hour)), -time.Hour},
		{"eight thousand years", TimeMax.Sub(testNow), longest.Truncate(time.Microsecond)},
		{"eight thousand years back", testNow.Sub(TimeMax), -longest.Truncate(time.Microsecond)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

// TestL53TimesAreInstants: a session's zone shifts nothing
// (janbjorge/pgqueuer #807).
func TestL53TimesAreInstants(t *testing.T) {
	tokyo := time.FixedZone("Tokyo", 9*3600)
	at := time.Date(2026, 12, 25, 3, 0, 0, 0, tokyo)
	if got := At(at); got != testNow {
		t.Errorf("got %s, want %s", got, testNow)
	}
	if got := testNow.Std(); !got.Equal(at) || got.Location() != time.UTC {
		t.Errorf("got %s, want %s in UTC", got, at)
	}
}

func TestNewID(t *testing.T) {
	before := time.Now().UnixMilli()
	seen := map[ID]bool{}
	last := ""
	for range 10_000 {
		id := NewID()
		if seen[id] || id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("%s is not a new version 7 UUID", id)
		}
		seen[id] = true
		last = id.String()
	}
	var ms int64
	id, err := ParseID(last)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	if err != nil || ms < before || ms > time.Now().UnixMilli() {
		t.Errorf("%s has the time %d, %v", last, ms, err)
	}
}

func TestParseID(t *testing.T) {
	const good = "0190a2b4-7c1e-7000-8000-00000000abcd"
	for _, s := range []string{good, strings.ToUpper(good), "ffffffff-ffff-ffff-ffff-ffffffffffff"} {
		id, err := ParseID(s)
		if err != nil || id.String() != strings.ToLower(s) {
			t.Errorf("%s: got %s, %v", s, id, err)
		}
		var back ID
		if err := json.Unmarshal([]byte(asJSON(t, id)), &back); err != nil || back != id {
			t.Errorf("%s: through JSON it is %s, %v", s, back, err)
		}
	}
	for _, s := range []string{"", "00000000-0000-0000-0000-000000000000", "0190a2b47c1e7000800000000000abcd",
		"{" + good + "}",
		good + "0", good[1:], "0190a2b4-7c1e-7000-8000-00000000abcg", "0190a2b4_7c1e-7000-8000-00000000abcd",
		strings.Repeat("a", 1<<20)} {
		id, err := ParseID(s)
		if CodeOf(err) != CodeInvalid || !id.IsZero() || len(err.Error()) > 200 {
			t.Errorf("%.40q: got %s, %.200v, want it refused", s, id, err)
		}
	}
}

// What is written is what the standard library's layout writes.
func TestTimeWritesTheLayout(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000Z"
	check := func(at Time) {
		if got, want := at.String(), at.Std().Format(layout); got != want {
			t.Errorf("%d: got %s, want %s", at, got, want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		check(Time(1 + random.Int64N(int64(TimeMax))))
	}
	for _, at := range []Time{1, 999_999, 1_000_000, TimeMax, TimeMax + 1, -1} {
		check(at)
	}
}
