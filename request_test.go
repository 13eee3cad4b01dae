package daybook

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func goodRequest() Request {
	return Request{Queue: "mail", Kind: "welcome", Args: json.RawMessage(`{"to": 1.0}`)}
}

func TestPrepareDefaults(t *testing.T) {
	n, err := Request{Queue: "mail", Kind: "welcome"}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	j := n.Job
	if j.ID.IsZero() || n.Known || n.Fingerprint != (Fingerprint{}) {
		t.Errorf("got id %s, known %v, fingerprint %x; want a new id and no fingerprint", j.ID, n.Known,
			n.Fingerprint)
	}
	j.ID = ID{}
	want := Job{Queue: "mail", Kind: "welcome", Args: json.RawMessage(`{}`), State: Waiting, MaxFailures: 20,
		OnLost: LostRetry, Timeout: 24 * time.Hour}
	if asJSON(t, j) != asJSON(t, want) || j.Timeout != want.Timeout {
		t.Errorf("got %+v, want %+v", j, want)
	}
}

func TestPrepareKeepsWhatWasAsked(t *testing.T) {
	at := time.Date(2027, 1, 2, 3, 4, 5, 678901000, time.FixedZone("", 3600))
	r := Request{ID: testJob, Queue: "a.b_c-d:9", Kind: "K",
		Args: json.RawMessage(` {"b":1.50,"a":"\u00e9<&>"} `), Key: "schlüssel",
		RunAt: at, ExpiresAt: at.Add(time.Microsecond), Priority: -32768, MaxFailures: 10_000, OnLost: LostSetAside,
		Timeout: time.Millisecond}
	n, err := r.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	j := n.Job
	if string(j.Args) != string(r.Args) {
		t.Errorf("args are %q, want them byte for byte", j.Args)
	}
	if !n.Known || n.Fingerprint == (Fingerprint{}) || j.ID != testJob || j.Key != r.Key ||
		j.Priority != -32768 ||
		j.MaxFailures != 10_000 || j.OnLost != LostSetAside || j.Timeout != time.Millisecond {
		t.Errorf("got %+v", n)
	}
	if got, want := j.RunAt.String(), "2027-01-02T02:04:05.678901Z"; got != want || j.ExpiresAt != j.RunAt+1 {
		t.Errorf("run_at is %s, want %s", got, want)
	}
}

