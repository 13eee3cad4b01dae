package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/daybookdev/daybook"
)

// EnqueueSQL accepts jobs inside the caller's own transaction on the book's
// file, with any SQLite driver: they exist when it commits and never when it
// rolls back. The transaction should have begun immediate (with modernc:
// _txlock=immediate), else another process's write makes it fail as busy. On
// an error nothing of the call is stored and the transaction can go on.
//
// Nobody knows of the commit, so no bell rings: workers find the jobs by their
// poll.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, requests ...daybook.Request) ([]daybook.Receipt, error) {
	jobs, err := daybook.PrepareMany(requests)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	daybook.FillTrace(ctx, jobs)
	s := &Store{now: time.Now, names: newNames(), refs: newRefs()}
	q := sqlTx{ctx, tx}
	if _, err := q.exec("SAVEPOINT daybook_enqueue"); err != nil {
		return nil, s.friendly("enqueueing", err)
	}
	t := newTx(s, q)
	receipts, err := t.Enqueue(ctx, jobs)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		_, undo := q.exec("ROLLBACK TO daybook_enqueue")
		_, release := q.exec("RELEASE daybook_enqueue")
		return nil, s.friendly("enqueueing", errors.Join(err, undo, release))
	}
	_, err = q.exec("RELEASE daybook_enqueue")
	return receipts, s.friendly("enqueueing", err)
}

// ClaimTx runs fn and the completion of the claim in one transaction on the
// book's file: both happen, or neither. It first locks and checks the claim,
// so an owner that was replaced gets ErrFenced and fn doesn't run; when the
// completion is committed already (the answer was lost) it returns nil and
// runs nothing. This is the one place where once means once.
//
// SQLite has one writer, so nobody else writes meanwhile: fn has a quarter of
// the lease, and inside it jobs are enqueued with EnqueueSQL, never through
// the book, whose writes would wait for fn.
func ClaimTx(ctx context.Context, claim daybook.TxClaim, fn func(*sql.Tx) error) (err error) {
	s, err := of(claim.Book())
	if err != nil {
		return err
	}
	if s.txs == nil {
		return daybook.Fail(daybook.CodeRefused, "a book in memory has no transactions to share; use a file")
	}
	leave, err := claim.EnterTx()
	if err != nil {
		return err
	}
	completed := false
	defer func() { leave(completed) }()
	err = s.alone(ctx, "completing in a transaction", func() error {
		err := s.claimTx(ctx, claim, fn)
		completed = err == nil
		return err
	})
	return err
}

func (s *Store) claimTx(ctx context.Context, claim daybook.TxClaim, fn func(*sql.Tx) error) error {
	job := claim.Job()
	left := time.Duration(job.LeaseUntil-s.clock()) * time.Microsecond
	ctx, cancel := context.WithTimeout(ctx, max(left, time.Second)/4)
	defer cancel()
	var sqltx *sql.Tx
	err := s.patiently(ctx, func() (err error) {
		sqltx, err = s.txs.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return s.friendly("completing in a transaction", err)
	}
	defer sqltx.Rollback()
	t := newTx(s, sqlTx{ctx, sqltx})
	change, already, err := t.completion(ctx, claim, job)
	if err != nil || already {
		return s.friendly("completing in a transaction", err)
	}
	if err := fn(sqltx); err != nil {
		return err
	}
	if err := t.Save(ctx, []daybook.Change{change}); err != nil {
		return s.friendly("completing in a transaction", err)
	}
	if err := t.flush(); err != nil {
		return s.friendly("completing in a transaction", err)
	}
	return s.friendly("completing in a transaction", sqltx.Commit())
}

// completion locks the claim and decides, before anything of the handler's
// runs.
func (t *tx) completion(ctx context.Context, claim daybook.TxClaim, job daybook.Job) (c daybook.Change, already bool, err error) {
	locked, err := t.Lock(ctx, []daybook.ID{job.ID})
	if err != nil {
		return c, false, err
	}
	owner := daybook.Owner{Session: job.Session, Generation: job.Generation}
	c, refused := locked[0].Complete(owner, claim.Result(), t.now)
	if refused == nil {
		return c, false, nil
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
