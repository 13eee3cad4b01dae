package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// runRace lets many parties loose on the same jobs. What it wants is true in
// every order of events, so it needs no luck to pass; it prints its seed.
func runRace(t *testing.T, open opener) {
	each(t, open, []test{
		{"one holder", oneHolder},
		{"pause ends claims", pauseEndsClaims},
		{"storm", func(w *world) { newStorm(w, w).run() }},
	})
	// Two processes: nobody may see a busy database (gitmoot/gitmoot #2028) or a
	// deadlock (getsentry/taskbroker #778).
	eachOnFile(t, open, []test{
		{"one holder in two processes", oneHolder},
		{"L48 L49 storm in two processes", func(w *world) { newStorm(w, w.again()).run() }},
	})
}

// oneHolder has sixteen sessions claim one job at once, again and again.
func oneHolder(w *world) {
	const claimers = 16
	of := []*world{w, w}
	if w.opts.Path != "" {
		of[1] = w.again()
	}
	sessions := make([]daybook.Session, claimers)
	for i := range sessions {
		sessions[i] = w.session(fmt.Sprint("w", i))
	}
	for range 30 {
		id := w.enqueue(daybook.Request{})
		var holders atomic.Int64
		var holder atomic.Pointer[daybook.Job]
		var all sync.WaitGroup
		start := make(chan bool)
		for i, s := range sessions {
			all.Go(func() {
				<-start
				r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 3}
				got, err := of[i%2].book.Claim(w.ctx, r)
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				for _, j := range got.Jobs {
					holders.Add(1)
					holder.Store(&j)
				}
			})
		}
		close(start)
		all.Wait()
		same(w, "holders", holders.Load(), 1)
		same(w, "the job", holder.Load().ID, id)
		w.complete(*holder.Load())
	}
}

// pauseEndsClaims pauses a queue under claimers: when the pause answers, every
// claim that began before it has ended, and none comes after.
func pauseEndsClaims(w *world) {
	const claimers = 8
	w.many(400)
	var all sync.WaitGroup
	var began sync.WaitGroup
	began.Add(claimers)
	for i := range claimers {
		s := w.session(fmt.Sprint("w", i))
		all.Go(func() {
			for n := range 40 {
				_, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}})
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				if n == 0 {
					began.Done()
				}
			}
		})
	}
	began.Wait()
	w.ok(w.book.Pause(w.ctx, "q", someone))
	then := w.counts().Attempts
	all.Wait()
	same(w, "attempts since the pause", w.counts().Attempts, then)
}

// storm is claimers, owners, people and reconcilers at once.
type storm struct {
	of     []*world // processes
	ids    []daybook.ID
	seed   uint64
	mu     sync.Mutex
	holder map[daybook.ClaimRef]daybook.ID
	done   map[daybook.ID]int // completions that the book accepted
}

const (
	stormJobs    = 60
	stormWorkers = 8
	stormSteps   = 80
)

func newStorm(of ...*world) *storm {
	st := &storm{of: of, seed: rand.Uint64(), holder: map[daybook.ClaimRef]daybook.ID{},
		done: map[daybook.ID]int{}}
	for range stormJobs {
		st.ids = append(st.ids, of[0].enqueue(daybook.Request{MaxFailures: 5, Key: daybook.NewID().String()}))
	}
	return st
}

func (st *storm) run() {
	w := st.of[0]
	w.Logf("seed %d", st.seed)
	var all sync.WaitGroup
	for i := range stormWorkers {
		all.Go(func() { st.work(i) })
	}
	for i := range 2 {
		all.Go(func() { st.repair(i) })
		all.Go(func() { st.people(i) })
	}
	all.Wait()
	st.settleDown()
	c := w.counts()
	same(w, "accepted", c.Accepted, stormJobs)
	same(w, "balanced", c.Counts.Balanced(), true)
	for _, id := range st.ids {
		j := w.job(id)
		same(w, "completions accepted", st.done[id] == 1, j.State == daybook.Succeeded)
		seen := map[int64]bool{}
		for _, a := range w.attempts(id) {
			same(w, "two outcomes for a generation", seen[a.Generation], false)
			seen[a.Generation] = true
		}
	}
}