// TestLimits: at each limit a request passes, and one past it the error names
// the field and what was given.
func TestLimits(t *testing.T) {
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	year := func(y int) time.Time { return time.Date(y, 12, 31, 23, 59, 59, 999999000, time.UTC) }
	west := time.FixedZone("", -3600)
	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   string // the error; "" when it passes
	}{
		{"args at the limit", func(r *Request) { r.Args = text(ArgsMax) }, ""},
		{"args past it", func(r *Request) { r.Args = text(ArgsMax + 1) },
			"args: at most 1048576 bytes, got 1048577"},
		{"no queue", func(r *Request) { r.Queue = "" },
			"queue: is missing; wants 1–128 of letters, digits, . _ - :"},
		{"no kind", func(r *Request) { r.Kind = "" }, "kind: is missing; wants 1–128 of letters, digits, . _ - :"},
		{"priority at its ends", func(r *Request) { r.Priority = 32767 }, ""},
		{"priority above", func(r *Request) { r.Priority = 32768 }, "priority: wants -32768…32767, got 32768"},
		{"priority below", func(r *Request) { r.Priority = -32769 }, "priority: wants -32768…32767, got -32769"},
		{"max_failures above", func(r *Request) { r.MaxFailures = 10_001 },
			"max_failures: wants 1…10000, got 10001"},
		{"max_failures below", func(r *Request) { r.MaxFailures = -1 }, "max_failures: wants 1…10000, got -1"},
		{"on_lost", func(r *Request) { r.OnLost = "drop" }, `on_lost: wants retry or set_aside, got "drop"`},
		{"delay at the limit", func(r *Request) { r.In = DelayMax }, ""},
		{"delay past it", func(r *Request) { r.In = DelayMax + 1 },
			"in: wants 0s…876000h0m0s, got 876000h0m0.000000001s"},
		{"delay below zero", func(r *Request) { r.In = -1 }, "in: wants 0s…876000h0m0s, got -1ns"},
		{"time and delay", func(r *Request) { r.In, r.RunAt = 1, year(2030) },
			"run_at: give a time or a delay, not both"},
		{"timeout too short", func(r *Request) { r.Timeout = time.Millisecond - 1 },
			"timeout: wants 1ms…8760h0m0s, got 999.999µs"},
		{"timeout too long", func(r *Request) { r.Timeout = TimeoutMax + 1 },
			"timeout: wants 1ms…8760h0m0s, got 8760h0m0.000000001s"},
		{"the last instant", func(r *Request) { r.RunAt = year(9999) }, ""},
		{"past it", func(r *Request) { r.RunAt = year(9999).Add(time.Microsecond) },
			"run_at: wants a time after 1970 and up to year 9999, got year 10000"},
		{"past it, west of Greenwich", func(r *Request) { r.ExpiresAt = year(9999).Add(time.Minute).In(west) },
			"expires_at: wants a time after 1970 and up to year 9999, got year 10000"},
		{"before 1970", func(r *Request) { r.RunAt = year(1969) },
			"run_at: wants a time after 1970 and up to year 9999, got year 1969"},
		{"expires as it runs", func(r *Request) { r.RunAt, r.ExpiresAt = year(2030), year(2030) },
			"expires_at: is not after run_at, so the job could never run"},
		{"key at the limit", func(r *Request) { r.Key = strings.Repeat("k", KeyMax) }, ""},
		{"key past it", func(r *Request) { r.Key = strings.Repeat("k", KeyMax+1) },
			"key: at most 255 bytes, got 256"},
		{"broken args", func(r *Request) { r.Args = json.RawMessage(`{`) }, `args: at "/": wants a key at byte 1`},
	} {
		r := goodRequest()
		tt.change(&r)
		_, err := r.Prepare()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestLimitsHaveCodes(t *testing.T) {
	r := goodRequest()
	r.Args = json.RawMessage(strings.Repeat(" ", ArgsMax+1))
	if _, err := r.Prepare(); CodeOf(err) != CodeTooLarge {
		t.Errorf("large args: got code %s, want too_large", CodeOf(err))
	}
	r = goodRequest()
	r.Queue = "a b"
	if _, err := r.Prepare(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bad queue: got code %s, want invalid", CodeOf(err))
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"mail": true, "A.b_c-9:z": true, ".": true, strings.Repeat("n", 128): true,
		"": false, "a b": false, "a/b": false, "é": false, "a\x00": false, "a\n": false, `a"b`: false,
		"*": false, strings.Repeat("n", 129): false, "\u202e": false,
	} {
		err := CheckName("queue", name)
		if (err == nil) != ok {
			t.Errorf("%.20q: got %v, want ok %v", name, err, ok)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "queue: ") ||
			strings.ContainsAny(err.Error(), "\n\x00\u202e")) {
			t.Errorf("%.20q: the error is %q", name, err)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"": true, "a1": true, `"quoted"`: true, "mit Leerzeichen": true, "schlüssel😀": true,
		strings.Repeat("é", 127): true,
		strings.Repeat("é", 128): false, "a\x00": false, "a\n": false, "a\x7f": false, "a\xff": false,
		"\x1b[31m": false,
	} {
		if err := CheckKey(key); (err == nil) != ok {
			t.Errorf("%.20q: got %v, want ok %v", key, err, ok)
		}
	}
}

func TestCheckBy(t *testing.T) {
	for _, tt := range []struct {
		by   By
		want string
	}{
		{By{}, ""}, {By{Actor: "ada", Reason: strings.Repeat("r", ReasonMax)}, ""},
		{By{Actor: strings.Repeat("a", ReasonMax+1)}, "actor: at most 1024 bytes, got 1025"},
		{By{Reason: strings.Repeat("a", ReasonMax+1)}, "reason: at most 1024 bytes, got 1025"},
		{By{Reason: "two\nlines"}, "reason: has a control character at byte 3"},
		{By{Actor: "\xff"}, "actor: is not UTF-8"},
	} {
		got := ""
		if err := CheckBy(tt.by); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%.20q: got %q, want %q", tt.by, got, tt.want)
		}
	}
}

// TestEnqueueByTheDatabasesClock: a time in the past means now, and a delay
// counts from the database's clock.
func TestEnqueueByTheDatabasesClock(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    time.Duration
		runAt Time
		want  Time
	}{
		{"now", 0, 0, testNow}, {"past", 0, testNow - 1, testNow}, {"later", 0, testNow + 1, testNow + 1},
		{"delay", time.Second, 0, testNow.Add(time.Second)}, {"longest delay", DelayMax, 0, testNow.Add(DelayMax)},
		{"the last instant", 0, TimeMax, TimeMax},
	} {
		n := NewJob{In: tt.in, Job: Job{RunAt: tt.runAt}}
		got := n.Enqueue(testNow)
		if got.RunAt != tt.want || got.EnqueuedAt != testNow || got.State != Waiting {
			t.Errorf("%s: %s, due at %s, want waiting, due at %s", tt.name, got.State, got.RunAt, tt.want)
		}
	}
}

