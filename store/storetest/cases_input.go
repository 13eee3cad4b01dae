package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

var casesOfInput = []test{
	{"L22", hostileArgs}, {"L33", prunedKey}, {"L34", sameArgs}, {"L53", zones},
}

// hostileArgs (hardbyte/awa #85): what can't be stored is refused with its path;
// what only looks like it comes back byte for byte.
func hostileArgs(w *world) {
	for _, c := range []struct{ args, path string }{
		{`{"a":"\u0000"}`, "/a"},
		{`{"a":[1,{"b\u0000":2}]}`, "/a/1"},
		{`["x","\ud800"]`, "/1"},
		{`{"a":{"b":1,"b":2}}`, "/a/b"},
		{"{\"a\":\"\xff\"}", "/a"},
	} {
		_, err := w.book.Enqueue(w.ctx, request(daybook.Request{Args: json.RawMessage(c.args)}))
		w.refused(err, daybook.CodeInvalid)
		if !strings.Contains(err.Error(), c.path) {
			w.Errorf("%s: got %q, want the path %s", c.args, err, c.path)
		}
	}
	for _, args := range []string{`{"a":"\\u0000"}`, `{"a":"\\\\u0000"}`, `"\ud83d\ude00"`} {
		id := w.enqueue(daybook.Request{Args: json.RawMessage(args)})
		same(w, "args", string(w.job(id).Args), args)
	}
	_, err := w.book.Enqueue(w.ctx, request(daybook.Request{Key: "k\x00"}))
	w.refused(err, daybook.CodeInvalid)
	same(w, "accepted", w.counts().Accepted, 3)
}

// prunedKey (elizaOS/eliza #28776): the key goes on answering after its job was
// removed, and a removal that races a repeat never makes two jobs.
func prunedKey(w *world) {
	r := request(daybook.Request{Key: "order"})
	j := w.running(r)
	w.complete(j)
	w.clock.advance(daybook.RetentionDefault)
	answers := make(chan daybook.Receipt)
	for range 8 {
		go func() {
			receipt, err := w.book.Enqueue(w.ctx, r)
			if err != nil {
				w.Errorf("repeat: %v", err)
			}
			answers <- receipt
		}()
	}
	w.prune(1)
	for range 8 {
		same(w, "answer", <-answers, daybook.Receipt{ID: j.ID, Replayed: true})
	}
	same(w, "accepted", w.counts().Accepted, 1)
	k, err := w.book.Key(w.ctx, "order")
	w.ok(err)
	same(w, "result", string(k.Result), `"done"`)
}

// sameArgs (mojaloop/project #2463): the order of keys and the way a number is
// written don't make another request.
func sameArgs(w *world) {
	first := w.enqueue(daybook.Request{Key: "k", Args: json.RawMessage(`{"a":1,"b":[1.50,"x"]}`)})
	for _, args := range []string{`{"b":[1.5,"x"],"a":1}`, `{"a":1.0,"b":[15e-1,"x"]}`,
		"{ \"b\" : [1.500,\"\\u0078\"] ,\n\"a\":1 }"} {
		same(w, args, w.enqueue(daybook.Request{Key: "k", Args: json.RawMessage(args)}), first)
	}
	for _, args := range []string{`{"a":1,"b":["x",1.5]}`, `{"a":"1","b":[1.5,"x"]}`,
		`{"a":1,"b":[1.5,"x"],"c":null}`} {
		_, err := w.book.Enqueue(w.ctx, request(daybook.Request{Key: "k", Args: json.RawMessage(args)}))
		w.refused(err, daybook.CodeKeyConflict)
	}
	same(w, "args as they came first", string(w.job(first).Args), `{"a":1,"b":[1.50,"x"]}`)
}

// zones (janbjorge/pgqueuer #807): the same instant in three time zones is the
// same run_at.
func zones(w *world) {
	at := epoch.Add(90 * time.Minute)
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("New York", -5*3600),
		time.FixedZone("Tokyo", 9*3600)} {
		id := w.enqueue(daybook.Request{RunAt: at.In(zone), ExpiresAt: at.Add(time.Hour).In(zone)})
		j := w.job(id)
		same(w, "run_at", j.RunAt, daybook.At(at))
		same(w, "expires_at", j.ExpiresAt, daybook.At(at.Add(time.Hour)))
	}
	s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Lease: daybook.LeaseMax})
	w.ok(err)
	same(w, "too early", len(w.claim(s, 3)), 0)
	w.clock.advance(90 * time.Minute)
	same(w, "due together", len(w.claim(s, 3)), 3)
}
