// Package raw is the limit that a job system on SQLite is measured by: a
// minimal job table through database/sql, one connection, prepared statements,
// and nothing else. It claims with a generation and completes by
// it; it has no leases, keys, retries or history, and shares its table with
// nobody.
package raw

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Args is the input of every job of a benchmark: about a hundred bytes.
const Args = `{"to":"ada@example.org","template":"welcome","locale":"en-GB","trial_days":14,"plan":"team"}`

// Pragmas are the settings of a Daybook book. Everything measured beside it
// gets the same, so that only the statements differ.
func Pragmas(synchronous string) []string {
	return []string{"journal_mode=WAL", "synchronous=" + synchronous, "temp_store=MEMORY", "cache_size=-32768",
		"wal_autocheckpoint=4000"}
}

// Options of a table.
type Options struct {
	Driver      string // name of a registered database/sql driver
	Synchronous string // FULL or NORMAL
	// Whole adds what any job table needs in the end: a unique id that can be
	// chosen by the caller (a UUID of version 7, 16 bytes), and a history row
	// for each completion.
	Whole bool
	// ByRow runs one statement per row, as most programs are written; else one
	// statement has all rows of a batch, which is faster.
	ByRow bool
}

const schema = `
CREATE TABLE job (
	id         INTEGER PRIMARY KEY,
	queue      INTEGER NOT NULL,
	state      INTEGER NOT NULL DEFAULT 0, -- 0 ready, 1 running, 2 done
	generation INTEGER NOT NULL DEFAULT 0,
	args       TEXT NOT NULL
);
CREATE INDEX job_ready ON job (queue, id) WHERE state = 0`

const wholeSchema = `
ALTER TABLE job ADD COLUMN uuid BLOB;
CREATE UNIQUE INDEX job_uuid ON job (uuid);
CREATE TABLE history (
	job        INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	outcome    INTEGER NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (job, generation)
) WITHOUT ROWID`

// Table is one job table in a file of its own.
type Table struct {
	db    *sql.DB
	conn  *sql.Conn
	whole bool
	byRow bool
	stmts map[string]*sql.Stmt
}

// Claimed is what a completion must name.
type Claimed struct {
	id, generation int64
}

// Open makes the table in a new file.
func Open(ctx context.Context, file string, o Options) (*Table, error) {
	db, err := sql.Open(o.Driver, file)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	t := &Table{db: db, conn: conn, whole: o.Whole, byRow: o.ByRow, stmts: map[string]*sql.Stmt{}}
	var script []string
	for _, p := range Pragmas(o.Synchronous) {
		script = append(script, "PRAGMA "+p)
	}
	if script = append(script, schema); o.Whole {
		script = append(script, wholeSchema)
	}
	for _, s := range script {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			t.Close()
			return nil, fmt.Errorf("%.40s: %w", s, err)
		}
	}
	return t, nil
}

// Close closes the file.
func (t *Table) Close() error {
	for _, s := range t.stmts {
		s.Close()
	}
	t.conn.Close()
	return t.db.Close()
}