// TestL34Replay: the same key or id and the same input is the same job; other
// input is a conflict that names the job.
func TestL34Replay(t *testing.T) {
	n, err := Request{ID: testJob, Queue: "q", Kind: "k", Args: json.RawMessage(`{"a":1,"b":2}`),
		Key: "k1"}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	same := mustPrint(t, "q", "k", `{"b":2.0,"a":1}`)
	for _, byKey := range []bool{true, false} {
		got, err := n.Replay(same, testSession, byKey)
		if err != nil || got != (Receipt{ID: testSession, Replayed: true}) {
			t.Errorf("by key %v: got %+v, %v, want a replay of %s", byKey, got, err, testSession)
		}
	}
	other := mustPrint(t, "q2", "k", `{"a":1,"b":2}`)
	for byKey, field := range map[bool]string{true: "key", false: "id"} {
		got, err := n.Replay(other, testSession, byKey)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != CodeKeyConflict || e.Field != field || got != (Receipt{}) ||
			!strings.Contains(e.Text, testSession.String()) {
			t.Errorf("other input, by key %v: got %+v, %v", byKey, got, err)
		}
	}
}

func mustPrint(t *testing.T, queue, kind, args string) Fingerprint {
	t.Helper()
	f, err := FingerprintOf(queue, kind, []byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPrepareMany(t *testing.T) {
	good, bad := goodRequest(), Request{Queue: "mail"}
	if _, err := PrepareMany([]Request{bad}); BatchIndex(err) != -1 || !errors.Is(err, ErrInvalid) {
		t.Errorf("one bad request: got %v, want it bare", err)
	}
	jobs, err := PrepareMany([]Request{good, bad, good})
	if BatchIndex(err) != 1 || !errors.Is(err, ErrInvalid) || jobs != nil {
		t.Errorf("a bad request among three: got index %d of %v, want 1", BatchIndex(err), err)
	}
	jobs, err = PrepareMany([]Request{good, good})
	if err != nil || len(jobs) != 2 || jobs[0].Job.ID == jobs[1].Job.ID {
		t.Errorf("two equal requests without a key: got %d jobs, %v, want two with their own ids", len(jobs), err)
	}
	if _, err := PrepareMany(make([]Request, EnqueueMax+1)); CodeOf(err) != CodeTooLarge ||
		err.Error() != "jobs: at most 100000 in one call, got 100001" {
		t.Errorf("too many: got %v", err)
	}
	large := goodRequest()
	large.Args = json.RawMessage(`"` + strings.Repeat("x", ArgsMax-2) + `"`)
	batch := make([]Request, EnqueueBytesMax/ArgsMax)
	for i := range batch {
		batch[i] = large
	}
	if _, err := PrepareMany(append(batch, good)); CodeOf(err) != CodeTooLarge {
		t.Errorf("a batch past 256 MiB: got %v, want too_large", err)
	}
}

// TestImport: a job that moved in keeps its due time and origin, counts as
// moved in, and one whose old owner died waits for a person.
func TestImport(t *testing.T) {
	from := Origin{System: "sidekiq", Store: "redis-1", Queue: "default", ID: "abc"}
	for _, tt := range []struct {
		name    string
		arrival Arrival
		want    string
		held    string
	}{
		{"held", Arrival{Origin: from, HeldBy: "cutover"}, `waiting +1h0m0s "imported"`, "cutover"},
		{"at once", Arrival{Origin: from}, `waiting +1h0m0s "imported"`, ""},
		{"dead in the old system", Arrival{Origin: from, Aside: ReasonFailures}, `set_aside:failures "imported"`, ""},
		{"owner died", Arrival{Origin: from, OwnerDied: true},
			`set_aside:effect_open opened effect=handler:open "imported"`, ""},
		{"owner died, as lost", Arrival{Origin: from, OwnerDied: true, Aside: ReasonLost, HeldBy: "cutover"},
			`set_aside:lost opened effect=handler:open "imported"`, "cutover"},
	} {
		n := NewJob{Job: with(Job{ID: testJob, Queue: "mail", MaxFailures: 3}, due(time.Hour))}
		c := n.Import(tt.arrival, testNow)
		if got := answer(c, nil); got != tt.want || c.Now.HeldBy != tt.held {
			t.Errorf("%s: got %q held by %q, want %q held by %q", tt.name, got, c.Now.HeldBy, tt.want, tt.held)
		}
		if c.Now.Origin == nil || *c.Now.Origin != from || c.Now.EnqueuedAt != testNow || c.Now.Attempted() {
			t.Errorf("%s: got %+v", tt.name, c.Now)
		}
		if d := c.Delta(); !d.Balanced() || d.MovedIn != 1 || d.Accepted != 0 {
			t.Errorf("%s: got delta %+v", tt.name, d)
		}
		if c.Effect != nil && c.Effect.BegunAt != testNow {
			t.Errorf("%s: the effect begun at %q, want when it was found", tt.name, c.Effect.BegunAt)
		}
	}
}
