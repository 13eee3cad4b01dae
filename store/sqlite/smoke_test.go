package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	book, err := Open(ctx, t.TempDir()+"/a.db", Options{})
	if err != nil { t.Fatal(err) }
	defer book.Close()
	r, err := book.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "k", Key: "k1", Args: json.RawMessage(`{"a":"<>&",  "b":1.0}`)})
	fmt.Println(r, err)
	r, err = book.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "k", Key: "k1", Args: json.RawMessage(`{"b":1,"a":"<>&"}`)})
	fmt.Println(r, err)
	_, err = book.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "k", Key: "k1", Args: json.RawMessage(`{"b":2,"a":"<>&"}`)})
	fmt.Println(err)
	c, err := book.Claim(ctx, daybook.ClaimRequest{Queues: []string{"q"}, Limit: 10})
	fmt.Println(len(c.Jobs), err)
	o := daybook.Owner{Session: c.Session.ID, Generation: c.Jobs[0].Generation}
	a, err := book.Fail(ctx, r.ID, o, daybook.Failure{Problem: daybook.NewProblem("boom\x00", "", "")}, nil)
	fmt.Println(a, err)
	a, err = book.Fail(ctx, r.ID, o, daybook.Failure{}, nil)
	fmt.Println(a, err)
	a, err = book.Complete(ctx, r.ID, o, nil)
	fmt.Println(a, err)
	ev, err := book.Timeline(ctx, r.ID)
	for _, e := range ev { fmt.Println(e) }
	j, _ := book.Job(ctx, r.ID)
	b, _ := json.Marshal(j)
	fmt.Println(string(b))
	_, bl, err := book.Backlog(ctx)
	fmt.Printf("%+v %v\n", bl, err)
	_, err = book.Cancel(ctx, r.ID, daybook.By{Actor: "me", Reason: "x"}, false)
	j, err = book.Revive(ctx, r.ID, daybook.By{Actor: "me", Reason: "x"})
	fmt.Println(j.State, err)
	w, err := book.Why(ctx, r.ID)
	fmt.Println(w, err)
}

func TestSpeed(t *testing.T) {
	ctx := context.Background()
	book, err := Open(ctx, t.TempDir()+"/a.db", Options{})
	if err != nil { t.Fatal(err) }
	defer book.Close()
	const n = 50000
	start := time.Now()
	for i := 0; i < n; i += 100 {
		reqs := make([]daybook.Request, 100)
		for k := range reqs { reqs[k] = daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(`{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)} }
		if _, err := book.EnqueueMany(ctx, reqs); err != nil { t.Fatal(err) }
	}
	fmt.Printf("enqueue %.0f/s\n", n/time.Since(start).Seconds())
	s, err := book.StartSession(ctx, daybook.SessionRequest{Worker: "w"})
	if err != nil { t.Fatal(err) }
	start = time.Now()
	done := 0
	for {
		c, err := book.Claim(ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 100})
		if err != nil { t.Fatal(err) }
		if len(c.Jobs) == 0 { break }
		outs := make([]daybook.Outcome, len(c.Jobs))
		for i, j := range c.Jobs { outs[i] = daybook.Outcome{Job: j.ID, Owner: daybook.Owner{Session: s.ID, Generation: j.Generation}, Kind: daybook.OutcomeSucceeded} }
		as, err := book.Finish(ctx, outs)
		if err != nil { t.Fatal(err) }
		for _, a := range as { if a.Err != nil { t.Fatal(a.Err) } }
		done += len(as)
	}
	fmt.Printf("work %d %.0f/s\n", done, n/time.Since(start).Seconds())
	// two in flight: claim and finish in the same commit
}
