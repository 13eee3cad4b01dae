package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"sync"
)

// faultyConn passes everything on to the driver's connection, and closes it
// with all that is open on it when it is to die, by which the database rolls
// back what it was at.
type faultyConn struct {
	driver.Conn
	f    *faulter
	mu   sync.Mutex
	dead bool
	open []io.Closer // rows and statements, in the order in which they were opened
}

func (c *faultyConn) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// Close kills the connection. Twice is harmless.
func (c *faultyConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil
	}
	c.dead = true
	for _, o := range slices.Backward(c.open) {
		o.Close()
	}
	return c.Conn.Close()
}

// opened remembers what must be closed before the connection.
func (c *faultyConn) opened(o io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, o)
}

// closes closes what was opened, unless it died with the connection.
func (c *faultyConn) closes(o io.Closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil
	}
	c.open = slices.DeleteFunc(c.open, func(x io.Closer) bool { return x == o })
	return o.Close()
}

// IsValid keeps database/sql from using a dead connection.
func (c *faultyConn) IsValid() bool { return !c.isDead() }

func (c *faultyConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (s driver.Stmt, err error) {
	if c.isDead() {
		return nil, driver.ErrBadConn
	}
	if with, ok := c.Conn.(driver.ConnPrepareContext); ok {
		s, err = with.PrepareContext(ctx, query)
	} else {
		s, err = c.Conn.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	c.opened(s)
	return &faultyStmt{Stmt: s, c: c}, nil
}

func (c *faultyConn) BeginTx(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	err = c.f.around(c, func() error {
		with, ok := c.Conn.(driver.ConnBeginTx)
		if !ok {
			return errors.New("storetest: the driver has no BeginTx")
		}
		tx, err = with.BeginTx(ctx, o)
		return err
	})
	if err != nil {
		if tx != nil && !c.isDead() {
			tx.Rollback() // a begin that fails leaves no transaction behind
		}
		return nil, err
	}
	return faultyTx{tx, c}, nil
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (
	r driver.Result, err error) {
	with, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = c.f.around(c, func() error {
		r, err = with.ExecContext(ctx, query, args)
		return err
	})
	return r, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (
	driver.Rows, error) {
	with, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return c.query(func() (driver.Rows, error) { return with.QueryContext(ctx, query, args) })
}

// query makes a call that answers rows.
func (c *faultyConn) query(call func() (driver.Rows, error)) (driver.Rows, error) {
	var rows driver.Rows
	err := c.f.around(c, func() (err error) {
		if rows, err = call(); err == nil {
			c.opened(rows)
		}
		return err
	})
	if err != nil {
		if rows != nil {
			c.closes(rows)
		}
		return nil, err
	}
	return faultyRows{rows, c}, nil
}

type faultyTx struct {
	driver.Tx
	c *faultyConn
}

// Commit leaves no transaction behind either, however it ends.
func (t faultyTx) Commit() error {
	began := false
	err := t.c.f.around(t.c, func() error {
		began = true
		return t.Tx.Commit()
	})
	if err != nil && !began && !t.c.isDead() {
		t.Tx.Rollback()
	}
	return err
}

func (t faultyTx) Rollback() error {
	if t.c.isDead() {
		return driver.ErrBadConn
	}
	return t.Tx.Rollback()
}

type faultyStmt struct {
	driver.Stmt
	c *faultyConn
}

func (s *faultyStmt) Close() error { return s.c.closes(s.Stmt) }

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	with, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("storetest: the driver's statements have no ExecContext")
	}
	err = s.c.f.around(s.c, func() error {
		r, err = with.ExecContext(ctx, args)
		return err
	})
	return r, err
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	with, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.New("storetest: the driver's statements have no QueryContext")
	}
	return s.c.query(func() (driver.Rows, error) { return with.QueryContext(ctx, args) })
}

type faultyRows struct {
	driver.Rows
	c *faultyConn
}

func (r faultyRows) Close() error { return r.c.closes(r.Rows) }

func (r faultyRows) Next(row []driver.Value) error {
	if r.c.isDead() {
		return driver.ErrBadConn
	}
	return r.Rows.Next(row)
}
