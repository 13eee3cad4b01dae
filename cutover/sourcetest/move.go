package sourcetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

func takeInOrder(t *testing.T, p *place) {
	ids := p.fill(t, 5)
	o := p.old(t)
	if p.has(daybook.OldOwned) {
		p.Put(t, daybook.OldOwned, "alive", "[]", due(0))
	}
	if p.has(daybook.OldBlocked) {
		p.Put(t, daybook.OldBlocked, "blocked", "[]", due(0))
	}
	var want []string
	_, err := o.Scan(t.Context(), 0, func(job daybook.OldJob) error {
		if job.State.Movable() {
			want = append(want, job.Name())
		}
		return nil
	})
	must(t, err)
	if !slices.Equal(want[:5], []string{"waiting-000", "waiting-001", "waiting-002", "waiting-003", "waiting-004"}) {
		t.Errorf("waiting ones are visited as %v, which isn't the order in which they came", want[:5])
	}
	var got []string
	for _, job := range take(t, o, 3) {
		got = append(got, job.Name())
		if job.State != ids[job.Name()] {
			t.Errorf("%s was taken as %s, want %s", job.Name(), job.State, ids[job.Name()])
		}
	}
	if !slices.Equal(got[:5], want[:5]) || len(got) != len(ids) {
		t.Errorf("taken in the order %v, want waiting ones first: %v", got, want)
	}
	for _, state := range movable { // each by its time
		var some []string
		for _, id := range got {
			if ids[id] == state {
				some = append(some, id)
			}
		}
		if !slices.IsSorted(some) {
			t.Errorf("%s ones were taken in the order %v", state, some)
		}
	}
	for name := range scan(t, o) {
		if name != "alive" && name != "blocked" {
			t.Errorf("%s is still there", name)
		}
	}
}

func heldUntilDropped(t *testing.T, p *place) {
	ids := p.fill(t, 5)
	o := p.old(t)
	read := scan(t, o)
	took := take(t, o, 100)
	kept := held(t, p.old(t)) // another mover sees the same
	if !slices.Equal(names(took), names(kept)) {
		t.Errorf("held are %v, taken %v", names(kept), names(took))
	}
	for i, job := range kept {
		was := read[job.Name()]
		if job.State != took[i].State || string(job.Raw) != string(took[i].Raw) || string(job.Args) != string(was.Args) ||
			job.Hash() != was.Hash() || job.DueAt != was.DueAt || job.Attempts != was.Attempts ||
			job.MaxAttempts != was.MaxAttempts || job.Error != was.Error || job.EnqueuedAt != was.EnqueuedAt {
			t.Errorf("held is %+v\ntaken %+v\nread %+v", job, took[i], was)
		}
	}
	if some, err := o.Held(t.Context(), 3); err != nil || !slices.Equal(names(some), names(kept)[:3]) {
		t.Errorf("the first three held are %v (%v)", names(some), err)
	}
	must(t, o.Drop(t.Context(), kept[:7]))
	must(t, o.Drop(t.Context(), kept[:7])) // again: they aren't there
	if got := names(held(t, o)); !slices.Equal(got, names(kept)[7:]) {
		t.Errorf("after dropping seven, held are %v", got)
	}
	must(t, o.Drop(t.Context(), kept))
	must(t, o.Drop(t.Context(), nil))
	if n := len(held(t, o)); n != 0 || len(kept) != len(ids) {
		t.Errorf("%d are held in the end, %d were", n, len(kept))
	}
}

// book is what a mover keeps outside: what it has recorded, by name.
type book map[string]int

// settle does what a mover does first after it started: what is held is recorded,
// then dropped.
func (b book) settle(t testing.TB, o cutover.Old) {
	t.Helper()
	for _, job := range held(t, o) {
		b[job.Name()] = 1 // a second record of the same is recognised
	}
	must(t, o.Drop(t.Context(), held(t, o)))
}

