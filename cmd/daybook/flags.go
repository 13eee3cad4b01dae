package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
)

// durationFlag is a duration as Go writes it, with days: 90s, 24h, 7d, 1d12h.
type durationFlag struct{ d *time.Duration }

func (f durationFlag) String() string {
	if f.d == nil || *f.d == 0 {
		return ""
	}
	return shortDuration(*f.d)
}

// spanFlag is a duration of at least so much.
type spanFlag struct {
	d     *time.Duration
	least time.Duration
}

func (f spanFlag) String() string { return durationFlag{f.d}.String() }

func (f spanFlag) Type() string { return "duration" }

func (f spanFlag) Set(s string) error {
	d, err := parseDuration(s)
	if err == nil && d < f.least {
		err = usage("wants %s or more, got %s", f.least, cut(s, cellMax))
	}
	if err == nil {
		*f.d = d
	}
	return err
}

// shortDuration writes a duration as a person would: 24h, 7d, 1m30s.
func shortDuration(d time.Duration) string {
	if day := 24 * time.Hour; d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (f durationFlag) Type() string { return "duration" }

func (f durationFlag) Set(s string) (err error) {
	*f.d, err = parseDuration(s)
	return err
}

var days = regexp.MustCompile(`^(-?)(\d+(?:\.\d+)?)d(.*)$`)

// parseDuration reads Go's durations, and days of 24 hours before them.
func parseDuration(s string) (time.Duration, error) {
	bad := usage("wants a duration like 90s, 24h or 7d, got %q", cut(s, cellMax))
	m := days.FindStringSubmatch(s)
	if m == nil {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, bad
		}
		return d, nil
	}
	n, err := strconv.ParseFloat(m[2], 64)
	var rest time.Duration
	if err == nil && m[3] != "" {
		rest, err = time.ParseDuration(m[3])
	}
	hours := n * float64(24*time.Hour)
	if err != nil || rest < 0 || hours+float64(rest) >= math.MaxInt64 {
		return 0, bad
	}
	d := time.Duration(hours) + rest
	if m[1] == "-" {
		d = -d
	}
	return d, nil
}

func durationVar(fs *pflag.FlagSet, d *time.Duration, name string, value time.Duration, use string) {
	*d = value
	fs.Var(durationFlag{d}, name, use)
}

// timeFlag is RFC 3339 with a zone.
type timeFlag struct{ t *daybook.Time }

func (f timeFlag) String() string {
	if f.t == nil {
		return ""
	}
	return f.t.String()
}

func (f timeFlag) Type() string { return "time" }

func (f timeFlag) Set(s string) (err error) {
	*f.t, err = daybook.ParseTime("time", s)
	return err
}

// idFlag is a UUID.
type idFlag struct{ id *daybook.ID }

func (f idFlag) String() string {
	if f.id == nil || f.id.IsZero() {
		return ""
	}
	return f.id.String()
}

func (f idFlag) Type() string { return "uuid" }

func (f idFlag) Set(s string) (err error) {
	*f.id, err = daybook.ParseID(s)
	return err
}

// choiceFlag is one of a few words.
type choiceFlag struct {
	value   *string
	choices []string
}

func (f choiceFlag) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

func (f choiceFlag) Type() string { return "word" }

func (f choiceFlag) Set(s string) error {
	for _, c := range f.choices {
		if s == c {
			*f.value = s
			return nil
		}
	}
	return usage("wants one of %s, got %q", strings.Join(f.choices, ", "), cut(s, cellMax))
}

func choiceVar(fs *pflag.FlagSet, p *string, name, short, value, use string, choices ...string) {
	*p = value
	fs.VarP(choiceFlag{p, choices}, name, short, use)
}

// parseIDs reads job ids given as arguments.
func parseIDs(args []string) ([]daybook.ID, error) {
	ids := make([]daybook.ID, len(args))
	for i, arg := range args {
		id, err := daybook.ParseID(arg)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}
