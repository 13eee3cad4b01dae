package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// In names the schema for transactions that know no book: In("jobs").EnqueueTx.
// The functions of the package itself use SchemaDefault.
type In string

// EnqueueTx accepts jobs inside the caller's own transaction: they exist when
// it commits and never when it rolls back. On an error nothing of the call is
// stored and the transaction can go on.
//
// Nobody here knows of the commit, so no bell rings: workers in other processes
// find the jobs by their poll, or ring the book's bell yourself after it.
func EnqueueTx(ctx context.Context, tx pgx.Tx, requests ...daybook.Request) ([]daybook.Receipt, error) {
	return In(SchemaDefault).EnqueueTx(ctx, tx, requests...)
}

// EnqueueSQL is EnqueueTx for a transaction of database/sql, with any driver
// for PostgreSQL.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, requests ...daybook.Request) ([]daybook.Receipt, error) {
	return In(SchemaDefault).EnqueueSQL(ctx, tx, requests...)
}

// EnqueueTx is the function of the same name, on a book in this schema.
func (in In) EnqueueTx(ctx context.Context, tx pgx.Tx, requests ...daybook.Request) ([]daybook.Receipt, error) {
	return in.enqueue(ctx, wire{tx}, requests)
}

// EnqueueSQL is the function of the same name, on a book in this schema.
func (in In) EnqueueSQL(ctx context.Context, tx *sql.Tx, requests ...daybook.Request) ([]daybook.Receipt, error) {
	return in.enqueue(ctx, sqlWire{tx}, requests)
}

func (in In) enqueue(ctx context.Context, to sender, requests []daybook.Request) ([]daybook.Receipt, error) {
	if err := checkSchema(string(in)); err != nil {
		return nil, err
	}
	jobs, err := daybook.PrepareMany(requests)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	daybook.FillTrace(ctx, jobs)
	// A savepoint keeps the caller's transaction usable after a refusal.
	u := &unit{ctx: ctx, schema: schema(in), sender: to,
		before: []statement{{query: "SAVEPOINT daybook_enqueue", want: anyCount}}}
	t := newTx(nil, u)
	receipts, err := t.Enqueue(ctx, jobs)
	if err == nil {
		t.flushCounts()
		t.later(anyCount, "", "RELEASE SAVEPOINT daybook_enqueue")
		err = u.flush()
	}
	if err != nil && u.before == nil {
		u.kept = nil
		_, undo := u.exec("ROLLBACK TO SAVEPOINT daybook_enqueue")
		err = errors.Join(err, undo)
	}
	if err != nil {
		return nil, schema(in).friendly("enqueueing", err)
	}
	return receipts, nil
}

// ClaimTx runs fn and the completion of the claim in one transaction: both
// happen, or neither. It first locks and checks the claim, so an owner that was
// replaced gets ErrFenced and fn doesn't run; when the completion is committed
// already (the answer was lost) it returns nil and runs nothing. This is the
// one place where once means once.
//
// The transaction and the context that ends with it have what is left of the
// lease or of the run limit, whichever is less. fn must not commit or roll back
// what it is given; its error rolls back. Other writes to the job wait two
// seconds meanwhile and answer ErrBusy; the reconciler passes it by.
func ClaimTx(ctx context.Context, claim daybook.TxClaim, fn func(pgx.Tx) error) error {
	s, err := of(claim.Book())
	if err != nil {
		return err
	}
	leave, err := claim.EnterTx()
	if err != nil {
		return err
	}
	completed := false
	defer func() { leave(completed) }()
	err = s.claimTx(ctx, claim, fn)
	completed = err == nil
	return err
}

const completing = "completing in a transaction"

func (s *Store) claimTx(ctx context.Context, claim daybook.TxClaim, fn func(pgx.Tx) error) error {
	var err error
	for n := range tries {
		if n > 0 && !pause(ctx, n) {
			break
		}
		if err = s.claimTxOnce(ctx, claim, fn); !passing(err) {
			break
		}
	}
	var own handlerError
	if errors.As(err, &own) {
		return own.error
	}
	return s.schema.friendly(completing, err)
}

// handlerError is what the handler's own function returned: it is the caller's,
// whatever is in it.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

