package daybook

import (
	"context"
	"slices"
	"time"
)

// SessionRequest starts a session.
type SessionRequest struct {
	Worker string        // the process's name; more than one session may share it
	Lease  time.Duration // 0 is LeaseDefault
	Starts bool          // the worker records starts before handlers begin
	Queues []string      // for the question why a job doesn't run
	Kinds  []string
}

func (r *SessionRequest) check() error {
	if r.Lease == 0 {
		r.Lease = LeaseDefault
	}
	if r.Worker == "" {
		r.Worker = "worker"
	}
	if len(r.Worker) > WorkerMax {
		return Invalid("worker", "at most %d bytes, got %d", WorkerMax, len(r.Worker))
	}
	if err := checkText("worker", r.Worker); err != nil {
		return err
	}
	return checkDuration("lease", r.Lease, LeaseMin, LeaseMax)
}

// StartSession makes a session: one start of one worker process.
func (b *Book) StartSession(ctx context.Context, r SessionRequest) (Session, error) {
	if err := r.check(); err != nil {
		return Session{}, err
	}
	var s Session
	id := NewID()
	err := b.write(ctx, "starting a session", func(tx Tx) error {
		found, err := tx.Sessions(ctx, SessionFilter{ID: id})
		if err != nil {
			return err
		}
		if len(found) == 1 { // the first answer was lost
			s = found[0]
			return nil
		}
		now := tx.Now()
		s, err = tx.SaveSession(ctx, Session{ID: id, Worker: r.Worker, Lease: r.Lease, StartedAt: now,
			RenewedAt: now, ExpiresAt: now.Add(r.Lease), Starts: r.Starts, Queues: r.Queues, Kinds: r.Kinds})
		return err
	})
	return s, err
}

// EndSession closes a session for good and gives back what it still owns,
// without blame. Ending it twice is harmless.
func (b *Book) EndSession(ctx context.Context, id ID) error {
	rings := ringer{}
	err := b.write(ctx, "ending a session", func(tx Tx) error {
		s, jobs, found, err := tx.Claims(ctx, ClaimsOf{Session: id})
		if err != nil {
			return err
		}
		if !found {
			return Fail(CodeNotFound, "no session %s", id)
		}
		ids := make([]ID, len(jobs))
		for i, j := range jobs {
			ids[i] = j.ID
		}
		if jobs, err = tx.Lock(ctx, ids); err != nil {
			return err
		}
		changes := make([]Change, 0, len(jobs))
		for _, j := range jobs {
			if j.Session != id {
				continue // it ended between the two looks
			}
			c, err := j.Release(Owner{id, j.Generation}, 0, tx.Now())
			if err != nil {
				return err
			}
			changes = append(changes, c)
		}
		if err := tx.Save(ctx, changes); err != nil || !s.Live() {
			return err
		}
		rings.changes(changes, tx.Now())
		_, err = tx.SaveSession(ctx, s.End(tx.Now()))
		return err
	})
	if err == nil {
		b.ring(ctx, rings)
	}
	return err
}

// QuietSession notes that a session claims no more, so that people see it and
// the question why a job waits is answered rightly. An ended session gets
// ErrFenced. Twice is harmless.
func (b *Book) QuietSession(ctx context.Context, id ID) error {
	return b.write(ctx, "quieting a session", func(tx Tx) error {
		found, err := tx.Sessions(ctx, SessionFilter{ID: id})
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return Fail(CodeNotFound, "no session %s", id)
		case !found[0].Live():
			return Fail(CodeFenced, "session %s ended at %s", id, found[0].EndedAt)
		}
		found[0].Quiet = true
		_, err = tx.SaveSession(ctx, found[0])
		return err
	})
}

// ClaimRequest asks for work.
type ClaimRequest struct {
	Session ID // from StartSession; or zero, and Worker starts one
	SessionRequest
	Queues []string // in the order to try them
	Kinds  []string // empty is every kind
	Limit  int      // 1…BatchMax; 0 is 1
	Call   ID       // repeating a call by its id gives the same claims (see CallKept); zero makes one
	Oldest bool     // by age alone, whatever the priority
	Job    ID       // only this job, which a message named, if it is in Queues (empty is any) and of Kinds
}

// Claimed is what a claim call was given.
type Claimed struct {
	Session Session
	Jobs    []Job // each with args, generation and lease_until; may be empty
	Full    bool  // there may be more: ring on, ask again
}

func (r *ClaimRequest) check() error {
	if r.Limit == 0 {
		r.Limit = 1
	}
	switch {
	case r.Limit < 1 || r.Limit > BatchMax:
		return Invalid("limit", "wants 1…%d, got %d", BatchMax, r.Limit)
	case r.Job.IsZero() && len(r.Queues) == 0:
		return Invalid("queues", "is empty; name at least one queue")
	case len(r.Queues) > QueuesMax:
		return Invalid("queues", "at most %d, got %d", QueuesMax, len(r.Queues))
	}
	for _, q := range r.Queues {
		if err := CheckName("queue", q); err != nil {
			return err
		}
	}
	for _, k := range r.Kinds {
		if err := CheckName("kind", k); err != nil {
			return err
		}
	}
	if r.Call.IsZero() {
		r.Call = NewID()
	}
	return nil
}

