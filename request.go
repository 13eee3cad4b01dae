package daybook

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Request asks for one job.
type Request struct {
	ID          ID              // chosen by the caller, or made here; the same id again is a replay
	Queue       string          // required
	Kind        string          // required
	Args        json.RawMessage // a JSON document, kept byte for byte; {} when empty
	Key         string          // request key: the same key and input again is the same job
	RunAt       time.Time       // not before; zero is now
	In          time.Duration   // not before now plus this, by the database's clock
	ExpiresAt   time.Time       // never started after this
	Priority    int             // higher goes first
	MaxFailures int             // 0 is MaxFailuresDefault
	OnLost      OnLost          // "" is LostRetry
	Timeout     time.Duration   // run limit of one attempt; 0 is TimeoutDefault
	Traceparent string          // W3C Trace Context of who asks; "" is that of the context, see WithTrace
	Tracestate  string          // and what goes with it
}

// Receipt answers a request.
type Receipt struct {
	ID       ID   `json:"id"`
	Replayed bool `json:"replayed"` // the job was accepted before
}

// Fingerprint tells two requests apart: queue, kind and args in canonical
// form, versioned. Other fields don't count.
type Fingerprint [sha256.Size]byte

// NewJob is a request that passed every check that needs no database.
type NewJob struct {
	Job         Job // without its times, which come from the database's clock
	In          time.Duration
	Fingerprint Fingerprint // zero unless the request has a key or a chosen id
	Known       bool        // the id may be in the book already: look before inserting
}

// Prepare checks a request and fills in the defaults. The first thing wrong is
// the error; nothing is cut or repaired.
func (r Request) Prepare() (NewJob, error) {
	if err := r.check(); err != nil {
		return NewJob{}, err
	}
	n := NewJob{In: r.In, Known: !r.ID.IsZero(), Job: Job{ID: r.ID, Queue: r.Queue, Kind: r.Kind, Args: r.Args,
		State: Waiting, Priority: r.Priority, RunAt: At(r.RunAt), ExpiresAt: At(r.ExpiresAt),
		MaxFailures: r.MaxFailures, OnLost: r.OnLost, Timeout: r.Timeout, Key: r.Key}}
	j := &n.Job
	if len(j.Args) == 0 {
		j.Args = json.RawMessage("{}")
	}
	if err := CheckJSON("args", j.Args); err != nil {
		return NewJob{}, err
	}
	trace, err := CheckTrace(Trace{Parent: r.Traceparent, State: r.Tracestate})
	if err != nil {
		return NewJob{}, err
	}
	j.Traceparent, j.Tracestate = trace.Parent, trace.State
	if j.MaxFailures == 0 {
		j.MaxFailures = MaxFailuresDefault
	}
	if j.OnLost == "" {
		j.OnLost = LostRetry
	}
	if j.Timeout == 0 {
		j.Timeout = TimeoutDefault
	}
	if j.ID.IsZero() {
		j.ID = NewID()
	}
	if r.Key != "" || n.Known {
		fingerprint, err := FingerprintOf(j.Queue, j.Kind, j.Args)
		if err != nil {
			return NewJob{}, err
		}
		n.Fingerprint = fingerprint
	}
	return n, nil
}

func (r Request) check() error {
	if err := CheckName("queue", r.Queue); err != nil {
		return err
	}
	if err := CheckName("kind", r.Kind); err != nil {
		return err
	}
	if err := CheckKey(r.Key); err != nil {
		return err
	}
	switch {
	case len(r.Args) > ArgsMax:
		return tooLarge("args", ArgsMax, len(r.Args))
	case r.Priority < PriorityMin || r.Priority > PriorityMax:
		return Invalid("priority", "wants %d…%d, got %d", PriorityMin, PriorityMax, r.Priority)
	case r.MaxFailures < 0 || r.MaxFailures > MaxFailuresMax:
		return Invalid("max_failures", "wants 1…%d, got %d", MaxFailuresMax, r.MaxFailures)
	case r.OnLost != "" && r.OnLost != LostRetry && r.OnLost != LostSetAside:
		return Invalid("on_lost", "wants retry or set_aside, got %s", quote(string(r.OnLost)))
	case !r.RunAt.IsZero() && r.In != 0:
		return Invalid("run_at", "give a time or a delay, not both")
	}
	if err := checkDuration("in", r.In, 0, DelayMax); err != nil {
		return err
	}
	if r.Timeout != 0 {
		if err := checkDuration("timeout", r.Timeout, time.Millisecond, TimeoutMax); err != nil {
			return err
		}
	}
	return r.checkTimes()
}

func (r Request) checkTimes() error {
	for _, f := range []struct {
		name string
		at   time.Time
	}{{"run_at", r.RunAt}, {"expires_at", r.ExpiresAt}} {
		if year := f.at.UTC().Year(); !f.at.IsZero() && (year > 9999 || f.at.Unix() <= 0) {
			return Invalid(f.name, "wants a time after 1970 and up to year 9999, got year %d", year)
		}
	}
	if !r.ExpiresAt.IsZero() && !r.RunAt.IsZero() && !r.ExpiresAt.After(r.RunAt) {
		return Invalid("expires_at", "is not after run_at, so the job could never run")
	}
	return nil
}

func tooLarge(field string, limit, given int) *Error {
	return &Error{Code: CodeTooLarge, Field: field, Text: fmt.Sprintf("at most %d bytes, got %d", limit, given)}
}

// checkDuration holds a delay or limit between two bounds.
func checkDuration(field string, d, least, most time.Duration) error {
	if d < least || d > most {
		return Invalid(field, "wants %s…%s, got %s", least, most, d)
	}
	return nil
}

