package client_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Trace contexts: of a request, and of a context.
var (
	own    = daybook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1,b=2"}
	around = daybook.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "c=3"}
)

// A job's trace is its request's, or else its context's, as in the book itself.
func TestTraces(t *testing.T) {
	s := newStand(t)
	ctx := daybook.WithTrace(t.Context(), around)
	mine := daybook.Request{Queue: "q", Kind: "k", Traceparent: own.Parent, Tracestate: own.State}
	plain := daybook.Request{Queue: "q", Kind: "k"}
	traces := func(receipts []daybook.Receipt, err error) (of []daybook.Trace) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range receipts {
			job, err := s.Job(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, job.Trace())
		}
		return of
	}
	for name, c := range map[string]struct {
		got, want []daybook.Trace
	}{
		"one with its own": {traces(s.EnqueueMany(ctx, []daybook.Request{mine})), []daybook.Trace{own}},
		"one without":      {traces(s.EnqueueMany(ctx, []daybook.Request{plain})), []daybook.Trace{around}},
		"both in a batch":  {traces(s.EnqueueMany(ctx, []daybook.Request{mine, plain})), []daybook.Trace{own, around}},
		"no trace at all":  {traces(s.EnqueueMany(t.Context(), []daybook.Request{plain})), []daybook.Trace{{}}},
		"one that is broken": {traces(s.EnqueueMany(daybook.WithTrace(t.Context(), daybook.Trace{Parent: "00-x"}),
			[]daybook.Request{plain})), []daybook.Trace{{}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: the jobs' traces are %v, want %v", name, c.got, c.want)
		}
	}
}

// Every field of a request reaches the book: the job is the one that the book
// would have made of it.
func TestRequestsAreWhole(t *testing.T) {
	s := newStand(t)
	later := time.Date(2100, 1, 2, 3, 4, 5, 6000, time.UTC)
	r := daybook.Request{ID: daybook.NewID(), Queue: "q", Kind: "k", Args: json.RawMessage(`{"n": 1.0}`), Key: "a1",
		RunAt: later, ExpiresAt: later.Add(time.Hour), Priority: -3, MaxFailures: 7,
		OnLost: daybook.LostSetAside, Timeout: 90 * time.Second, Traceparent: own.Parent, Tracestate: own.State}
	fields := reflect.ValueOf(r)
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; fields.Field(i).IsZero() && name != "In" { // in place of RunAt
			t.Errorf("this test says nothing of %s", name)
		}
	}
	if _, err := s.Enqueue(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	there, err := s.book.Job(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := r.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	want := prepared.Job
	want.State, want.EnqueuedAt, want.RunAt = there.State, there.EnqueuedAt, daybook.At(r.RunAt) // the book's to say
	want.Ref = there.Ref                                                                         // the store's own
	if !reflect.DeepEqual(there, want) {
		t.Errorf("the book has %+v, want %+v", there, want)
	}
}
