package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// runPortable holds every store to what databases like to change: bytes, order,
// letters, precision and size.
func runPortable(t *testing.T, open opener) {
	each(t, open, []test{
		{"args byte for byte", argsExact},
		{"results byte for byte", resultsExact},
		{"the largest of everything", largest},
		{"one more than the largest", tooLargeRefused},
		{"full batches", fullBatches},
		{"nothing at all", nothingAtAll},
		{"names", names},
		{"keys are compared by their bytes", keysExact},
		{"letters of people", letters},
		{"order of claims", claimOrder},
		{"priorities at their limits", priorityLimits},
		{"precision of time", timePrecision},
		{"times at their limits", timeLimits},
		{"generations beyond 2^53", bigGenerations},
	})
}

// documents are JSON texts that a database or an encoder may rewrite.
var documents = []string{
	`{}`, `[]`, `null`, `true`, `0`, `-0`, `""`,
	`{"html":"<b>&amp;</b>","line":"\u2028"}`,
	`{"n":1.0,"m":1.00,"e":1E+2,"big":9007199254740993,"huge":123456789012345678901234567890}`,
	`{"z":1,"a":2,"m":3}`,
	"{ \"spaced\" :\t[ 1 , 2 ]\n}", " \t{\"around\":1}\r\n ",
	`{"u":"\u00e9","v":"é","w":"\ud83d\ude00","x":"😀"}`,
	`{"escaped":"\/ \\ \" \b\f\n\r\t"}`,
	`{"sql":"'; DROP TABLE job; --","percent":"%_","nul":"\\u0000"}`,
	`1e400`,
	`"` + strings.Repeat("ab", 4096) + `"`,
}

func argsExact(w *world) {
	for _, doc := range documents {
		id := w.enqueue(daybook.Request{Args: json.RawMessage(doc)})
		same(w, "args as read", string(w.job(id).Args), doc)
		j := w.claimed(w.session("w"))
		same(w, "args as claimed", string(j.Args), doc)
		w.complete(j)
	}
	id := w.enqueue(daybook.Request{})
	same(w, "args that nobody gave", string(w.job(id).Args), `{}`)
}

func resultsExact(w *world) {
	for _, doc := range append([]string{""}, documents...) {
		j := w.running(daybook.Request{Key: daybook.NewID().String()})
		_, err := w.book.Complete(w.ctx, j.ID, owner(j), json.RawMessage(doc))
		w.ok(err)
		same(w, "result", string(w.job(j.ID).Result), doc)
	}
	w.clock.advance(daybook.RetentionDefault)
	page, err := w.book.Jobs(w.ctx, daybook.Filter{State: daybook.Succeeded, Limit: 100})
	w.ok(err)
	w.prune(len(documents) + 1)
	for _, j := range page.Items {
		k, err := w.book.Key(w.ctx, j.Key)
		w.ok(err)
		same(w, "result kept with the key", string(k.Result), string(j.Result))
	}
}