// moverDies: after each step, each job is in one place: the queue, the held list,
// or the book with or without the held list.
func moverDies(t *testing.T, p *place) {
	ids := p.fill(t, 6)
	b := book{}
	check := func(step string) {
		t.Helper()
		o := p.old(t) // the next mover
		there := scan(t, o)
		for _, job := range held(t, o) {
			if _, twice := there[job.Name()]; twice {
				t.Errorf("%s: %s is in the queue and held", step, job.Name())
			}
			there[job.Name()] = job
		}
		for id := range ids {
			if _, is := there[id]; !is && b[id] == 0 {
				t.Errorf("%s: %s is nowhere", step, id)
			}
		}
	}
	for n := 0; ; n++ {
		o := p.old(t)
		jobs, err := o.Take(t.Context(), 4)
		must(t, err)
		check("after take")
		if n%2 == 0 { // dies before it records
			b.settle(t, p.old(t))
			check("after settling")
		}
		for _, job := range jobs {
			b[job.Name()] = 1
		}
		check("after recording")
		must(t, p.old(t).Drop(t.Context(), jobs))
		check("after drop")
		if len(jobs) == 0 {
			break
		}
	}
	if len(b) != len(ids) {
		t.Errorf("%d recorded, want %d", len(b), len(ids))
	}
}

// answersLost: the store does what it is asked, and its answer never comes.
func answersLost(t *testing.T, p *place) {
	ids := p.fill(t, 60)
	url := "redis://" + p.Proxy.Addr()
	b, failed := book{}, 0
	random := rand.New(rand.NewPCG(1, 2))
	for done := false; !done; {
		o := p.Open(t, url, 0)
		if random.IntN(2) == 0 {
			p.Proxy.DropAnswers(1)
		}
		jobs, err := o.Take(t.Context(), 1+random.IntN(10))
		if done = err == nil && len(jobs) == 0; err != nil {
			failed++
			b.settle(t, p.old(t))
		}
		for _, job := range jobs {
			b[job.Name()]++
		}
		if random.IntN(3) == 0 {
			p.Proxy.DropAnswers(1)
		}
		if err := o.Drop(t.Context(), jobs); err != nil {
			failed++
			must(t, p.old(t).Drop(t.Context(), jobs))
		}
		p.Proxy.DropAnswers(0)
		o.Close()
	}
	b.settle(t, p.old(t))
	for id := range ids {
		if b[id] != 1 {
			t.Errorf("%s was recorded %d times", id, b[id])
		}
	}
	if failed < 5 {
		t.Errorf("only %d answers were lost: this proves nothing", failed)
	}
}

