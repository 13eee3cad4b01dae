package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfTraces = []test{
	{"Enqueue keeps a trace by every way in", traceKept},
	{"Enqueue takes the context's trace", traceOfContext},
	{"Enqueue with another trace is a replay", traceReplayed},
	{"Claim brings the trace, however many it takes", traceClaimed},
	{"Moves keep the trace", traceStays},
}

// traced is the trace of a number. Every third has no state, and every fourth
// job has no trace.
func traced(n int) daybook.Trace {
	t := daybook.Trace{Parent: fmt.Sprintf("00-%032x-%016x-01", n+1, n+1)}
	switch {
	case n%4 == 3:
		return daybook.Trace{}
	case n%3 != 0:
		t.State = fmt.Sprintf("vendor@of=%d and more,b=2", n)
	}
	return t
}

// tracing asks for so many jobs with traces.
func tracing(n int) []daybook.Request {
	list := make([]daybook.Request, n)
	for i := range list {
		t := traced(i)
		list[i] = request(daybook.Request{Traceparent: t.Parent, Tracestate: t.State,
			Args: json.RawMessage(fmt.Sprintf("\t{\"n\":\"%d 00-\"}", i))})
	}
	return list
}

// traceKept enqueues so many at once that each way that a store has for it is
// taken.
func traceKept(w *world) {
	for _, c := range []struct {
		name    string
		n       int
		keyed   bool
		chooses bool
	}{{"one", 1, false, false}, {"one with a key", 1, true, false}, {"one with an id", 1, false, true},
		{"some", 7, false, false}, {"some with keys", 7, true, true}, {"many", 2500, false, false}} {
		requests := tracing(c.n)
		for i := range requests {
			if c.keyed {
				requests[i].Key = fmt.Sprint(c.name, i)
			}
			if c.chooses {
				requests[i].ID = daybook.NewID()
			}
		}
		for range 2 { // a queue that is new, and one that is known
			receipts, err := w.book.EnqueueMany(w.ctx, requests)
			w.ok(err)
			for i := 0; i < c.n; i += 1 + c.n/50 {
				same(w, c.name+": trace", w.job(receipts[i].ID).Trace(), traced(i))
			}
		}
	}
	parent := traced(0).Parent
	id := w.enqueue(daybook.Request{Traceparent: "cc" + parent[2:] + "-what-comes-later"})
	same(w, "a later version's", w.job(id).Traceparent, parent)
	for _, r := range []daybook.Request{{Traceparent: "00-" + strings.Repeat("0", 32) + parent[35:]},
		{Traceparent: strings.ToUpper("00-" + strings.Repeat("ab", 16) + parent[35:])}, {Traceparent: parent[:54]},
		{Tracestate: "a=1"}, {Traceparent: parent, Tracestate: "a=1,a=2"}} {
		_, err := w.book.Enqueue(w.ctx, request(r))
		w.refused(err, daybook.CodeInvalid)
	}
}

func traceOfContext(w *world) {
	ctx := daybook.WithTrace(w.ctx, traced(1))
	receipts, err := w.book.EnqueueMany(ctx, []daybook.Request{request(daybook.Request{}),
		request(daybook.Request{Traceparent: traced(2).Parent, Tracestate: traced(2).State})})
	w.ok(err)
	same(w, "of a job without one", w.job(receipts[0].ID).Trace(), traced(1))
	same(w, "of a job with its own", w.job(receipts[1].ID).Trace(), traced(2))
}

func traceReplayed(w *world) {
	first := request(daybook.Request{Key: "a", Traceparent: traced(0).Parent})
	id := w.enqueue(first)
	for _, other := range []daybook.Trace{traced(1), {}} {
		again := first
		again.Traceparent, again.Tracestate = other.Parent, other.State
		receipt, err := w.book.Enqueue(w.ctx, again)
		w.ok(err)
		same(w, "the second request", receipt, daybook.Receipt{ID: id, Replayed: true})
	}
	same(w, "the trace", w.job(id).Trace(), traced(0))
}

// traceClaimed claims few and many: stores have a way of their own for each.
func traceClaimed(w *world) {
	for _, n := range []int{1, 5, 120} {
		requests := tracing(n)
		_, err := w.book.EnqueueMany(w.ctx, requests)
		w.ok(err)
		s := w.session("w")
		call := daybook.NewID()
		for _, what := range []string{"claimed", "claimed again by its call"} {
			got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: n, Call: call})
			w.ok(err)
			same(w, what, len(got.Jobs), n)
			for i, j := range got.Jobs {
				same(w, what+": trace", j.Trace(), traced(i))
				same(w, what+": args", string(j.Args), string(requests[i].Args))
				same(w, what+": kind", j.Kind, "k")
			}
		}
	}
	n := prepared(w, tracing(2)...)[1]
	var id daybook.ID
	w.write(func(tx daybook.Tx) error {
		c := n.Import(daybook.Arrival{Origin: daybook.Origin{System: "old", ID: "1"}}, tx.Now())
		id = c.Now.ID
		return tx.Save(w.ctx, []daybook.Change{c})
	})
	same(w, "moved in", w.claimed(w.session("w")).Trace(), traced(1))
	same(w, "moved in, as read", w.job(id).Trace(), traced(1))
}

func traceStays(w *world) {
	j := w.running(daybook.Request{Traceparent: traced(1).Parent, Tracestate: traced(1).State})
	same(w, "locked", w.locked(j.ID).Trace(), traced(1))
	_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Problem: daybook.NewProblem("no", "", "")},
		new(time.Duration))
	w.ok(err)
	same(w, "claimed after a failure", w.claimed(w.session("w")).Trace(), traced(1))
	w.lapse()
	j = w.claimed(w.session("w"))
	same(w, "claimed after a loss", j.Trace(), traced(1))
	w.complete(j)
	same(w, "of a job that is done", w.stands(j.ID, daybook.Succeeded).Trace(), traced(1))
	page, err := w.book.Jobs(w.ctx, daybook.Filter{State: daybook.Succeeded})
	w.ok(err)
	same(w, "in a list", page.Items[0].Trace(), traced(1))
}