// Enqueue inserts n jobs, batch of them a transaction.
func (t *Table) Enqueue(ctx context.Context, n, batch int) error {
	head, row := "INSERT INTO job (queue, args) VALUES ", "(1, ?)"
	if t.whole {
		head, row = "INSERT INTO job (queue, args, uuid) VALUES ", "(1, ?, ?)"
	}
	for left := n; left > 0; left -= batch {
		batch = min(batch, left)
		err := t.inTx(ctx, func() error {
			return t.inStatements(batch, func(_, size int) error {
				rows := make([]any, 0, 2*size)
				for range size {
					if rows = append(rows, Args); t.whole {
						rows = append(rows, uuid())
					}
				}
				return t.exec(ctx, head+repeat(row, size), rows...)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inStatements cuts n rows into statements: one for all, or one each.
func (t *Table) inStatements(n int, do func(from, size int) error) error {
	if !t.byRow {
		return do(0, n)
	}
	for from := range n {
		if err := do(from, 1); err != nil {
			return err
		}
	}
	return nil
}

// Work claims and completes all jobs. Fused, one transaction completes a batch
// and claims the next; else each is a transaction of its own.
func (t *Table) Work(ctx context.Context, batch int, fused bool) error {
	var held, next []Claimed
	steps := []func() error{
		func() error { return t.complete(ctx, held) },
		func() (err error) { next, err = t.claim(ctx, batch); return err },
	}
	for {
		err := t.together(ctx, fused, steps)
		if err != nil || len(next) == 0 {
			return err
		}
		held = next
	}
}

// together runs the steps in one transaction or in one each.
func (t *Table) together(ctx context.Context, fused bool, steps []func() error) error {
	if !fused {
		for _, step := range steps {
			if err := t.inTx(ctx, step); err != nil {
				return err
			}
		}
		return nil
	}
	return t.inTx(ctx, func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// ClaimAll claims all jobs, batch of them a transaction.
func (t *Table) ClaimAll(ctx context.Context, batch int) (all [][]Claimed, err error) {
	for {
		var jobs []Claimed
		err := t.inTx(ctx, func() (err error) { jobs, err = t.claim(ctx, batch); return err })
		if err != nil || len(jobs) == 0 {
			return all, err
		}
		all = append(all, jobs)
	}
}

// CompleteAll completes claimed jobs, each batch in a transaction of its own.
func (t *Table) CompleteAll(ctx context.Context, all [][]Claimed) error {
	for _, jobs := range all {
		if err := t.inTx(ctx, func() error { return t.complete(ctx, jobs) }); err != nil {
			return err
		}
	}
	return nil
}

// claim takes the oldest ready jobs, up to most.
func (t *Table) claim(ctx context.Context, most int) ([]Claimed, error) {
	s, err := t.stmt(ctx, `UPDATE job SET state = 1, generation = generation + 1
		WHERE id IN (SELECT id FROM job WHERE queue = 1 AND state = 0 ORDER BY id LIMIT ?)
		RETURNING id, generation, args`)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	jobs := make([]Claimed, 0, most)
	for rows.Next() {
		var c Claimed
		var args string // a handler would want it
		if err := rows.Scan(&c.id, &c.generation, &args); err != nil {
			return nil, err
		}
		jobs = append(jobs, c)
	}
	return jobs, rows.Err()
}

// complete ends jobs where the generation is still theirs.
func (t *Table) complete(ctx context.Context, jobs []Claimed) error {
	if len(jobs) == 0 {
		return nil
	}
	return t.inStatements(len(jobs), func(from, size int) error {
		owners := make([]any, 0, 2*size)
		for _, c := range jobs[from : from+size] {
			owners = append(owners, c.id, c.generation)
		}
		err := t.exec(ctx, t.completion(size), owners...)
		if err != nil || !t.whole {
			return err
		}
		return t.exec(ctx, "INSERT INTO history (job, generation, outcome, at) VALUES "+
			repeat("(?, ?, 1, unixepoch())", size), owners...)
	})
}

func (t *Table) completion(size int) string {
	if t.byRow {
		return "UPDATE job SET state = 2 WHERE id = ? AND generation = ? AND state = 1"
	}
	return "WITH o (i, g) AS (VALUES " + repeat("(?, ?)", size) +
		") UPDATE job SET state = 2 FROM o WHERE id = o.i AND generation = o.g AND state = 1"
}

func (t *Table) inTx(ctx context.Context, fn func() error) error {
	if err := t.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return t.exec(ctx, "COMMIT")
}

func (t *Table) exec(ctx context.Context, query string, args ...any) error {
	s, err := t.stmt(ctx, query)
	if err == nil {
		_, err = s.ExecContext(ctx, args...)
	}
	return err
}

// stmt prepares each text once.
func (t *Table) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.stmts[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err == nil {
		t.stmts[query] = s
	}
	return s, err
}

func repeat(row string, n int) string { return strings.Repeat(row+", ", n-1) + row }

// uuid makes a UUID of version 7, as job ids usually are.
func uuid() []byte {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(time.Now().UnixMilli())<<16)
	rand.Read(id[6:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}