func fullStore(t *testing.T, p *place) {
	p.fill(t, 3)
	before := Dump(t, p.Client)
	o := p.old(t)
	scan(t, o) // its connection is there
	must(t, p.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := o.Take(t.Context(), 5)
	code(t, err, daybook.CodeRefused)
	if err != nil && !strings.Contains(err.Error(), "full") {
		t.Errorf("it doesn't say that the store is full: %v", err)
	}
	must(t, p.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	after := Dump(t, p.Client)
	must(t, o.Forget(t.Context()))
	after = Dump(t, p.Client)
	same(t, "after a take that was refused", before, after)
}

func returnRestores(t *testing.T, p *place) {
	p.fill(t, 5)
	before := Dump(t, p.Client)
	o := p.old(t)
	for _, dropped := range []bool{false, true} {
		took := take(t, o, 6)
		if dropped {
			must(t, o.Drop(t.Context(), took))
		}
		for _, job := range slices.Backward(took) {
			back, err := p.old(t).Return(t.Context(), daybook.OldJob{Raw: job.Raw}) // by Raw alone
			if err != nil || !back {
				t.Fatalf("returning %s (dropped %v): %v, %v", job.Name(), dropped, back, err)
			}
		}
		if n := len(held(t, o)); n != 0 {
			t.Errorf("%d are held still", n)
		}
		must(t, o.Forget(t.Context()))
		same(t, fmt.Sprintf("returned (dropped %v)", dropped), before, Dump(t, p.Client))
	}
	p.Produce(t, "newer", "[]")
	var order []string
	for _, job := range take(t, o, 100) {
		order = append(order, job.Name())
	}
	if order[5] != "newer" {
		t.Errorf("a newer job is taken as %v", order)
	}
}

// returnFenced: once a rollback is over, who took part in it puts nothing back any
// more, not even when another one goes on.
func returnFenced(t *testing.T, p *place) {
	p.fill(t, 3)
	stale, other := p.old(t), p.old(t)
	took := take(t, other, 100)
	must(t, stale.BeginReturn(t.Context(), "first"))
	must(t, other.BeginReturn(t.Context(), "first")) // both carry it
	if back, err := stale.Return(t.Context(), took[2]); err != nil || !back {
		t.Fatalf("returning: %v, %v", back, err)
	}
	must(t, other.EndReturn(t.Context(), "first"))
	for _, begin := range []bool{false, true} {
		if begin {
			must(t, other.BeginReturn(t.Context(), "second"))
			must(t, stale.EndReturn(t.Context(), "first")) // which is over
		}
		before := Dump(t, p.Client)
		_, err := stale.Return(t.Context(), took[1])
		code(t, err, daybook.CodeFenced)
		same(t, "after a return that was fenced", before, Dump(t, p.Client))
	}
	if back, err := other.Return(t.Context(), took[1]); err != nil || !back {
		t.Errorf("the second rollback: %v, %v", back, err)
	}
	must(t, other.EndReturn(t.Context(), "second"))
}

// takeFenced: once a rollback has begun, who took before changes nothing any more, and
// can't begin anew; nor can who gave back, once that is over.
func takeFenced(t *testing.T, p *place) {
	p.fill(t, 3)
	stale, other := p.old(t), p.old(t)
	must(t, stale.BeginTake(t.Context(), "first"))
	must(t, other.BeginTake(t.Context(), "first")) // both carry it
	took, err := stale.Take(t.Context(), 1)
	if err != nil || len(took) != 1 {
		t.Fatalf("took %d: %v", len(took), err)
	}
	changesNothing := func() {
		t.Helper()
		before := Dump(t, p.Client)
		_, err := stale.Take(t.Context(), 1)
		code(t, err, daybook.CodeFenced)
		code(t, stale.Drop(t.Context(), took), daybook.CodeFenced)
		code(t, stale.CloseGate(t.Context()), daybook.CodeFenced)
		code(t, stale.PutCanary(t.Context(), "canary"), daybook.CodeFenced)
		same(t, "after what was fenced", before, Dump(t, p.Client))
	}
	must(t, other.BeginReturn(t.Context(), "first"))
	changesNothing()
	code(t, p.old(t).BeginTake(t.Context(), "first"), daybook.CodeFenced)
	if back, err := other.Return(t.Context(), took[0]); err != nil || !back {
		t.Errorf("returning: %v, %v", back, err)
	}
	must(t, other.EndReturn(t.Context(), "first"))
	changesNothing()
	for _, begin := range []func(context.Context, string) error{p.old(t).BeginTake, p.old(t).BeginReturn} {
		code(t, begin(t.Context(), "first"), daybook.CodeFenced)
	}
	must(t, other.OpenGate(t.Context()))
	next := p.old(t)
	must(t, next.BeginTake(t.Context(), "second"))
	must(t, next.CloseGate(t.Context()))
	changesNothing()
	code(t, other.OpenGate(t.Context()), daybook.CodeFenced)
	if n := len(take(t, next, 100)); n == 0 {
		t.Error("the second cutover takes nothing")
	}
}

func returnTwice(t *testing.T, p *place) {
	p.fill(t, 3)
	o := p.old(t)
	took := take(t, o, 100)
	must(t, o.Drop(t.Context(), took[:6]))
	for _, job := range slices.Backward(took) {
		back, err := o.Return(t.Context(), job)
		if err != nil || !back {
			t.Fatalf("returning %s: %v, %v", job.Name(), back, err)
		}
	}
	before := Dump(t, p.Client)
	for _, other := range []cutover.Old{o, p.old(t)} {
		for _, job := range took {
			if back, err := other.Return(t.Context(), job); err != nil || back {
				t.Errorf("returning %s again: %v, %v", job.Name(), back, err)
			}
		}
	}
	same(t, "after returning again", before, Dump(t, p.Client))
	_, err := o.Return(t.Context(), daybook.OldJob{Raw: []byte("nonsense")})
	code(t, err, daybook.CodeInvalid)
}

func returnTaken(t *testing.T, p *place) {
	p.fill(t, 2)
	o := p.old(t)
	took := take(t, o, 100)
	must(t, o.Drop(t.Context(), took))
	must(t, o.Forget(t.Context())) // also what a producer would stumble over
	id := took[0].Name()
	if !p.Produce(t, id, `["other work"]`) {
		t.Fatal("a producer is refused after Forget")
	}
	before := Dump(t, p.Client)
	for _, other := range []cutover.Old{o, p.old(t)} {
		if back, err := other.Return(t.Context(), took[0]); err != nil || back {
			t.Errorf("returned over another job of its id: %v, %v", back, err)
		}
	}
	same(t, "after a return that found the id taken", before, Dump(t, p.Client))
}

func lateProducer(t *testing.T, p *place) {
	p.Put(t, daybook.OldWaiting, "late", "[1]", due(0))
	o := p.old(t)
	must(t, o.Drop(t.Context(), take(t, o, 10)))
	if taken := p.Produce(t, "late", "[1]"); taken == p.Stumbles {
		t.Errorf("a late producer is taken: %v, and the system stumbles: %v", taken, p.Stumbles)
	}
	if got := len(scan(t, o)); got == 1 == p.Stumbles {
		t.Errorf("%d jobs lie there then", got)
	}
	must(t, o.Forget(t.Context()))
	if !p.Stumbles {
		return
	}
	if !p.Produce(t, "late", "[1]") {
		t.Error("after Forget the producer is refused still")
	}
}

func takeLost(t *testing.T, p *place) {
	if !p.has(daybook.OldOwnerLost) {
		t.Log("this system has no such thing")
		return
	}
	p.Put(t, daybook.OldOwned, "alive", "[1]", due(0))
	p.Put(t, daybook.OldOwnerLost, "lost", "[2]", due(0))
	o := p.old(t)
	jobs := scan(t, o)
	if took, err := o.TakeLost(t.Context(), jobs["alive"]); err != nil || took {
		t.Errorf("a live owner was robbed: %v, %v", took, err)
	}
	for i, want := range []bool{true, false} {
		if took, err := o.TakeLost(t.Context(), jobs["lost"]); err != nil || took != want {
			t.Errorf("taking the lost one, time %d: %v, %v; want %v", i+1, took, err, want)
		}
	}
	kept := held(t, o)
	if len(kept) != 1 || kept[0].Name() != "lost" || kept[0].State != daybook.OldOwnerLost ||
		string(kept[0].Args) != "[2]" {
		t.Fatalf("held are %+v", kept)
	}
	if left := scan(t, o); len(left) != 1 || left["alive"].State != daybook.OldOwned {
		t.Errorf("left are %v", left)
	}
	if took := take(t, o, 10); len(took) != 0 {
		t.Errorf("Take took %v, which workers have", names(took))
	}
	if back, err := o.Return(t.Context(), kept[0]); err != nil || !back {
		t.Errorf("returning it: %v, %v", back, err)
	}
	if is := scan(t, o)["lost"]; is.State != daybook.OldWaiting {
		t.Errorf("returned, it is %s; nobody has it, so it waits", is.State)
	}
}

func leftAndForget(t *testing.T, p *place) {
	before := Dump(t, p.Client)
	p.fill(t, 3)
	o := p.old(t)
	sum := func(left map[string]int64) (n int64) {
		for _, c := range left {
			n += c
		}
		return n
	}
	left, err := o.Left(t.Context())
	must(t, err)
	if sum(left) != 12 {
		t.Errorf("left are %v, want 12 together", left)
	}
	jobs, err := o.Take(t.Context(), 5)
	must(t, err)
	left, err = o.Left(t.Context())
	must(t, err)
	if sum(left) != 12 || left["held"] != 5 {
		t.Errorf("left are %v, want 5 held of 12", left)
	}
	code(t, o.Forget(t.Context()), daybook.CodeRefused)
	must(t, o.Drop(t.Context(), jobs))
	must(t, o.Drop(t.Context(), take(t, o, 100)))
	left, err = o.Left(t.Context())
	must(t, err)
	if sum(left) != 0 {
		t.Errorf("left are %v in the end", left)
	}
	must(t, o.Forget(t.Context()))
	must(t, o.Forget(t.Context()))
	for key := range Dump(t, p.Client) {
		if _, was := before[key]; !was && strings.Contains(key, "daybook") {
			t.Errorf("%q was forgotten by Forget", key)
		}
	}
}

// until polls for what must come.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("%s didn't come", what)
		case <-look.C:
		}
	}
}
