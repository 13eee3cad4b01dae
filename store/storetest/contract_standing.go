package storetest

import (
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfStanding = []test{
	{"a standing call is a claim with the enqueue", func(w *world) { standingClaims(w, daybook.Request{}) }},
	{"a standing call is a claim with the enqueue of a key", func(w *world) {
		standingClaims(w, daybook.Request{Key: "k", ExpiresAt: w.clock.now().Add(time.Hour)})
	}},
	{"a standing call is a claim with the enqueue of an id", func(w *world) {
		standingClaims(w, daybook.Request{ID: daybook.NewID(), Priority: 3, Timeout: time.Minute, MaxFailures: 2,
			Args: []byte(`{"n": 1.0}`)})
	}},
	{"a standing call is for jobs that it can be given", standingFor},
	{"a standing call takes what waits, all or nothing", standingBacklog},
	{"a standing call that can't be made is answered", standingAnswered},
	{"a standing call is withdrawn once", standingWithdrawn},
}

// standing leaves a claim call with the book.
func (w *world) standing(s daybook.Session, limit int, kinds ...string) (*daybook.Standing, daybook.ClaimRequest) {
	r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"other", "q"}, Kinds: kinds, Limit: limit,
		Call: daybook.NewID()}
	return w.book.Stand(r, func() {}), r
}

// answer is of a call that was taken. Of a store that makes none it claims nothing.
func (w *world) answer(standing *daybook.Standing) daybook.Stood {
	w.Helper()
	if standing.Withdraw() {
		w.Fatal("nobody took the standing call")
	}
	stood := <-standing.Answer()
	w.ok(stood.Err)
	if !stood.Made {
		same(w, "claims of a call that wasn't made", len(stood.Jobs), 0)
	}
	return stood
}

// standingClaims holds what the call was given to what its repeat by its id is given,
// and to Job.Claim.
func standingClaims(w *world, r daybook.Request) {
	s := w.session("w")
	w.enqueue(daybook.Request{})
	w.complete(w.claimed(s)) // the queue isn't new
	standing, call := w.standing(s, 9)
	id := w.enqueue(r)
	stood := w.answer(standing)
	if !stood.Made {
		w.stands(id, daybook.Waiting)
		return
	}
	same(w, "claims", len(stood.Jobs), 1)
	same(w, "session", stood.Session.ID, s.ID)
	again, err := w.book.Claim(w.ctx, call)
	w.ok(err)
	same(w, "claims of the call repeated", len(again.Jobs), 1)
	got, want := stood.Jobs[0], again.Jobs[0]
	got.Ref, want.Ref = 0, 0
	same(w, "the claim", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	same(w, "generation", w.stands(id, daybook.Running).Generation, got.Generation)
	w.complete(got)
	same(w, "attempts", len(w.attempts(id)), 1)
}

// standingFor: only the enqueue of one job takes it, that is due, and of its queues
// and kinds.
func standingFor(w *world) {
	s := w.session("w")
	standing, _ := w.standing(s, 9, "k")
	for _, r := range []daybook.Request{{Queue: "elsewhere", Kind: "k"}, {Kind: "another"},
		{Kind: "k", In: time.Hour}, {Kind: "k", RunAt: w.clock.now().Add(time.Hour)}} {
		w.stands(w.enqueue(r), daybook.Waiting)
	}
	_, err := w.book.EnqueueMany(w.ctx, []daybook.Request{request(daybook.Request{Kind: "k"}),
		request(daybook.Request{Kind: "k"})})
	w.ok(err)
	same(w, "withdrawn", standing.Withdraw(), true)
}

// standingBacklog: what waited before the job goes first, or everything goes the usual
// way.
func standingBacklog(w *world) {
	s := w.session("w")
	first := w.enqueue(daybook.Request{})
	standing, _ := w.standing(s, 9)
	second := w.enqueue(daybook.Request{})
	var ids []daybook.ID
	if stood := w.answer(standing); stood.Made {
		for _, j := range stood.Jobs {
			ids = append(ids, j.ID)
		}
		same(w, "claims, oldest first", fmt.Sprint(ids), fmt.Sprint([]daybook.ID{first, second}))
	}
	w.enqueue(daybook.Request{})
	standing, _ = w.standing(s, 1)
	w.stands(w.enqueue(daybook.Request{}), daybook.Waiting)
	same(w, "made of more than it wants", w.answer(standing).Made, false)
}

// standingAnswered: of a session that may not claim, a paused queue, and an enqueue
// that is refused or repeated.
func standingAnswered(w *world) {
	s := w.session("w")
	w.ok(w.book.Pause(w.ctx, "q", someone))
	standing, _ := w.standing(s, 9)
	paused := w.enqueue(daybook.Request{Key: "k", Args: []byte(`1`)})
	same(w, "claims of a paused queue", len(w.answer(standing).Jobs), 0)
	w.ok(w.book.Resume(w.ctx, "q", someone))
	_, err := w.book.Cancel(w.ctx, paused, someone, false)
	w.ok(err)

	standing, _ = w.standing(s, 9)
	_, err = w.book.Enqueue(w.ctx, request(daybook.Request{Key: "k", Args: []byte(`2`)}))
	same(w, "another job of the key", daybook.CodeOf(err), daybook.CodeKeyConflict)
	same(w, "made with a refused enqueue", w.answer(standing).Made, false)

	standing, _ = w.standing(s, 9)
	same(w, "the key's job", w.enqueue(daybook.Request{Key: "k", Args: []byte(`1`)}), paused)
	same(w, "claims with a replay", len(w.answer(standing).Jobs), 0)

	w.ok(w.book.EndSession(w.ctx, s.ID))
	standing, _ = w.standing(s, 9)
	w.stands(w.enqueue(daybook.Request{}), daybook.Waiting)
	same(w, "made for an ended session", w.answer(standing).Made, false)
}

func standingWithdrawn(w *world) {
	standing, _ := w.standing(w.session("w"), 9)
	same(w, "withdrawn", standing.Withdraw(), true)
	same(w, "withdrawn twice", standing.Withdraw(), false)
	w.stands(w.enqueue(daybook.Request{}), daybook.Waiting)
}
