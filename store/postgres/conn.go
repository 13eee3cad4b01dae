package postgres

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// statement is one query of a round trip.
type statement struct {
	query string
	args  []any
	scan  func(row []any) error // nil wants no rows
	cells func(row cells) error // instead of scan, while the rows come in: no other query may run
	want  int64                 // rows that it must change, or anyCount
	what  string                // what those rows are, for the answer when they aren't
	alone bool                  // may be a transaction by itself, in whatever isolation
}

const anyCount = -1

// sender carries statements to the database: several in one round trip, if it
// can. The first that fails is the error, and none behind it is carried out.
type sender interface {
	send(ctx context.Context, list []statement) (changed int64, err error)
}

// batcher is what a pgx connection and a pgx transaction have in common.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// wire sends through pgx, as one pipeline.
type wire struct{ to batcher }

func (w wire) send(ctx context.Context, list []statement) (changed int64, err error) {
	b := &pgx.Batch{}
	for i := range list {
		b.Queue(list[i].query, list[i].args...)
	}
	results := w.to.SendBatch(ctx, b)
	for i := range list {
		if changed, err = receive(results, &list[i]); err != nil {
			break
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return changed, err
}

// receive reads one statement's answer.
func receive(results pgx.BatchResults, s *statement) (int64, error) {
	if s.scan == nil && s.cells == nil {
		tag, err := results.Exec()
		if err != nil {
			return 0, err
		}
		return tag.RowsAffected(), s.sure(tag.RowsAffected())
	}
	rows, err := results.Query()
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var read [][]any
	for rows.Next() {
		if s.cells != nil {
			if err := s.cells(cellsOf(rows)); err != nil {
				return 0, err
			}
			continue
		}
		row, err := rows.Values()
		if err != nil {
			return 0, err
		}
		read = append(read, row)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, row := range read {
		if err := s.scan(row); err != nil {
			return 0, err
		}
	}
	return int64(len(read)), nil
}

// sure turns a count of changed rows that isn't the wanted one into an answer
// with a name: the rows are not what the caller read.
func (s *statement) sure(changed int64) error {
	if s.want == anyCount || changed == s.want {
		return nil
	}
	return daybook.Fail(daybook.CodeFenced, "%d of %d rows of %s are not as they were read",
		s.want-changed, s.want, s.what)
}

// sqlWire sends through database/sql, statement by statement, with any driver
// for PostgreSQL: lists travel as array literals, which all of them carry.
type sqlWire struct{ to *sql.Tx }

func (w sqlWire) send(ctx context.Context, list []statement) (changed int64, err error) {
	for i := range list {
		s := &list[i]
		args := make([]any, len(s.args))
		for n, a := range s.args {
			args[n] = literal(a)
		}
		if s.scan == nil {
			changed, err = w.exec(ctx, s, args)
		} else {
			changed, err = w.query(ctx, s, args)
		}
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func (w sqlWire) exec(ctx context.Context, s *statement, args []any) (int64, error) {
	result, err := w.to.ExecContext(ctx, s.query, args...)
	if err != nil {
		return 0, err
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return 0, err
	}
	return changed, s.sure(changed)
}

func (w sqlWire) query(ctx context.Context, s *statement, args []any) (int64, error) {
	rows, err := w.to.QueryContext(ctx, s.query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	var read [][]any
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		read = append(read, row)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, row := range read {
		if err := s.scan(row); err != nil {
			return 0, err
		}
	}
	return int64(len(read)), nil
}

// literal writes lists as PostgreSQL's array literals and leaves the rest.
func literal(v any) any {
	switch list := v.(type) {
	case []string:
		return arrayOf(list, func(s string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		})
	case []int64:
		return arrayOf(list, func(n int64) string { return strconv.FormatInt(n, 10) })
	case []*int64:
		return arrayOf(list, func(n *int64) string { return orNull(n) })
	case []*string:
		return arrayOf(list, func(s *string) string {
			if s == nil {
				return "NULL"
			}
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(*s) + `"`
		})
	case []bool:
		return arrayOf(list, strconv.FormatBool)
	}
	return v
}

func orNull(n *int64) string {
	if n == nil {
		return "NULL"
	}
	return strconv.FormatInt(*n, 10)
}

func arrayOf[T any](list []T, show func(T) string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = show(v)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// unit is one transaction's traffic. Statements whose answer nobody waits for
// are kept back and sent with the next one that somebody does, or with the
// commit, so that a plain write is one round trip.
type unit struct {
	ctx    context.Context
	schema schema
	sender
	begin  []statement // that begin the transaction; nil when somebody else began it
	before []statement // of them, those that weren't sent yet
	kept   []statement
	// readCommitted is what a transaction is that nobody begins, on this connection
	readCommitted bool
}

// rows runs a query and scans its rows when all are there, so that scan may run
// other queries.
func (u *unit) rows(query string, args []any, scan func(row []any) error) error {
	_, err := u.now(statement{query: u.schema.in(query), args: args, scan: scan, want: anyCount})
	return err
}

// exec runs a statement and tells how many rows it changed.
func (u *unit) exec(query string, args ...any) (int64, error) {
	return u.now(statement{query: u.schema.in(query), args: args, want: anyCount})
}

// later runs a statement with the next round trip, which fails unless it
// changes just so many rows; anyCount is any number.
func (u *unit) later(want int64, what, query string, args ...any) {
	u.kept = append(u.kept, statement{query: u.schema.in(query), args: args, want: want, what: what,
		alone: query == insertKnown})
}

// raw runs a query and reads its rows as they come in. Only our own connections
// carry such. One that is last commits in the same round trip: what is said after
// it begins a new transaction. When nothing was sent before it, what one round trip
// carries is a transaction by itself, and nothing has to say so.
func (u *unit) raw(query string, args []any, last bool, read func(row cells) error) error {
	list := []statement{{query: u.schema.in(query), args: args, cells: read, want: anyCount}}
	switch {
	case last && u.readCommitted && len(u.before) == 1:
		u.before = nil
	case last:
		list = append(list, statement{query: "COMMIT", want: anyCount})
	}
	_, err := u.now(list...)
	if last && err == nil {
		u.before = u.begin
	}
	return err
}

// one reads a single value; no row is nil.
func (u *unit) one(query string, args ...any) (v any, err error) {
	err = u.rows(query, args, func(row []any) error {
		v = row[0]
		return nil
	})
	return v, err
}

// now sends what was kept back, and s.
func (u *unit) now(s ...statement) (int64, error) {
	list := slices.Concat(u.before, u.kept, s)
	u.before, u.kept = nil, nil
	if len(list) == 0 {
		return 0, nil
	}
	return u.send(u.ctx, list)
}

// flush sends what was kept back.
func (u *unit) flush() error {
	if len(u.kept) == 0 {
		return nil
	}
	_, err := u.now()
	return err
}

// commit ends the transaction; a single statement is one by itself. Writes that must change just so many rows go out
// before it, since the server can't know what was expected of them.
func (u *unit) commit() error {
	if len(u.kept) == 1 && len(u.begin) == 1 && len(u.before) == 1 && u.kept[0].alone {
		u.before = nil
		return u.flush()
	}
	for _, s := range u.kept {
		if s.want != anyCount {
			if err := u.flush(); err != nil {
				return err
			}
			break
		}
	}
	_, err := u.now(statement{query: "COMMIT", want: anyCount})
	return err
}
