package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects/outside"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// world is a book, a worker on it, and the destinations.
type world struct {
	t    *testing.T
	book *daybook.Book
	to   map[string]*outside.Server // by kind
	Handlers
}

// newWorld makes one, with the worker to be started.
func newWorld(t *testing.T, o outside.Options) *world {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	book, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "effects.db"),
		sqlite.Options{Book: daybook.Options{Log: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	w := &world{t: t, book: book, to: map[string]*outside.Server{}}
	for kind, begin := range map[string]func(outside.Options) (*outside.Server, error){"charge": outside.NewPayments,
		"mail": outside.NewMail, "price": outside.NewPrices, "letter": outside.NewLegacy} {
		if w.to[kind], err = begin(o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.to[kind].Close)
	}
	w.Handlers = Handlers{Client: &http.Client{}, Payments: w.to["charge"].URL, Mail: w.to["mail"].URL,
		Prices: w.to["price"].URL, Legacy: w.to["letter"].URL, Window: time.Hour,
		Quiet: o.Appear + 2*time.Second} // a busy machine acts late
	return w
}

// work runs the worker until the test ends.
func (w *world) work() {
	made := worker.New(w.book, worker.Config{Queues: []string{"orders"}, Lease: 3 * time.Second,
		Poll: 20 * time.Millisecond, Grace: -1})
	w.Register(made, worker.KindOptions{Retry: daybook.Backoff{First: 20 * time.Millisecond, Cap: 20 * time.Millisecond}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) enqueue(kind string) daybook.ID {
	w.t.Helper()
	receipt, err := w.book.Enqueue(w.t.Context(), daybook.Request{Queue: "orders", Kind: kind,
		Args: json.RawMessage(`{"order": "A-1", "value": "12.00"}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	return receipt.ID
}

// rests waits until nothing happens to the job any more, and says how it ended
// and with what result.
func (w *world) rests(id daybook.ID) string {
	w.t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range look.C {
		job, err := w.book.Job(w.t.Context(), id)
		switch {
		case err != nil:
			w.t.Fatal(err)
		case job.State != daybook.Waiting && job.State != daybook.Running:
			return strings.TrimSpace(fmt.Sprintf("%s %s%s", job.State, job.Reason, job.Result))
		}
	}
	return ""
}

func (w *world) effect(id daybook.ID) daybook.Effect {
	w.t.Helper()
	page, err := w.book.Effects(w.t.Context(), daybook.EffectFilter{Job: id})
	if err != nil || len(page.Items) != 1 {
		w.t.Fatalf("got effects %v, %v; want one", page.Items, err)
	}
	return page.Items[0]
}

// What becomes of one order when its destination misbehaves at the first
// request.
func TestPolicies(t *testing.T) {
	const done = `succeeded {"receipt":1}`
	for _, tt := range []struct {
		kind  string
		fault outside.Fault
		ends  string
		acts  int
		asked int
	}{
		{"charge", "", done, 1, 1},
		{"charge", outside.Drop, done, 1, 2}, // the stored receipt, replayed
		{"charge", outside.Slow, done, 1, 2},
		{"charge", outside.Refuse, done, 1, 2},                // with the next key: the old one would be refused for ever
		{"charge", outside.Fail, "set_aside permanent", 1, 2}, // a stored 500 is no answer, now nor later
		{"mail", "", done, 1, 1},
		{"mail", outside.Drop, done, 1, 1}, // found
		{"mail", outside.Slow, done, 1, 1},
		{"mail", outside.Fail, done, 1, 1},
		{"mail", outside.Refuse, done, 1, 2},
		{"mail", outside.Twice, done, 2, 1}, // by the provider alone: no policy helps
		{"price", outside.Drop, done, 1, 2},
		{"price", outside.Slow, done, 1, 2},
		{"price", outside.Fail, done, 1, 2},
		{"letter", "", done, 1, 1},
		{"letter", outside.Refuse, done, 1, 2},
		{"letter", outside.Drop, "set_aside effect_open", 1, 1},
		{"letter", outside.Slow, "set_aside effect_open", 1, 1},
		{"letter", outside.Fail, "set_aside effect_open", 1, 1},
	} {
		t.Run(tt.kind+"/"+string(tt.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, outside.Options{Appear: 100 * time.Millisecond})
			w.to[tt.kind].Next(tt.fault)
			id := w.enqueue(tt.kind)
			w.work()
			if got := w.rests(id); got != tt.ends {
				t.Errorf("got %s, want %s", got, tt.ends)
			}
			acts, asked := w.to[tt.kind].Acts("A-1"), w.to[tt.kind].Asked("A-1")
			// PUT and requests with an Idempotency-Key are asked again by Go's own
			// client when their connection breaks.
			if len(acts) != tt.acts || asked < tt.asked {
				t.Errorf("the destination acted %d times on %d requests, want %d on %d", len(acts), asked, tt.acts, tt.asked)
			}
		})
	}
}

// A person settles what the ledger can't know, and the job goes on from that.
func TestSettled(t *testing.T) {
	for _, happened := range []bool{true, false} {
		t.Run(fmt.Sprint(happened), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, outside.Options{})
			w.to["letter"].Next(outside.Drop)
			id := w.enqueue("letter")
			w.work()
			w.rests(id)
			verdict, want, letters := daybook.Verdict{Happened: true, Result: json.RawMessage(`{"receipt":1}`)},
				`succeeded {"receipt":1}`, 1
			if !happened { // it was shredded at once, say
				verdict, want, letters = daybook.Verdict{}, `succeeded {"receipt":2}`, 2
			}
			by := daybook.By{Actor: "ada", Reason: "looked into the drawer"}
			if _, err := w.book.Settle(t.Context(), id, "letter", verdict, by); err != nil {
				t.Fatal(err)
			}
			if got := w.rests(id); got != want || len(w.to["letter"].Acts("A-1")) != letters {
				t.Errorf("got %s with %v, want %s", got, w.to["letter"].Acts("A-1"), want)
			}
		})
	}
}

// What a declared time is for: each case breaks its promise or comes past it.
func TestTimes(t *testing.T) {
	t.Run("past the window", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, outside.Options{})
		w.Window = time.Second // and so long the call takes: the next attempt comes later
		w.to["charge"].Next(outside.Slow)
		id := w.enqueue("charge")
		w.work()
		if got := w.rests(id); got != "set_aside effect_open" || len(w.to["charge"].Acts("A-1")) != 1 {
			t.Errorf("got %s with %v, want a person to be asked", got, w.to["charge"].Acts("A-1"))
		}
	})
	t.Run("a window longer than the API's", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, outside.Options{Forget: time.Millisecond})
		w.to["charge"].Next(outside.Slow)
		id := w.enqueue("charge")
		w.work()
		if got := w.rests(id); got != `succeeded {"receipt":2}` || len(w.to["charge"].Acts("A-1")) != 2 {
			t.Errorf("got %s with %v, want two charges", got, w.to["charge"].Acts("A-1"))
		}
	})
	t.Run("quiet shorter than the delay", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, outside.Options{Appear: time.Hour})
		w.Quiet = 0
		w.to["mail"].Next(outside.Drop)
		id := w.enqueue("mail")
		w.work()
		if got := w.rests(id); got != `succeeded {"receipt":2}` || len(w.to["mail"].Acts("A-1")) != 2 {
			t.Errorf("got %s with %v, want two messages", got, w.to["mail"].Acts("A-1"))
		}
	})
	t.Run("nobody can tell", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, outside.Options{})
		w.to["mail"].Blind(true)
		w.to["mail"].Next(outside.Drop)
		id := w.enqueue("mail")
		w.work()
		if got := w.rests(id); got != "set_aside effect_open" || len(w.to["mail"].Acts("A-1")) != 1 {
			t.Errorf("got %s with %v, want a person to be asked", got, w.to["mail"].Acts("A-1"))
		}
	})
}

// Only an error that is a certain no says so.
func TestCertainNo(t *testing.T) {
	w := newWorld(t, outside.Options{})
	gone := w.to["letter"]
	gone.Close()
	id := w.enqueue("letter")
	w.work()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range look.C { // it is tried again: nothing can have happened
		if job, err := w.book.Job(t.Context(), id); err != nil {
			t.Fatal(err)
		} else if job.Failures > 1 {
			break
		}
	}
	if _, err := w.book.Cancel(t.Context(), id, daybook.By{Actor: "ada"}, false); err != nil {
		t.Fatal(err)
	}
	w.rests(id)
	if e := w.effect(id); e.State != daybook.EffectAbsent {
		t.Errorf("effect is %s, want absent", e.State)
	}
	h := Handlers{Client: &http.Client{}, Legacy: gone.URL}
	if _, err := h.post(t.Context(), "POST", h.Legacy+"/letters", "", Order{Number: "A-2"}); err == nil {
		t.Error("a destination that is gone took an order")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.post(ended, "POST", w.to["mail"].URL+"/messages/m", "", Order{Number: "A-2"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
}