// Claim gives waiting jobs to a session. Nothing eligible is an empty answer,
// not an error. An ended session gets ErrFenced: start a new one.
func (b *Book) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	if err := r.check(); err != nil {
		return Claimed{}, err
	}
	if r.Session.IsZero() {
		r.SessionRequest.Queues, r.SessionRequest.Kinds = r.Queues, r.Kinds
		s, err := b.StartSession(ctx, r.SessionRequest)
		if err != nil {
			return Claimed{}, err
		}
		r.Session = s.ID
	}
	var out Claimed
	err := b.write(ctx, "claiming", func(tx Tx) error {
		if claimer, ok := tx.(Claimer); ok && r.Job.IsZero() {
			var plain bool
			var err error
			if out, plain, err = claimer.ClaimSet(ctx, r); err != nil || plain {
				out.Full = out.Full || len(out.Jobs) == r.Limit
				return err
			}
		}
		s, jobs, found, err := tx.Claims(ctx, ClaimsOf{Call: r.Call})
		if err != nil {
			return err
		}
		if found {
			out = Claimed{Session: s, Jobs: jobs}
			return nil
		}
		out, err = claim(ctx, tx, r)
		return err
	})
	if err != nil {
		return Claimed{}, err
	}
	for _, j := range out.Jobs {
		b.Reached(GapGrant, j.ID)
	}
	return out, nil
}

func claim(ctx context.Context, tx Tx, r ClaimRequest) (Claimed, error) {
	found, err := tx.Sessions(ctx, SessionFilter{ID: r.Session})
	if err != nil {
		return Claimed{}, err
	}
	if len(found) == 0 {
		return Claimed{}, Fail(CodeNotFound, "no session %s; start a new one", r.Session)
	}
	s := found[0]
	if !s.Live() {
		return Claimed{}, Fail(CodeFenced, "session %s ended at %s; start a new one", s.ID, s.EndedAt)
	}
	if s.Quiet {
		return Claimed{Session: s}, nil
	}
	if s.HalfSpent(tx.Now()) {
		if s, err = s.Renew(tx.Now(), false); err != nil {
			return Claimed{}, err
		}
		if s, err = tx.SaveSession(ctx, s); err != nil {
			return Claimed{}, err
		}
	}
	incarnation, err := settingInt(ctx, tx, SettingIncarnation)
	if err != nil {
		return Claimed{}, err
	}
	out := Claimed{Session: s}
	if !r.Job.IsZero() {
		out.Jobs, err = claimOne(ctx, tx, s, r, incarnation)
	} else {
		out.Jobs, err = tx.Claim(ctx, Claiming{Session: s, Queues: r.Queues, Kinds: r.Kinds, Limit: r.Limit,
			Oldest: r.Oldest, Incarnation: incarnation})
	}
	if err != nil || len(out.Jobs) == 0 {
		return out, err
	}
	out.Full = len(out.Jobs) == r.Limit && r.Job.IsZero()
	return out, tx.SaveCall(ctx, r.Call, s, out.Jobs)
}

// claimOne claims the job that a message named; the record decides.
func claimOne(ctx context.Context, tx Tx, s Session, r ClaimRequest, incarnation int64) ([]Job, error) {
	jobs, err := tx.Lock(ctx, []ID{r.Job})
	if err != nil {
		return nil, err
	}
	switch j := jobs[0]; {
	case j.ID.IsZero():
		return nil, Fail(CodeNotFound, "no job %s", r.Job)
	case len(r.Queues) > 0 && !slices.Contains(r.Queues, j.Queue):
		return nil, j.refuse("is in queue %s, which the claim doesn't name", quote(j.Queue))
	case len(r.Kinds) > 0 && !slices.Contains(r.Kinds, j.Kind):
		return nil, j.refuse("is of kind %s, which the claim doesn't name", quote(j.Kind))
	}
	grant := Grant{Session: s, Incarnation: incarnation}
	if grant.Paused, err = paused(ctx, tx, jobs[0].Queue); err != nil {
		return nil, err
	}
	if jobs[0].Suspect() {
		_, mine, _, err := tx.Claims(ctx, ClaimsOf{Session: s.ID})
		if err != nil {
			return nil, err
		}
		for _, j := range mine {
			if j.Suspect() {
				grant.Suspects++
			}
		}
	}
	c, err := jobs[0].Claim(grant, tx.Now())
	if err != nil {
		return nil, err
	}
	if err := tx.Save(ctx, []Change{c}); err != nil {
		return nil, err
	}
	job, _, err := tx.Job(ctx, r.Job)
	return []Job{job}, err
}

func paused(ctx context.Context, v View, queue string) (bool, error) {
	q, _, err := v.Queue(ctx, queue)
	return q.Paused, err
}

// ClaimRef names one claim: a job at a generation.
type ClaimRef struct {
	Job        ID    `json:"id"`
	Generation int64 `json:"generation"`
}