// CheckName holds queue, kind and effect names to 1–128 of letters, digits and
// . _ - : so that they are safe in every log, URL and metric.
func CheckName(field, name string) error {
	if name == "" {
		return Invalid(field, "is missing; wants 1–%d of letters, digits, . _ - :", NameMax)
	}
	if len(name) > NameMax {
		return Invalid(field, "at most %d bytes, got %d", NameMax, len(name))
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("._-:", c) >= 0) {
			return Invalid(field, "wants letters, digits, . _ - : only, got %s", quote(name))
		}
	}
	return nil
}

// CheckKey holds a request key to KeyMax bytes of printable UTF-8; "" is no key.
func CheckKey(key string) error {
	if len(key) > KeyMax {
		return Invalid("key", "at most %d bytes, got %d", KeyMax, len(key))
	}
	return checkText("key", key)
}

// checkTexts holds several texts, each behind its name.
func checkTexts(named ...[2]string) error {
	for _, text := range named {
		if err := checkText(text[0], text[1]); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses what can't be stored or would forge a log line.
func checkText(field, s string) error {
	if !utf8.ValidString(s) {
		return Invalid(field, "is not UTF-8")
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return Invalid(field, "has a control character at byte %d", i)
	}
	return nil
}

// CheckBy holds a person's name and reason to ReasonMax bytes of text.
func CheckBy(by By) error {
	for _, f := range [][2]string{{"actor", by.Actor}, {"reason", by.Reason}} {
		if len(f[1]) > ReasonMax {
			return Invalid(f[0], "at most %d bytes, got %d", ReasonMax, len(f[1]))
		}
		if err := checkText(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

const fingerprintVersion = "daybook-fingerprint-1"

// FingerprintOf is the fingerprint of queue, kind and args.
func FingerprintOf(queue, kind string, args []byte) (Fingerprint, error) {
	canonical, err := Canonical(args)
	if err != nil {
		return Fingerprint{}, err
	}
	var b bytes.Buffer
	for _, part := range []string{fingerprintVersion, queue, kind} {
		b.WriteString(part)
		b.WriteByte(0)
	}
	b.Write(canonical)
	return sha256.Sum256(b.Bytes()), nil
}

// Enqueue is the first move: what the caller asked for becomes a waiting job,
// by the database's clock. A time in the past means now.
func (n NewJob) Enqueue(now Time) Job {
	j := n.Job
	j.State, j.EnqueuedAt = Waiting, now
	if n.In > 0 {
		j.RunAt = now.Add(n.In)
	}
	j.RunAt = max(j.RunAt, now)
	return j
}

// Arrival is how a job comes in from another system.
type Arrival struct {
	Origin Origin
	HeldBy string // who lets it go later; "" runs at once
	Aside  Reason // set aside for a person instead of waiting; "" waits
	// OwnerDied says that its owner in the old system was lost while it ran,
	// so nobody knows what happened outside.
	OwnerDied bool
	Failures  int    // tries that it had in the old system
	Error     string // what the last of them said
}

// Import is the first move of a job that moved in: its due time is kept, and
// its origin makes a second import of it recognisable, so it has no request
// key.
func (n NewJob) Import(a Arrival, now Time) Change {
	j := n.Enqueue(now)
	j.Origin, j.HeldBy, j.Key = &a.Origin, a.HeldBy, ""
	j.Failures = min(max(a.Failures, 0), j.MaxFailures-1) // one try is left, whatever the old system counted
	detail, _ := cleanText("from "+a.Origin.System+" id "+a.Origin.ID+saidThere(a), ProgressMax)
	c := Change{Event: &Event{At: now, What: "imported", Detail: detail}}
	if a.OwnerDied {
		a.Aside = cmp.Or(a.Aside, ReasonEffectOpen) // never waits: it would run again unseen
		c.Effect = handlerEffect(j, now)
		j.OpenEffect = HandlerEffect
	}
	if a.Aside != "" {
		j = j.setAside(a.Aside, now)
	}
	return Job{}.becomes(MoveImport, j, c)
}

func saidThere(a Arrival) string {
	said := ""
	if a.Failures > 0 {
		said = fmt.Sprintf(", tried %d times there", a.Failures)
	}
	if a.Error != "" {
		said += ": " + a.Error
	}
	return said
}

// KeyRecord binds a request key to a job. It outlives the job's row, so that a
// late repeat of the request is still answered with the same job.
type KeyRecord struct {
	Key          string          `json:"key"`
	Job          ID              `json:"job"`
	Fingerprint  Fingerprint     `json:"-"`
	CreatedAt    Time            `json:"created_at"`
	Replays      int64           `json:"replays"`
	LastReplayAt Time            `json:"last_replay_at,omitzero"`
	EndedAt      Time            `json:"ended_at,omitzero"` // with State and Result: written when the job's row goes
	State        State           `json:"state,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
}

// Replay decides about a request whose key or id the book knows.
func (n NewJob) Replay(known Fingerprint, job ID, byKey bool) (Receipt, error) {
	if known != n.Fingerprint {
		if byKey {
			return Receipt{}, &Error{Code: CodeKeyConflict, Field: "key", Text: fmt.Sprintf(
				"%s belongs to job %s with other queue, kind or args; nothing was stored", quote(n.Job.Key), job)}
		}
		return Receipt{}, &Error{Code: CodeKeyConflict, Field: "id", Text: fmt.Sprintf(
			"job %s exists with other queue, kind or args; nothing was stored", job)}
	}
	return Receipt{ID: job, Replayed: true}, nil
}
