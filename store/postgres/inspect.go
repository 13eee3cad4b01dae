package postgres

import (
	"context"
	"strconv"

	"github.com/daybookdev/daybook"
)

// rule is one invariant in SQL. A walk takes the names of rows from its
// sources, a chunk at a time, and asks the query which of them break it.
type rule struct {
	full []source // what a walk of everything walks
	live []source // what a walk of live rows and of what ended since walks
	// query answers the broken ones of part (v), which has the chunk's names:
	// part.v, the subject (an id or name, or NULL) and what is wrong in a few
	// words. It may use clock (now). It is one statement, so that it sees every
	// table as of one moment, and it says by itself what it is about: what moved
	// since the walk named it must not look wrong.
	query string
	rows  int64 // of a chunk; 0 is chunkRows
	// wrong decides what SQL can't, from the columns after the third.
	wrong func(row []any) bool
}

// chunkRows is how many rows one snapshot looks at: some tens of milliseconds'
// worth, so that a check of millions of rows never is an old snapshot.
const chunkRows = 2000

// ofPart is the head of every rule's query.
const ofPart = `WITH part AS MATERIALIZED (SELECT u.v FROM unnest($1::text[]) AS u(v)),
	clock AS MATERIALIZED (SELECT daybook.clock() AS now) `

// beginLook begins a transaction whose statements each have a snapshot of their
// own. One snapshot for all of them would not see what was written into a new
// partition when an old one is dropped meanwhile.
const beginLook = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"

// lookSettings leave the planner no choice but the indexes, whatever its
// statistics say of tables that grow and shrink by the minute. The queries do
// the rest: a lateral subquery with OFFSET 0 is run once a row and not joined
// otherwise. A look whose process is gone ends by itself.
const lookSettings = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
	set_config('max_parallel_workers_per_gather', '0', true), set_config('statement_timeout', $1::text, true)`

// letGo ends the snapshot of the statement before it, which would live until
// the next one: a checker that is stopped between two must hold nothing.
const letGo = "SET LOCAL jit = off"

// glance runs one query, and lets go of its snapshot.
func glance(u *unit, query string, args []any, scan func(row []any) error) error {
	_, err := u.now(statement{query: u.schema.in(query), args: args, scan: scan, want: anyCount},
		statement{query: letGo, want: anyCount})
	return err
}

// look runs fn in a transaction that only reads.
func (s *Store) look(ctx context.Context, doing string, fn func(u *unit) error) error {
	err := s.transact(ctx, beginLook, func(u *unit) error {
		u.later(anyCount, "", lookSettings, strconv.FormatInt(s.opts.Patience.Milliseconds(), 10))
		return fn(u)
	})
	return s.schema.friendly(doing, err)
}

// Inspect walks one chunk of an invariant's rows.
func (s *Store) Inspect(ctx context.Context, in daybook.Inspection) (out daybook.Inspected, err error) {
	r, ok := rules[in.Invariant.Name]
	if !ok {
		return out, daybook.Invalid("invariant", "%q is not one that this store knows", in.Invariant.Name)
	}
	for range tries {
		err = s.look(ctx, "checking "+in.Invariant.Name, func(u *unit) error {
			if in.Together && len(in.Only) == 0 {
				out, err = s.inspectTogether(u, in)
			} else {
				out, err = s.inspect(u, r, in)
			}
			return err
		})
		if stateOf(err) != stateNoTable { // a partition that was dropped between two statements
			break
		}
	}
	return out, err
}

func (s *Store) inspect(u *unit, r rule, in daybook.Inspection) (out daybook.Inspected, err error) {
	rows := in.Only
	if len(rows) > 0 {
		out.Done = true
	} else if rows, out.Next, err = s.walk(u, r, in); err != nil {
		return out, err
	} else {
		out.Done = out.Next == ""
	}
	out.Walked = int64(len(rows))
	if len(rows) > 0 {
		out.Violations, err = ask(u, r, in.Invariant.Name, rows)
	}
	return out, err
}

// ask asks which rows are against a rule.
func ask(u *unit, r rule, name string, rows []string) (found []daybook.Violation, err error) {
	err = glance(u, ofPart+r.query, []any{rows}, func(row []any) error {
		if r.wrong == nil || r.wrong(row[3:]) {
			at := text(row[0])
			found = append(found, daybook.Violation{Invariant: name, Subject: subject(row[1], at),
				Detail: printable(text(row[2])), At: at})
		}
		return nil
	})
	return found, err
}

// Known tells which ids the book has a job of.
func (s *Store) Known(ctx context.Context, ids []daybook.ID) (known []bool, err error) {
	known = make([]bool, len(ids))
	err = s.look(ctx, "looking for jobs", func(u *unit) error {
		return glance(u, `SELECT u.n FROM unnest($1::text[]) WITH ORDINALITY AS u(id, n)
			CROSS JOIN LATERAL (SELECT FROM daybook.job x WHERE x.id = u.id::uuid OFFSET 0) j`,
			[]any{texts(ids)}, func(row []any) error {
				known[num(row[0])-1] = true
				return nil
			})
	})
	return known, err
}

// subject names what broke an invariant: a job or session by its id, a queue
// or key by its name, and a row whose job is gone by its place.
func subject(v any, at string) string {
	if v == nil {
		return "row " + printable(at)
	}
	return printable(text(v))
}

// printable makes text of a broken book safe to print, and short.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	s = strconv.QuoteToASCII(s)
	return s[1 : len(s)-1]
}
