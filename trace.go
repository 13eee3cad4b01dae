package daybook

import (
	"context"
	"strings"
)

// Trace says to which trace something belongs: the context of W3C Trace
// Context, as its headers carry it. The zero value is none.
type Trace struct {
	Parent string // traceparent: 00-TRACE-SPAN-FLAGS, 55 characters
	State  string // tracestate, at most TracestateMax bytes; "" without a parent
}

// Limits of a trace context.
const (
	traceparentLen = 55
	traceparentMax = 512 // of a version that is to come
	TracestateMax  = 512
	tracestateMost = 32 // members
)

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t.Parent == "" }

// TraceID is the trace's id in hexadecimal, "" without a trace.
func (t Trace) TraceID() string {
	if len(t.Parent) != traceparentLen {
		return ""
	}
	return t.Parent[3:35]
}

// SpanID is the parent span's id in hexadecimal, "" without a trace.
func (t Trace) SpanID() string {
	if len(t.Parent) != traceparentLen {
		return ""
	}
	return t.Parent[36:52]
}

// CheckTrace holds a trace context to the standard. That of a later version is
// answered as version 00 would say it, like the standard wants it, and a
// tracestate without blanks between its members.
func CheckTrace(t Trace) (Trace, error) {
	if t.Parent == "" {
		if t.State != "" {
			return Trace{}, Invalid("tracestate", "wants a traceparent beside it")
		}
		return t, nil
	}
	parent, ok := traceparent(t.Parent)
	if !ok {
		return Trace{}, Invalid("traceparent",
			"wants 00-TRACE-SPAN-FLAGS in lower case hexadecimal (W3C Trace Context), got %s", quote(t.Parent))
	}
	t.Parent = parent
	if len(t.State) > TracestateMax {
		return Trace{}, Invalid("tracestate", "at most %d bytes, got %d", TracestateMax, len(t.State))
	}
	state, ok := tracestate(t.State)
	if !ok {
		return Trace{}, Invalid("tracestate", "wants key=value pairs with commas between (W3C Trace Context), got %s",
			quote(t.State))
	}
	t.State = state
	return t, nil
}

// ReadTrace reads the trace context of a call's headers. One that breaks the
// standard is none, and a tracestate that does is left out: it was made by
// whoever stands between, and is no reason to refuse the call.
func ReadTrace(traceparent, tracestate string) Trace {
	t, err := CheckTrace(Trace{Parent: traceparent})
	if err != nil || t.IsZero() {
		return Trace{}
	}
	for len(tracestate) > TracestateMax { // the standard lets go of what stands last
		last := strings.LastIndexByte(tracestate, ',')
		tracestate = tracestate[:max(0, last)]
	}
	if full, err := CheckTrace(Trace{Parent: t.Parent, State: tracestate}); err == nil {
		return full
	}
	return t
}

// traceparent checks a traceparent and writes it as version 00.
func traceparent(s string) (string, bool) {
	if len(s) < traceparentLen || len(s) > traceparentMax || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
		!lowerHex(s[:2]) || !lowerHex(s[3:35]) || !lowerHex(s[36:52]) || !lowerHex(s[53:55]) ||
		s[:2] == "ff" || zeros(s[3:35]) || zeros(s[36:52]) {
		return "", false
	}
	switch later := s[:2] != "00"; {
	case !later:
		return s, len(s) == traceparentLen
	case len(s) > traceparentLen && s[traceparentLen] != '-':
		return "", false
	}
	flags := "-00"
	if strings.IndexByte("13579bdf", s[54]) >= 0 { // sampled is all that is known of a later version's flags
		flags = "-01"
	}
	return "00" + s[2:52] + flags, true
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

// tracestate checks a list of members, and writes it without what may stand
// between them.
func tracestate(s string) (string, bool) {
	if s == "" {
		return "", true
	}
	seen := map[string]bool{}
	var members []string
	for member := range strings.SplitSeq(s, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue // the standard allows empty ones
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || len(members) == tracestateMost || seen[key] || !stateKey(key) || !stateValue(value) {
			return "", false
		}
		seen[key] = true
		members = append(members, member)
	}
	return strings.Join(members, ","), true
}

func stateKey(key string) bool {
	tenant, system, multi := strings.Cut(key, "@")
	if multi {
		return stateName(tenant, 241, true) && stateName(system, 14, false)
	}
	return stateName(key, 256, false)
}

func stateName(s string, most int, digitFirst bool) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter, digit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if !(letter || digit && (i > 0 || digitFirst) || i > 0 && strings.IndexByte("_-*/", c) >= 0) {
			return false
		}
	}
	return true
}

func stateValue(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == ',' || c == '=' {
			return false
		}
	}
	return true
}

// Column is a trace as stores keep it, in one column: the parent, then a space
// and the state, if there is one. No parent has a space. "" is none.
func (t Trace) Column() string {
	if t.State == "" {
		return t.Parent
	}
	return t.Parent + " " + t.State
}

// TraceOfColumn reads what [Trace.Column] wrote.
func TraceOfColumn(s string) Trace {
	parent, state, _ := strings.Cut(s, " ")
	return Trace{Parent: parent, State: state}
}

// traceKey finds the trace of a context.
type traceKey struct{}

// WithTrace makes a context whose enqueues belong to a trace: jobs without one of
// their own get it. A zero trace leaves them without.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the trace of a context, set by [WithTrace]; handlers of a worker
// find their attempt's there, or else their job's.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}

// FillTrace gives jobs without a trace of their own the one of the context.
func FillTrace(ctx context.Context, jobs []NewJob) {
	t := TraceOf(ctx)
	if t = ReadTrace(t.Parent, t.State); t.IsZero() {
		return
	}
	for i := range jobs {
		if jobs[i].Job.Trace().IsZero() {
			jobs[i].Job.Traceparent, jobs[i].Job.Tracestate = t.Parent, t.State
		}
	}
}

// Tracer makes spans of what a book accepts; see package telemetry.
type Tracer interface {
	// Enqueue begins the span of one call. The context that it returns carries
	// the trace that jobs without one of their own get. end is called once, with
	// the call's error.
	Enqueue(ctx context.Context, jobs []NewJob) (in context.Context, end func(err error))
}