func jsonOf(bytes int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`)
}

func largest(w *world) {
	args, result, progress := jsonOf(daybook.ArgsMax), jsonOf(daybook.ResultMax), jsonOf(daybook.ProgressMax)
	key, name := strings.Repeat("k", daybook.KeyMax), strings.Repeat("n", daybook.NameMax)
	id := w.enqueue(daybook.Request{Queue: name, Kind: name, Args: args, Key: key,
		MaxFailures: daybook.MaxFailuresMax,
		Timeout:     daybook.TimeoutMax})
	worker := strings.Repeat("w", daybook.WorkerMax)
	s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Worker: worker, Lease: daybook.LeaseMax})
	w.ok(err)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{name},
		Kinds: []string{name}})
	w.ok(err)
	same(w, "claims", len(got.Jobs), 1)
	j := got.Jobs[0]
	same(w, "args", string(j.Args) == string(args), true)
	w.ok(w.book.Progress(w.ctx, id, owner(j), progress))
	same(w, "progress", string(w.job(id).Progress) == string(progress), true)
	problem := daybook.NewProblem(strings.Repeat("é", daybook.ErrorMax), "kind", strings.Repeat("t",
		daybook.ErrorMax))
	_, err = w.book.Fail(w.ctx, id, owner(j), daybook.Failure{Problem: problem}, new(time.Duration))
	w.ok(err)
	same(w, "error", *w.job(id).LastError, *problem)
	got, err = w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{name}})
	w.ok(err)
	_, err = w.book.Complete(w.ctx, id, owner(got.Jobs[0]), result)
	w.ok(err)
	done := w.stands(id, daybook.Succeeded)
	same(w, "result", string(done.Result) == string(result), true)
	same(w, "key", done.Key, key)
	same(w, "max_failures", done.MaxFailures, daybook.MaxFailuresMax)
	same(w, "timeout", done.Timeout, daybook.TimeoutMax)
	same(w, "worker", w.attempts(id)[1].Worker, worker)
	same(w, "replay of the longest key", w.enqueue(daybook.Request{Queue: name, Kind: name, Args: args,
		Key: key}), id)
}

func tooLargeRefused(w *world) {
	long := func(n int) string { return strings.Repeat("x", n+1) }
	for _, c := range []struct {
		name string
		r    daybook.Request
		code daybook.Code
	}{
		{"args", daybook.Request{Args: jsonOf(daybook.ArgsMax + 1)}, daybook.CodeTooLarge},
		{"queue", daybook.Request{Queue: long(daybook.NameMax)}, daybook.CodeInvalid},
		{"kind", daybook.Request{Kind: long(daybook.NameMax)}, daybook.CodeInvalid},
		{"key", daybook.Request{Key: long(daybook.KeyMax)}, daybook.CodeInvalid},
		{"priority", daybook.Request{Priority: daybook.PriorityMax + 1}, daybook.CodeInvalid},
		{"priority below", daybook.Request{Priority: daybook.PriorityMin - 1}, daybook.CodeInvalid},
		{"max_failures", daybook.Request{MaxFailures: daybook.MaxFailuresMax + 1}, daybook.CodeInvalid},
		{"timeout", daybook.Request{Timeout: daybook.TimeoutMax + 1}, daybook.CodeInvalid},
		{"in", daybook.Request{In: -1}, daybook.CodeInvalid},
	} {
		_, err := w.book.Enqueue(w.ctx, request(c.r))
		if daybook.CodeOf(err) != c.code {
			w.Errorf("%s: got %v, want %s", c.name, err, c.code)
		}
	}
	j := w.running(daybook.Request{})
	w.refused(w.book.Progress(w.ctx, j.ID, owner(j), jsonOf(daybook.ProgressMax+1)), daybook.CodeTooLarge)
	_, err := w.book.Complete(w.ctx, j.ID, owner(j), jsonOf(daybook.ResultMax+1))
	w.ok(err)
	same(w, "a result that can't be kept", w.stands(j.ID, daybook.SetAside).Reason, daybook.ReasonPermanent)
}

func fullBatches(w *world) {
	requests := make([]daybook.Request, daybook.BatchMax)
	for i := range requests {
		requests[i] = request(daybook.Request{})
	}
	_, err := w.book.EnqueueMany(w.ctx, make([]daybook.Request, daybook.EnqueueMax+1))
	w.refused(err, daybook.CodeTooLarge)
	receipts, err := w.book.EnqueueMany(w.ctx, requests)
	w.ok(err)
	same(w, "receipts", len(receipts), daybook.BatchMax)
	jobs := w.claim(w.session("w"), daybook.BatchMax)
	same(w, "claims", len(jobs), daybook.BatchMax)
	outcomes := make([]daybook.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = success(j, "")
	}
	answers, err := w.book.Finish(w.ctx, outcomes)
	w.ok(err)
	for _, a := range answers {
		w.ok(a.Err)
	}
	same(w, "succeeded", w.counts().Succeeded, daybook.BatchMax)
}

func nothingAtAll(w *world) {
	receipts, err := w.book.EnqueueMany(w.ctx, nil)
	w.ok(err)
	same(w, "receipts", len(receipts), 0)
	answers, err := w.book.Finish(w.ctx, nil)
	w.ok(err)
	same(w, "answers", len(answers), 0)
	lost, err := w.book.Started(w.ctx, w.session("w").ID, nil)
	w.ok(err)
	same(w, "lost", len(lost), 0)
	w.write(func(tx daybook.Tx) error {
		for _, err := range []error{tx.Save(w.ctx, nil), tx.SaveOwned(w.ctx, nil), tx.SaveRefusals(w.ctx, nil),
			tx.Prune(w.ctx, nil)} {
			w.ok(err)
		}
		return nil
	})
	same(w, "passes find", w.reconcile(daybook.AtOnce), pass{})
	_, backlog, err := w.book.Backlog(w.ctx)
	w.ok(err)
	same(w, "queues", len(backlog), 0)
}

// claimOrder is by priority, then by when a job became eligible, then by
// arrival; by age alone when the oldest are asked for.
func claimOrder(w *world) {
	var ids []daybook.ID
	for i := range 60 {
		r := daybook.Request{Priority: i % 3}
		if i%4 == 0 {
			r.In = time.Duration(60-i) * time.Millisecond
		}
		ids = append(ids, w.enqueue(r))
	}
	w.clock.advance(time.Second)
	for i := range 6 {
		ids = append(ids, w.enqueue(daybook.Request{Priority: i % 3}))
	}
	for _, oldest := range []bool{false, true} {
		want := make([]daybook.Job, len(ids))
		for i, id := range ids {
			want[i] = w.locked(id)
		}
		slices.SortStableFunc(want, byAge(oldest))
		s := w.session("w")
		got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 100,
			Oldest: oldest})
		w.ok(err)
		same(w, "claims", len(got.Jobs), len(want))
		for i, j := range got.Jobs {
			same(w, fmt.Sprintf("claim %d (oldest %v)", i, oldest), j.ID, want[i].ID)
		}
		w.ok(w.book.EndSession(w.ctx, s.ID)) // all are eligible from now on, by arrival
	}
}
