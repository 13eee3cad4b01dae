package sidekiq

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// retriesDefault is what "retry": true means.
const retriesDefault = 25

// wire is what Sidekiq keeps of a job.
type wire struct {
	JID        string          `json:"jid"`
	Class      json.RawMessage `json:"class"`
	Wrapped    json.RawMessage `json:"wrapped"`
	Args       json.RawMessage `json:"args"`
	Queue      string          `json:"queue"`
	Retry      json.RawMessage `json:"retry"`
	RetryCount *int            `json:"retry_count"`
	CreatedAt  json.Number     `json:"created_at"`
	EnqueuedAt json.Number     `json:"enqueued_at"`
	Error      json.RawMessage `json:"error_message"`
	ErrorClass json.RawMessage `json:"error_class"`
	Digest     json.RawMessage `json:"lock_digest"`   // of the gem sidekiq-unique-jobs
	OldDigest  json.RawMessage `json:"unique_digest"` // before its version 7
}

// queueOf tells whose a job of a shared set is.
func queueOf(text string) (queue string, ok bool) {
	var w struct {
		Queue string `json:"queue"`
	}
	err := json.Unmarshal([]byte(text), &w)
	return w.Queue, err == nil
}

// jobOf reads a job. One that can't be read says why, and has its bytes all the
// same.
func jobOf(text string, state daybook.OldState) daybook.OldJob {
	job := daybook.OldJob{State: state, Body: []byte(text)}
	var w wire
	if !utf8.ValidString(text) {
		job.Unreadable = "it isn't UTF-8"
		return job
	}
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		job.Unreadable = "it isn't a job in JSON"
		return job
	}
	job.ID, job.Class = w.JID, word(w.Class)
	switch {
	case w.JID == "":
		job.Unreadable = "it has no jid"
	case job.Class == "":
		job.Unreadable = "it has no class"
	}
	job.Args = w.Args
	job.Key = word(w.Digest) + word(w.OldDigest)
	if inner := word(w.Wrapped); inner != "" {
		unwrap(&job, inner, w.Args)
	}
	if w.RetryCount != nil {
		job.Attempts = *w.RetryCount + 1 // it counts from 0, with the first failure
	}
	job.MaxAttempts = maxAttempts(w.Retry)
	job.EnqueuedAt = stamp(w.EnqueuedAt)
	if job.EnqueuedAt == 0 {
		job.EnqueuedAt = stamp(w.CreatedAt)
	}
	if class, said := word(w.ErrorClass), word(w.Error); class != "" || said != "" {
		job.Error = strings.TrimPrefix(class+": "+said, ": ")
	}
	if body, err := lasting(text); err == nil {
		job.Body = body
	}
	return job
}

// unwrap looks into what ActiveJob puts around its jobs: the class is the inner
// one, the arguments are the inner ones, and its own id is the key, since a retry
// by ActiveJob is a new job of Sidekiq with the same one.
func unwrap(job *daybook.OldJob, class string, args json.RawMessage) {
	var outer []struct {
		ID   string          `json:"job_id"`
		Args json.RawMessage `json:"arguments"`
	}
	job.Class = class
	if err := json.Unmarshal(args, &outer); err != nil || len(outer) != 1 || outer[0].Args == nil {
		return // Args stay what they are
	}
	job.Args = outer[0].Args
	if job.Key == "" {
		job.Key = outer[0].ID
	}
}

// word is a JSON string's text, "" for anything else.
func word(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// maxAttempts reads "retry": how many tries there are after the first.
func maxAttempts(retry json.RawMessage) int {
	var n int
	switch text := string(bytes.TrimSpace(retry)); {
	case text == "" || text == "true":
		return retriesDefault + 1
	case text == "false" || text == "null":
		return 1
	case json.Unmarshal(retry, &n) == nil && n >= 0:
		return n + 1
	}
	return 0 // not known
}

// stamp reads a time: seconds with a fraction, or whole milliseconds as later
// Sidekiqs have them.
func stamp(n json.Number) daybook.Time {
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	if f > 1e11 {
		f /= 1000
	}
	return oldredis.Seconds(f)
}

// passing are the fields that change while a job lives.
var passing = []string{"at", "enqueued_at", "retry_count", "failed_at", "retried_at", "error_message", "error_class",
	"error_backtrace", "interrupted_count"}

// lasting is the job without what changes while it lives, in an order and a
// spelling that don't depend on who wrote it last.
func lasting(text string) ([]byte, error) {
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	for _, name := range passing {
		delete(fields, name)
	}
	return json.Marshal(fields)
}
