package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// rule is one invariant in SQL. A walk takes rows from its sources, a chunk at
// a time, and asks the query which of them break it.
type rule struct {
	full []source // what a walk of everything walks
	live []source // what a walk of live rows and of what ended since walks
	// query answers the broken ones of part (k, v), which has the chunk's rows
	// by number. Its columns are part.k, the subject (a job's or session's id,
	// a name, or NULL) and what is wrong in a few words. It may use clock (now,
	// pass): the time, and when the reconciler took its last pass.
	query string
	most  int64 // rows of a chunk, where rows are large; 0 is chunkRows
	// wrong decides what SQL can't, from the columns after the third.
	wrong func(row []driver.Value) bool
}

// chunkRows is how many rows one snapshot looks at: a few milliseconds' worth,
// so that a check of millions of rows never is an old snapshot.
const chunkRows = 2000

// chunk is the head of every rule's query. ?1 is a JSON array of rows.
const chunk = `WITH part (k, v) AS MATERIALIZED (SELECT key, value FROM json_each(?1)),
	clock (now, pass) AS (SELECT ?2, ?3) `

// Inspect walks one chunk of an invariant's rows, on a snapshot of its own.
func (s *Store) Inspect(ctx context.Context, in daybook.Inspection) (out daybook.Inspected, err error) {
	r, ok := rules[in.Invariant.Name]
	if !ok {
		return out, daybook.Invalid("invariant", "%q is not one that this store knows", in.Invariant.Name)
	}
	err = s.look(ctx, "checking "+in.Invariant.Name, func(v *view) error {
		out, err = v.inspect(r, in)
		return err
	})
	return out, err
}

// Known tells which ids the book has a job of.
func (s *Store) Known(ctx context.Context, ids []daybook.ID) (known []bool, err error) {
	hexes := make([]string, len(ids))
	for i, id := range ids {
		hexes[i] = hex.EncodeToString(id[:])
	}
	doc, err := json.Marshal(hexes)
	if err != nil {
		return nil, err
	}
	known = make([]bool, len(ids))
	err = s.look(ctx, "looking for jobs", func(v *view) error {
		return v.q.rows("SELECT e.key FROM json_each(?) e CROSS JOIN job j ON j.id = unhex(e.value)",
			[]driver.Value{string(doc)}, func(row []driver.Value) error {
				known[num(row[0])] = true
				return nil
			})
	})
	return known, err
}

// look reads one snapshot. In memory it waits for the writer to be alone: in
// the middle of a group of writes the counting rows are not written yet.
func (s *Store) look(ctx context.Context, doing string, fn func(*view) error) error {
	if s.reads != nil {
		return s.Read(ctx, doing, func(v daybook.View) error { return fn(v.(*view)) })
	}
	return s.alone(ctx, doing, func() error {
		v := &view{q: s.own, names: s.names, now: s.clock(), sessions: map[int64]daybook.Session{}}
		return s.friendly(doing, fn(v))
	})
}

func (v *view) inspect(r rule, in daybook.Inspection) (out daybook.Inspected, err error) {
	rows := in.Only
	if len(rows) > 0 {
		out.Done = true
	} else if rows, out.Next, err = v.walk(r, in); err != nil {
		return out, err
	} else {
		out.Done = out.Next == ""
	}
	out.Walked = int64(len(rows))
	if len(rows) == 0 {
		return out, nil
	}
	pass, err := v.Setting(context.Background(), daybook.SettingPass)
	if err != nil {
		return out, err
	}
	passed, _ := daybook.ParseTime("pass", pass) // none yet is 0
	args := []driver.Value{"[" + strings.Join(rows, ",") + "]", int64(v.now), int64(passed)}
	err = v.q.rows(chunk+r.query, args, func(row []driver.Value) error {
		if r.wrong == nil || r.wrong(row[3:]) {
			at := rows[num(row[0])]
			out.Violations = append(out.Violations, daybook.Violation{Invariant: in.Invariant.Name,
				Subject: subject(row[1], at), Detail: printable(text(row[2])), At: at})
		}
		return nil
	})
	return out, err
}

// subject names what broke an invariant: a job or session by its id, a queue
// or key by its name, and a row whose job is gone by its place.
func subject(v driver.Value, at string) string {
	if b, ok := v.([]byte); ok && len(b) == len(daybook.ID{}) {
		return id(v).String()
	}
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

// source is one table, or part of one, in the order of an index.
type source struct {
	// query answers rows behind a key, in the order of the keys: the row as a
	// JSON value, then its key. Its parameters are the key and a limit.
	query string
	start []driver.Value // the key before all others
	since bool           // the first part of the key is when the walk's rows ended at the earliest
}

func (s source) begin(since daybook.Time) []driver.Value {
	key := append([]driver.Value(nil), s.start...)
	if s.since {
		key[0] = int64(since)
	}
	return key
}

// walk takes the next rows and says where the chunk after them begins, "" for
// nowhere. A chunk is of one source.
func (v *view) walk(r rule, in daybook.Inspection) (rows []string, next string, err error) {
	sources := r.full
	if in.Since > 0 {
		sources = r.live
	}
	n, key, err := openPlace(in.After)
	if err != nil || n >= len(sources) {
		return nil, "", err
	}
	if key == nil {
		key = sources[n].begin(in.Since)
	}
	limit := r.chunk(in.Chunk)
	err = v.q.rows(sources[n].query, append(key, limit), func(row []driver.Value) error {
		rows = append(rows, rowText(row[0]))
		key = append([]driver.Value(nil), row[1:]...)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if int64(len(rows)) == limit {
		next, err = closePlace(n, key)
	} else if n+1 < len(sources) {
		next, err = closePlace(n+1, nil)
	}
	return rows, next, err
}

func (r rule) chunk(asked int64) int64 {
	most := int64(chunkRows)
	if r.most > 0 {
		most = r.most
	}
	if asked > 0 && (asked < most || r.most == 0) {
		return asked
	}
	return most
}

// rowText is a row as a JSON value: its number, or what its source made.
func rowText(v driver.Value) string {
	if n, ok := v.(int64); ok {
		return strconv.FormatInt(n, 10)
	}
	return text(v)
}

// A place is the number of a source and a key in it, as a JSON array. It is
// opaque to callers.

func closePlace(source int, key []driver.Value) (string, error) {
	doc, err := json.Marshal(append([]driver.Value{int64(source)}, key...))
	return string(doc), err
}

func openPlace(place string) (source int, key []driver.Value, err error) {
	if place == "" {
		return 0, nil, nil
	}
	d := json.NewDecoder(strings.NewReader(place))
	d.UseNumber()
	var parts []any
	if err := d.Decode(&parts); err != nil || len(parts) == 0 {
		return 0, nil, daybook.Invalid("after", "is not a place that a chunk gave")
	}
	for _, p := range parts {
		switch p := p.(type) {
		case json.Number:
			n, bad := p.Int64()
			err = errors.Join(err, bad)
			key = append(key, n)
		case string:
			key = append(key, p)
		default:
			err = fmt.Errorf("part %v", p)
		}
	}
	if n, ok := key[0].(int64); ok && err == nil && n >= 0 {
		if len(key) == 1 {
			return int(n), nil, nil
		}
		return int(n), key[1:], nil
	}
	return 0, nil, daybook.Invalid("after", "is not a place that a chunk gave")
}