// random is a source of its own for each party.
func (st *storm) random(party string, i int) *rand.Rand {
	return rand.New(rand.NewPCG(st.seed, uint64(len(party)*100+i)))
}

// expected lets pass what a race may answer; everything else fails the test.
func (st *storm) expected(doing string, err error) {
	switch daybook.CodeOf(err) {
	case "", daybook.CodeFenced, daybook.CodeRefused:
	default:
		st.of[0].Errorf("%s: %v (code %s)", doing, err, daybook.CodeOf(err))
	}
}

// work is one worker: it starts a new session whenever its own was ended.
func (st *storm) work(i int) {
	w, r := st.of[i%len(st.of)], st.random("work", i)
	var s daybook.Session
	for range stormSteps {
		if s.ID.IsZero() {
			var err error
			s, err = w.book.StartSession(w.ctx, daybook.SessionRequest{Worker: fmt.Sprint("w", i),
				Lease: 10 * time.Second})
			st.expected("start", err)
		}
		got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"},
			Limit: 1 + r.IntN(4)})
		st.expected("claim", err)
		if err != nil {
			s = daybook.Session{}
			continue
		}
		for _, j := range got.Jobs {
			st.hold(j)
			st.finish(w, j, r.IntN(6))
		}
		if r.IntN(4) == 0 {
			_, err := w.book.Renew(w.ctx, s.ID, nil)
			st.expected("renew", err)
		}
	}
}

// hold wants nobody else to hold the same generation of the job.
func (st *storm) hold(j daybook.Job) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if other, held := st.holder[ref(j)]; held {
		st.of[0].Errorf("job %s generation %d was given to %s and to %s", j.ID, j.Generation, other, j.Session)
	}
	st.holder[ref(j)] = j.Session
}

// finish ends an attempt, or keeps it until somebody takes it away.
func (st *storm) finish(w *world, j daybook.Job, how int) {
	var err error
	switch how {
	case 0:
		_, err = w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{}, new(time.Duration))
	case 1:
		_, err = w.book.Release(w.ctx, j.ID, owner(j), 0)
	case 2, 3:
		var a daybook.Answer
		if a, err = w.book.Complete(w.ctx, j.ID, owner(j), nil); err == nil && !a.Already {
			st.mu.Lock()
			st.done[j.ID]++
			st.mu.Unlock()
		}
	}
	st.expected("finish", err)
}

// repair is one reconciler, with a clock that goes too fast for the workers.
func (st *storm) repair(i int) {
	w, r := st.of[i%len(st.of)], st.random("repair", i)
	for range stormSteps {
		w.clock.advance(time.Duration(r.IntN(2000)) * time.Millisecond)
		_, _, err := w.book.EndExpiredSessions(w.ctx, daybook.Certainty(r.IntN(3)))
		st.expected("ending sessions", err)
		_, err = w.book.RevokeLost(w.ctx)
		st.expected("revoking", err)
		_, err = w.book.Sweep(w.ctx)
		st.expected("sweeping", err)
		_, err = w.book.Prune(w.ctx, daybook.PruneOptions{})
		st.expected("pruning", err)
	}
}

// people cancel and revive at random.
func (st *storm) people(i int) {
	w, r := st.of[i%len(st.of)], st.random("people", i)
	for range stormSteps {
		id := st.ids[r.IntN(len(st.ids))]
		_, err := w.book.Cancel(w.ctx, id, someone, r.IntN(2) == 0)
		st.expected("cancel", err)
		_, err = w.book.Revive(w.ctx, id, someone)
		st.expected("revive", err)
	}
}

// settleDown brings every job to an end.
func (st *storm) settleDown() {
	w := st.of[0]
	for range 50 {
		w.lapse()
		s := w.session("last")
		jobs := w.claim(s, stormJobs)
		for _, j := range jobs {
			st.finish(w, j, 2)
		}
		if c := w.counts(); c.Waiting+c.Running == 0 {
			return
		}
	}
	w.Error("jobs are left that nobody can end")
}
