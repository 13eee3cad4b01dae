package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strconv"

	"github.com/daybookdev/daybook"
	"modernc.org/sqlite"
)

// querier runs statements. The writer's connection is one (prepared, without
// database/sql in between, which costs a third of a claim), a *sql.Tx another.
type querier interface {
	exec(query string, args ...driver.Value) (changed int64, err error)
	rows(query string, args []driver.Value, each func(row []driver.Value) error) error
}

// connector opens connections with one data source name.
type connector struct {
	dsn string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return &sqlite.Driver{} }

// conn is one driver connection with its prepared statements.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
}

func connect(ctx context.Context, c driver.Connector) (*conn, error) {
	raw, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]driver.Stmt{}}, nil
}

func (c *conn) close() error { return c.raw.Close() }

func (c *conn) prepared(query string) (driver.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.raw.Prepare(query)
	if err == nil {
		c.stmts[query] = s
	}
	return s, err
}

// named puts arguments into the form that drivers take. The list is the
// connection's own and lives until its next statement: the driver has bound the
// values by then.
func (c *conn) named(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

func (c *conn) exec(query string, args ...driver.Value) (int64, error) {
	s, err := c.prepared(query)
	if err != nil {
		return 0, err
	}
	r, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.named(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c *conn) rows(query string, args []driver.Value, each func([]driver.Value) error) error {
	s, err := c.prepared(query)
	if err != nil {
		return err
	}
	r, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.named(args))
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(r.Columns()))
	for err == nil {
		if err = r.Next(row); err == nil {
			err = each(row)
		}
	}
	closed := r.Close()
	if !errors.Is(err, io.EOF) {
		return err
	}
	return closed
}

// sqlTx is a *sql.Tx as a querier: the user's own, or a read transaction.
type sqlTx struct {
	ctx context.Context
	tx  *sql.Tx
}

func (t sqlTx) exec(query string, args ...driver.Value) (int64, error) {
	r, err := t.tx.ExecContext(t.ctx, query, anys(args)...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t sqlTx) rows(query string, args []driver.Value, each func([]driver.Value) error) error {
	r, err := t.tx.QueryContext(t.ctx, query, anys(args)...)
	if err != nil {
		return err
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(columns))
	into := make([]any, len(columns))
	for i := range row {
		into[i] = (*any)(&row[i])
	}
	for r.Next() {
		if err := r.Scan(into...); err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return r.Err()
}

func anys(args []driver.Value) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}

// SQLite's result codes that mean something to us.
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIO       = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	code := codeOf(err)
	return code == codeBusy || code == codeLocked
}

// friendly turns a driver's error into one that people may see: which file,
// what is wrong with it, what to do. Errors of the domain pass as they are.
func (s *Store) friendly(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*daybook.Error](err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := daybook.Unavailable(doing, err)
	if said := s.fault(codeOf(err)); said != "" {
		e.Text = said + " (while " + doing + ")"
	}
	return e
}

// fault says what a result code means for the book's file.
func (s *Store) fault(code int) string {
	file := "the book's file"
	if s.path != "" {
		file = strconv.Quote(s.path)
	}
	switch code {
	case codeBusy, codeLocked:
		return "another process has kept " + file + " locked for " + s.busy.String() + "; find and end it, then try again"
	case codeReadOnly:
		return file + " can't be written; check its owner and permissions"
	case codeIO:
		return "the disk failed to read or write " + file + "; see the system's log"
	case codeCorrupt:
		return file + " is damaged; restore a backup, then daybook schema restored --since TIME"
	case codeFull:
		return "no room is left for " + file + "; free disk space and try again"
	case codeCantOpen:
		return file + " can't be opened; check that its folder exists and may be read and written"
	case codeNotADB:
		return file + " is not a SQLite database; name another file"
	}
	return ""
}

// Values between Go and SQLite.

func null(t daybook.Time) driver.Value {
	if t == 0 {
		return nil
	}
	return int64(t)
}

func nullInt(n int64) driver.Value {
	if n == 0 {
		return nil
	}
	return n
}

func nullText[S ~string](s S) driver.Value {
	if s == "" {
		return nil
	}
	return string(s)
}

func nullJSON(doc []byte) driver.Value {
	if len(doc) == 0 {
		return nil
	}
	return string(doc)
}

func flag(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

func blob(id daybook.ID) driver.Value { return id[:] }

func num(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func at(v driver.Value) daybook.Time { return daybook.Time(num(v)) }

func text(v driver.Value) string {
	switch s := v.(type) {
	case string:
		return s
	case []byte:
		return string(s)
	}
	return ""
}

func raw(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	return []byte(text(v))
}

func id(v driver.Value) (id daybook.ID) {
	if b, ok := v.([]byte); ok {
		copy(id[:], b)
	}
	return id
}
