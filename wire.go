package daybook

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"
)

// requestBody is a request as JSON writes it: one line of `enqueue --from`,
// the body of POST /v1/jobs.
type requestBody struct {
	ID             *ID             `json:"id"`
	Queue          string          `json:"queue"`
	Kind           string          `json:"kind"`
	Args           json.RawMessage `json:"args"`
	Key            *string         `json:"key"`
	RunAt          *string         `json:"run_at"`
	InSeconds      *float64        `json:"in_seconds"`
	ExpiresAt      *string         `json:"expires_at"`
	Priority       *int            `json:"priority"`
	MaxFailures    *int            `json:"max_failures"`
	OnLost         *OnLost         `json:"on_lost"`
	TimeoutSeconds *float64        `json:"timeout_seconds"`
	Traceparent    *string         `json:"traceparent"`
	Tracestate     *string         `json:"tracestate"`
}

// requestFields are the names that a request may have, exactly: Go's decoder
// alone would take "Queue" for "queue".
var requestFields = []string{"id", "queue", "kind", "args", "key", "run_at", "in_seconds", "expires_at",
	"priority", "max_failures", "on_lost", "timeout_seconds", "traceparent",
	"tracestate"}

// DecodeRequest reads a request from JSON. Unknown fields, fields given twice
// and values of another type are refused by name; args stay byte for byte.
func DecodeRequest(doc []byte) (Request, error) {
	const most = ArgsMax + 64<<10
	if len(doc) > most {
		return Request{}, tooLarge("body", most, len(doc))
	}
	p := jsonReader{field: "body", doc: doc, fields: requestFields}
	if err := p.document(); err != nil {
		if e, ok := errors.AsType[*Error](err); ok && !json.Valid(doc) {
			e.Code = CodeMalformed // broken, and not only holding what can't be kept
		}
		return Request{}, err
	}
	if p.unknown != nil {
		return Request{}, Invalid(fieldName(*p.unknown), "is not a field of this request")
	}
	var b requestBody
	if err := json.Unmarshal(doc, &b); err != nil {
		return Request{}, wireError(err)
	}
	return b.request()
}

// fieldName shows a field's name that came from outside.
func fieldName(name string) string {
	if CheckName("", name) != nil {
		return quote(name)
	}
	return name
}

// wireError puts the decoder's complaint into our words. It never repeats the
// value, which may be large.
func wireError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return &Error{Code: CodeMalformed, Field: "body", Text: "is not a JSON object", Err: err}
	}
	field := e.Field
	if field == "" {
		field = "body"
	}
	got, _, _ := strings.Cut(e.Value, " ")
	return Invalid(field, "wants %s, got a JSON %s", wireType(e.Type.String()), got)
}

func wireType(goType string) string {
	switch goType = strings.TrimPrefix(goType, "*"); goType {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "daybook.requestBody":
		return "a JSON object"
	}
	return "a string"
}

func (b requestBody) request() (Request, error) {
	r := Request{Queue: b.Queue, Kind: b.Kind, Args: b.Args}
	if b.ID != nil {
		r.ID = *b.ID
	}
	if b.Key != nil {
		if *b.Key == "" {
			return r, Invalid("key", "is empty; leave it out for no key")
		}
		r.Key = *b.Key
	}
	if b.Priority != nil {
		r.Priority = *b.Priority
	}
	if b.MaxFailures != nil {
		if *b.MaxFailures < 1 {
			return r, Invalid("max_failures", "wants 1…%d, got %d", MaxFailuresMax, *b.MaxFailures)
		}
		r.MaxFailures = *b.MaxFailures
	}
	if b.OnLost != nil {
		if *b.OnLost == "" {
			return r, Invalid("on_lost", `wants retry or set_aside, got ""`)
		}
		r.OnLost = *b.OnLost
	}
	if err := b.trace(&r); err != nil {
		return r, err
	}
	return r, b.times(&r)
}

func (b requestBody) trace(r *Request) error {
	for _, f := range []struct {
		name string
		from *string
		to   *string
	}{{"traceparent", b.Traceparent, &r.Traceparent}, {"tracestate", b.Tracestate, &r.Tracestate}} {
		if f.from == nil {
			continue
		}
		if *f.from == "" {
			return Invalid(f.name, "is empty; leave it out for none")
		}
		*f.to = *f.from
	}
	return nil
}

func (b requestBody) times(r *Request) (err error) {
	for _, f := range []struct {
		name string
		from *string
		to   *time.Time
	}{{"run_at", b.RunAt, &r.RunAt}, {"expires_at", b.ExpiresAt, &r.ExpiresAt}} {
		if f.from == nil {
			continue
		}
		at, err := ParseTime(f.name, *f.from)
		if err != nil {
			return err
		}
		*f.to = at.Std()
	}
	if b.InSeconds != nil {
		if r.In, err = Seconds("in_seconds", *b.InSeconds); err != nil {
			return err
		}
	}
	if b.TimeoutSeconds != nil {
		if r.Timeout, err = Seconds("timeout_seconds", *b.TimeoutSeconds); err != nil {
			return err
		}
		if r.Timeout < time.Millisecond {
			return Invalid("timeout_seconds", "wants at least 0.001, got %g", *b.TimeoutSeconds)
		}
	}
	return nil
}

// Seconds turns a number of seconds from JSON into a duration ≥ 0.
func Seconds(field string, s float64) (time.Duration, error) {
	if math.IsNaN(s) || s < 0 || s > DelayMax.Seconds() {
		return 0, Invalid(field, "wants 0…%.0f seconds, got %g", DelayMax.Seconds(), s)
	}
	return time.Duration(s * float64(time.Second)), nil
}

// EncodeJSON writes v on one line, without the escapes of <, > and & that Go's
// encoder makes by default, so that args read as they were given.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
