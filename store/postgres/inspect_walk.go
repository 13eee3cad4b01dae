package postgres

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// source is one table, or part of one, in the order of an index.
type source struct {
	// query answers rows behind a key, in the order of the keys: the row's name
	// for part, then its key. Its parameters are the key and a limit.
	query string
	start []any // the key before all others: numbers, texts and ids
	since bool  // the first part of the key is when the walk's rows ended at the earliest
	// successes stands for the successes filed since, which have no index in
	// that order: see walkLeaf.
	successes bool
}

// walk takes the next rows and says where the chunk after them begins, "" for
// nowhere. A chunk is of one source.
func (s *Store) walk(u *unit, r rule, in daybook.Inspection) (rows []string, next string, err error) {
	sources := r.full
	if in.Since > 0 {
		sources = r.live
	}
	n, key, err := openPlace(in.After, sources)
	if err != nil || n >= len(sources) {
		return nil, "", err
	}
	if key == nil {
		key = sources[n].begin(in.Since)
	}
	limit := r.chunk(in.Chunk)
	done := false
	if sources[n].successes {
		rows, key, done, err = s.walkLeaf(u, key, limit, in.Since)
	} else {
		rows, key, err = sources[n].walk(u, key, limit)
		done = int64(len(rows)) < limit
	}
	if err != nil {
		return nil, "", err
	}
	if !done {
		next, err = closePlace(n, key)
	} else if n+1 < len(sources) {
		next, err = closePlace(n+1, nil)
	}
	return rows, next, err
}

func (s source) walk(u *unit, key []any, limit int64) (rows []string, last []any, err error) {
	last = key
	err = glance(u, s.query, append(asParameters(key), limit), func(row []any) error {
		rows = append(rows, text(row[0]))
		last = append([]any(nil), row[1:]...)
		return nil
	})
	return rows, last, err
}

func (s source) begin(since daybook.Time) []any {
	key := append([]any(nil), s.start...)
	if s.since {
		key[0] = int64(since)
	}
	return key
}

func (r rule) chunk(asked int64) int64 {
	switch {
	case asked > 0 && (r.rows == 0 || asked < r.rows):
		return asked
	case r.rows > 0:
		return r.rows
	}
	return chunkRows
}

func asParameters(key []any) []any {
	list := make([]any, len(key))
	for i, v := range key {
		list[i] = plain(v)
	}
	return list
}

// plain is a key's part as it travels, to the database and in a place.
func plain(v any) any {
	switch v := v.(type) {
	case daybook.ID:
		return v.String()
	case [16]byte:
		return daybook.ID(v).String()
	case string:
		return v
	}
	return num(v)
}

// A place is the number of a source and a key in it, as a JSON array. It is
// opaque to callers.

func closePlace(source int, key []any) (string, error) {
	doc, err := json.Marshal(append([]any{source}, asParameters(key)...))
	return string(doc), err
}

// openPlace reads a place; no key means the source's beginning.
func openPlace(place string, sources []source) (n int, key []any, err error) {
	if place == "" {
		return 0, nil, nil
	}
	d := json.NewDecoder(strings.NewReader(place))
	d.UseNumber()
	var parts []any
	if d.Decode(&parts) != nil || len(parts) == 0 {
		return 0, nil, noPlace()
	}
	number, err := partLike(int64(0), parts[0])
	if err != nil || number.(int64) < 0 || number.(int64) >= int64(len(sources)) {
		return 0, nil, noPlace()
	}
	n = int(number.(int64))
	if len(parts) == 1 {
		return n, nil, nil
	}
	start := sources[n].start
	if len(parts) != len(start)+1 {
		return 0, nil, noPlace()
	}
	for i, p := range parts[1:] {
		part, err := partLike(start[i], p)
		if err != nil {
			return 0, nil, noPlace()
		}
		key = append(key, part)
	}
	return n, key, nil
}

// partLike reads a part of a key as the sort that the source begins with.
func partLike(start, part any) (any, error) {
	switch start.(type) {
	case int64:
		if n, ok := part.(json.Number); ok {
			return n.Int64()
		}
	case daybook.ID:
		if s, ok := part.(string); ok {
			return daybook.ParseID(s)
		}
	case string:
		if s, ok := part.(string); ok {
			return s, nil
		}
	}
	return nil, fmt.Errorf("part %v", part)
}

func noPlace() error { return daybook.Invalid("after", "is not a place that a chunk gave") }