// Renewal answers a renewal.
type Renewal struct {
	LeaseUntil Time
	Lost       []ClaimRef // no longer the session's: stop, and don't report
	Cancel     []ClaimRef // asked to cancel: stop, and report how it ended
	Quiet      bool       // asked to claim no more
}

// Renew extends a session's lease. claims lists what it believes to own, and
// nil means all: then nothing can be told as lost, and claims whose answer
// never arrived can't be found. An ended session gets ErrFenced.
func (b *Book) Renew(ctx context.Context, session ID, claims []ClaimRef) (Renewal, error) {
	var out Renewal
	rings := ringer{}
	err := b.write(ctx, "renewing a lease", func(tx Tx) error {
		out = Renewal{}
		if r, ok := tx.(Renewer); ok && claims != nil && len(claims) == 0 {
			var done bool
			var err error
			if out, done, err = r.RenewIdle(ctx, session); err != nil || done {
				return err
			}
		}
		s, owned, found, err := tx.Claims(ctx, ClaimsOf{Session: session})
		if err != nil {
			return err
		}
		if !found {
			return Fail(CodeNotFound, "no session %s; start a new one", session)
		}
		if s, err = s.Renew(tx.Now(), claims != nil); err != nil {
			return err
		}
		if s, err = tx.SaveSession(ctx, s); err != nil {
			return err
		}
		out.LeaseUntil, out.Quiet = s.ExpiresAt, s.Quiet
		unlisted := out.sort(s, owned, claims)
		changes, err := revoke(ctx, tx, unlisted, LossUnlisted, s.Starts)
		rings.changes(changes, tx.Now())
		return err
	})
	if err == nil {
		b.ring(ctx, rings)
	}
	return out, err
}

// sort compares what a session owns with what it listed.
func (r *Renewal) sort(s Session, owned []Job, claims []ClaimRef) (unlisted []Job) {
	mine := make(map[ClaimRef]bool, len(owned))
	listed := make(map[ClaimRef]bool, len(claims))
	for _, c := range claims {
		listed[c] = true
	}
	for _, j := range owned {
		ref := ClaimRef{j.ID, j.Generation}
		if claims != nil && !listed[ref] && s.Unlisted(j.GrantedAt) {
			unlisted = append(unlisted, j)
			continue
		}
		mine[ref] = true
		if j.CancelRequestedAt != 0 {
			r.Cancel = append(r.Cancel, ref)
		}
	}
	for _, c := range claims {
		if !mine[c] {
			r.Lost = append(r.Lost, c)
		}
	}
	return unlisted
}

// Started records that handlers of these claims begin, in one write. It
// answers which of them the session no longer owns; those were fenced, like
// any other late write, and are kept as evidence.
func (b *Book) Started(ctx context.Context, session ID, claims []ClaimRef) (lost []ClaimRef, err error) {
	err = b.write(ctx, "recording starts", func(tx Tx) error {
		lost = nil
		jobs, err := tx.Lock(ctx, refIDs(claims))
		if err != nil {
			return err
		}
		var begun []Job
		for i, j := range jobs {
			next, err := j.Started(Owner{session, claims[i].Generation}, tx.Now())
			if err != nil {
				lost = append(lost, claims[i])
				continue
			}
			begun = append(begun, next)
		}
		return tx.SaveOwned(ctx, begun)
	})
	if err != nil {
		return lost, err
	}
	refusals := make([]Refusal, len(lost))
	for i, c := range lost {
		refusals[i] = Refusal{Job: c.Job, Generation: c.Generation, Session: session, Operation: "start"}
	}
	return lost, b.keepRefusals(ctx, refusals)
}

func refIDs(claims []ClaimRef) []ID {
	ids := make([]ID, len(claims))
	for i, c := range claims {
		ids[i] = c.Job
	}
	return ids
}

// Progress keeps an owner's note of how far it is: a JSON document of at most
// ProgressMax bytes that replaces the one before. Fenced like any other write.
func (b *Book) Progress(ctx context.Context, job ID, o Owner, progress []byte) error {
	if len(progress) > ProgressMax {
		return tooLarge("progress", ProgressMax, len(progress))
	}
	if err := CheckJSON("progress", progress); err != nil {
		return err
	}
	var refused error
	err := b.write(ctx, "recording progress", func(tx Tx) error {
		refused = nil
		jobs, err := tx.Lock(ctx, []ID{job})
		if err != nil {
			return err
		}
		if jobs[0].ID.IsZero() {
			return Fail(CodeNotFound, "no job %s", job)
		}
		if refused = jobs[0].owner(o); refused != nil {
			return nil
		}
		jobs[0].Progress = progress
		return tx.SaveOwned(ctx, jobs)
	})
	if err == nil && refused != nil {
		err = b.keepRefusals(ctx, []Refusal{{Job: job, Generation: o.Generation, Session: o.Session,
			Operation: "progress", Said: string(progress)}})
		if err == nil {
			err = refused
		}
	}
	return err
}