func (s *Store) claimTxOnce(ctx context.Context, claim daybook.TxClaim, fn func(pgx.Tx) error) error {
	conn, err := s.txs.Acquire(ctx)
	if err != nil {
		return errors.Join(errBroken, err)
	}
	c := &line{s: s, conn: conn}
	defer c.release()
	real, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return errors.Join(errBroken, err)
	}
	u := &unit{ctx: ctx, schema: s.schema, sender: c, kept: s.begin("")[1:]}
	err = s.inClaimTx(ctx, real, u, claim, fn)
	if err != nil {
		c.abort(ctx, true)
		if errors.Is(err, errCommitting) && away(err) {
			return s.resolve(ctx, claim, err)
		}
	}
	return err
}

// errCommitting marks a commit whose answer was lost.
var errCommitting = errors.New("the commit was not answered")

func (s *Store) inClaimTx(
	ctx context.Context, real pgx.Tx, u *unit, claim daybook.TxClaim, fn func(pgx.Tx) error,
) error {
	t := newTx(s, u)
	job := claim.Job()
	change, already, err := t.completion(ctx, claim, job)
	if err != nil || already {
		return err
	}
	left := min(job.LeaseUntil.Sub(t.Now()), job.Deadline().Sub(t.Now()))
	if t.bad != nil || left <= 0 {
		return cmpError(t.bad, daybook.Fail(daybook.CodeFenced, "the lease of job %s is over; nothing was run", job.ID))
	}
	millis := strconv.FormatInt(max(1, left.Milliseconds()), 10)
	t.later(anyCount, "", "SET LOCAL idle_in_transaction_session_timeout = "+millis)
	t.later(anyCount, "", "SET LOCAL statement_timeout = "+millis)
	if err := t.flush(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	u.ctx = bounded
	own := &handlerTx{Tx: real}
	if err := fn(own); err != nil {
		return handlerError{err}
	}
	if own.ended {
		return daybook.Fail(daybook.CodeRefused, "job %s: its handler ended the transaction that ClaimTx ends", job.ID)
	}
	if err := t.Save(bounded, []daybook.Change{change}); err != nil {
		return err
	}
	t.flushCounts()
	if err := u.flush(); err != nil {
		return err
	}
	if err := u.commit(); err != nil {
		return errors.Join(errCommitting, err)
	}
	return nil
}

func cmpError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// completion locks the claim and decides, before anything of the handler's
// runs.
func (t *tx) completion(
	ctx context.Context, claim daybook.TxClaim, job daybook.Job,
) (c daybook.Change, already bool, err error) {
	locked, err := t.Lock(ctx, []daybook.ID{job.ID})
	if err != nil {
		return c, false, err
	}
	owner := daybook.Owner{Session: job.Session, Generation: job.Generation}
	c, refused := locked[0].Complete(owner, claim.Result(), t.Now())
	if refused == nil || t.bad != nil {
		return c, false, t.bad
	}
	past, found, err := t.AttemptOf(ctx, locked[0], job.Generation)
	if err != nil {
		return c, false, err
	}
	o := daybook.Outcome{Job: job.ID, Owner: owner, Kind: daybook.OutcomeSucceeded}
	if found && o.Repeated(past) {
		return c, true, nil
	}
	return c, false, refused
}

// resolve reads whether a commit without an answer took hold.
func (s *Store) resolve(ctx context.Context, claim daybook.TxClaim, unanswered error) error {
	job := claim.Job()
	o := daybook.Outcome{Job: job.ID, Owner: daybook.Owner{Session: job.Session, Generation: job.Generation},
		Kind: daybook.OutcomeSucceeded}
	for n := 1; n <= 5; n++ {
		took := false
		err := s.Read(ctx, completing, func(v daybook.View) error {
			now, found, err := v.Job(ctx, job.ID)
			if err != nil || !found {
				return err
			}
			past, found, err := v.AttemptOf(ctx, now, job.Generation)
			took = found && o.Repeated(past)
			return err
		})
		if took {
			return nil
		}
		if err == nil || !pause(ctx, n*50) {
			break
		}
	}
	return unanswered
}

// handlerTx is the transaction as the handler has it: its end is not the
// handler's.
type handlerTx struct {
	pgx.Tx
	ended bool
}

// Commit refuses: ClaimTx commits, with the completion.
func (t *handlerTx) Commit(context.Context) error {
	t.ended = true
	return daybook.Fail(daybook.CodeRefused, "ClaimTx commits this transaction itself; return nil instead")
}

// Rollback rolls back at once, and the claim isn't completed.
func (t *handlerTx) Rollback(ctx context.Context) error {
	t.ended = true
	return t.Tx.Rollback(ctx)
}
