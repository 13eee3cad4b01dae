package daybooktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// Match selects jobs; nil selects all.
type Match func(daybook.Job) bool

// MatchArgs selects jobs whose args say the same as v: as JSON, whatever the
// order of keys. It panics when v can't be written as JSON.
func MatchArgs(v any) Match {
	want := canonical(v)
	return func(j daybook.Job) bool {
		got, err := daybook.Canonical(j.Args)
		return err == nil && bytes.Equal(got, want)
	}
}

func canonical(v any) []byte {
	var doc bytes.Buffer
	if err := daybook.EncodeJSON(&doc, v); err != nil {
		panic(fmt.Sprintf("daybooktest: %T can't be written as JSON: %v", v, err))
	}
	out, err := daybook.Canonical(doc.Bytes())
	if err != nil {
		panic(fmt.Sprintf("daybooktest: %T can't be kept as args: %v", v, err))
	}
	return out
}

// Enqueued lists the jobs of a kind, whatever their state, the newest first; ""
// lists every kind.
func (b *Book) Enqueued(kind string) []daybook.Job {
	b.t.Helper()
	var jobs []daybook.Job
	f := daybook.Filter{Kind: kind, Limit: daybook.ListMax}
	for {
		page, err := b.Jobs(b.t.Context(), f)
		if err != nil {
			b.t.Fatalf("listing jobs: %v", err)
		}
		jobs = append(jobs, page.Items...)
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return jobs
		}
	}
}

// RequireEnqueued returns the one job of the kind that matches, whatever its
// state. The test ends when there is none or more than one.
func (b *Book) RequireEnqueued(kind string, match Match) daybook.Job {
	b.t.Helper()
	found, all := b.matching(kind, match)
	if len(found) != 1 {
		b.t.Fatalf("%d jobs of kind %q match, want 1; enqueued are%s", len(found), kind, summary(all))
	}
	return found[0]
}

// RequireNone ends the test when a job of the kind matches; "" is every kind.
func (b *Book) RequireNone(kind string, match Match) {
	b.t.Helper()
	if found, _ := b.matching(kind, match); len(found) > 0 {
		b.t.Fatalf("%d jobs of kind %q match, want none:%s", len(found), kind, summary(found))
	}
}

func (b *Book) matching(kind string, match Match) (found, all []daybook.Job) {
	b.t.Helper()
	all = b.Enqueued(kind)
	for _, j := range all {
		if match == nil || match(j) {
			found = append(found, j)
		}
	}
	return found, all
}

// summary shows the first jobs of a list, a line each.
func summary(jobs []daybook.Job) string {
	if len(jobs) == 0 {
		return " none"
	}
	const most, argsMost = 10, 200
	var b strings.Builder
	for i, j := range jobs {
		if i == most {
			fmt.Fprintf(&b, "\n\tand %d more", len(jobs)-most)
			break
		}
		fmt.Fprintf(&b, "\n\t%s %s %.*s", j.Kind, j.State, argsMost, j.Args)
	}
	return b.String()
}

// RequireState ends the test unless the job stands there; it returns the job.
func (b *Book) RequireState(id daybook.ID, want daybook.State) daybook.Job {
	b.t.Helper()
	j, err := b.Job(b.t.Context(), id)
	if err != nil {
		b.t.Fatalf("reading a job: %v", err)
	}
	if j.State != want {
		b.t.Fatalf("job %s of kind %s is %s, want %s; its last error: %s", id, j.Kind, j.State, want, lastError(j))
	}
	return j
}

func lastError(j daybook.Job) string {
	if j.LastError == nil {
		return "none"
	}
	return j.LastError.Text
}

// Args decodes a job's args; the test ends when they don't decode.
func Args[T any](t testing.TB, j daybook.Job) T {
	t.Helper()
	var args T
	if err := json.Unmarshal(j.Args, &args); err != nil {
		t.Fatalf("args of job %s (kind %s) don't decode into %T: %v", j.ID, j.Kind, args, err)
	}
	return args
}
