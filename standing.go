package daybook

import (
	"context"
	"slices"
	"sync"
)

// Standing is a claim call that an idle worker leaves with the book in its own
// process. The next enqueue of one job that it could be for makes it, in its own
// transaction: the job starts as soon as it is accepted, without a ring, another
// round trip or another commit. Nothing depends on it. Temporal calls its like an
// eager start.
type Standing struct {
	book    *Book
	request ClaimRequest
	taken   func()
	answer  chan Stood
}

// Stood is what became of a standing call.
type Stood struct {
	Claimed
	Made bool  // the book was asked; if not, look
	Err  error // nobody knows whether the call was made: repeat it
}

// StandingClaimer is a Tx that makes a claim call as the last part of an enqueue, when
// that costs the enqueue no round trip, as Claimer would, and commits. It answers
// false, and has claimed nothing, when the call wants more than that.
type StandingClaimer interface {
	ClaimStanding(ctx context.Context, r ClaimRequest) (claimed Claimed, made bool, err error)
}

// standings are the calls that wait, oldest first.
type standings struct {
	mu   sync.Mutex
	list []*Standing
}

// Stand leaves a claim call with the book, of a session that is there and with the
// call's id. taken is called by whoever takes it, before the call is made: it must
// not block. The caller ends it with Withdraw, or gets an answer.
func (b *Book) Stand(r ClaimRequest, taken func()) *Standing {
	s := &Standing{book: b, request: r, taken: taken, answer: make(chan Stood, 1)}
	b.standing.mu.Lock()
	defer b.standing.mu.Unlock()
	b.standing.list = append(b.standing.list, s)
	return s
}

// Answer gets what became of the call, once, when somebody took it. Of no call it is
// nil.
func (s *Standing) Answer() <-chan Stood {
	if s == nil {
		return nil
	}
	return s.answer
}

// Withdraw takes the call back. It is false when somebody took it, who answers;
// twice is false.
func (s *Standing) Withdraw() bool {
	all := &s.book.standing
	all.mu.Lock()
	defer all.mu.Unlock()
	n := len(all.list)
	all.list = slices.DeleteFunc(all.list, func(o *Standing) bool { return o == s })
	return len(all.list) < n
}

// take is the oldest call that wants jobs like this one, or nil.
func (all *standings) take(n NewJob) *Standing {
	all.mu.Lock()
	defer all.mu.Unlock()
	at := slices.IndexFunc(all.list, func(s *Standing) bool {
		return slices.Contains(s.request.Queues, n.Job.Queue) &&
			(len(s.request.Kinds) == 0 || slices.Contains(s.request.Kinds, n.Job.Kind))
	})
	if at < 0 {
		return nil
	}
	s := all.list[at]
	all.list = slices.Delete(all.list, at, at+1)
	s.taken()
	return s
}

// standingFor takes a call that the enqueue of these jobs is to make, if it is of one
// job that can be claimed at once. None is nil, of which all methods do nothing.
func (b *Book) standingFor(jobs []NewJob) *takenCall {
	if len(jobs) != 1 || jobs[0].Job.RunAt != 0 || jobs[0].In != 0 {
		return nil
	}
	if s := b.standing.take(jobs[0]); s != nil {
		return &takenCall{Standing: s}
	}
	return nil
}

// takenCall is a standing call that an enqueue has to answer.
type takenCall struct {
	*Standing
	tries int // of the enqueue that came as far as the call
	stood Stood
	told  bool
}

// ask makes the call with the enqueue's first try. One that is repeated may have made
// it, and has no use for another.
func (t *takenCall) ask(ctx context.Context, tx Tx) (err error) {
	if t == nil {
		return nil
	}
	claimer, can := tx.(StandingClaimer)
	if t.tries++; t.tries > 1 || !can {
		return nil
	}
	t.stood.Claimed, t.stood.Made, err = claimer.ClaimStanding(ctx, t.request)
	t.stood.Full = t.stood.Full || len(t.stood.Jobs) == t.request.Limit
	return err
}

// spoilt reports whether the enqueue failed with the call and may not have without it:
// nobody waits for a claim, or fails with one, who enqueues.
func (t *takenCall) spoilt(err error) bool { return err != nil && t != nil && t.tries == 1 }

// gave reports whether the call was given the job.
func (t *takenCall) gave(job ID) bool {
	return t != nil && t.tries == 1 && slices.ContainsFunc(t.stood.Jobs, func(j Job) bool { return j.ID == job })
}

// tell answers who left the call, once, after the enqueue ended so. Of a try that
// failed nobody knows what it did.
func (t *takenCall) tell(err error) {
	if t == nil || t.told {
		return
	}
	t.told = true
	if t.tries > 0 && (err != nil || t.tries > 1) {
		t.answer <- Stood{Err: Fail(CodeUnavailable, "the enqueue that made the claim call had to be repeated")}
		return
	}
	for _, j := range t.stood.Jobs {
		t.book.Reached(GapGrant, j.ID)
	}
	t.answer <- t.stood
}
