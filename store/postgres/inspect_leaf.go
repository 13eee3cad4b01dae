package postgres

import (
	"fmt"
	"math"

	"github.com/daybookdev/daybook"
)

// Successes are found by where they are: the partitions of ended that reach
// past a time, each block by block. Their rows are written at the end and never
// updated, so a partition's first block with a row filed since, which its BRIN
// index finds, has nothing of the walk before it.

// leafBlocks bounds the blocks of a chunk: some 20,000 rows, of which the walk
// may want none.
const leafBlocks = 256

// leaf is one partition of ended.
type leaf struct {
	oid    int64
	name   string // quoted, with its schema
	blocks int64
}

// leafPlace is where a walk is in a partition: its oid, the block and line of
// the last row that was seen, and the first block that is none of its business:
// what comes in meanwhile, it might run after for ever. No end is a beginning.
type leafPlace struct{ oid, block, line, end int64 }

func (p leafPlace) key() []any { return []any{p.oid, p.block, p.line, p.end} }

// walkLeaf takes the next successes filed since. A chunk is of one partition,
// and may be empty before the walk is done.
func (s *Store) walkLeaf(u *unit, key []any, limit int64, since daybook.Time) (
	rows []string, next []any, done bool, err error) {
	at := leafPlace{num(key[0]), num(key[1]), num(key[2]), num(key[3])}
	l, found, err := s.leafFrom(u, at.oid, since)
	if err != nil || !found {
		return nil, nil, true, err
	}
	beyond := leafPlace{oid: l.oid + 1}
	if l.oid != at.oid || at.end == 0 {
		at = leafPlace{oid: l.oid, end: l.blocks}
		if at.block, found, err = l.firstSince(u, since); err != nil || !found {
			return nil, beyond.key(), false, err
		}
	}
	rows, last, err := l.successes(u, at, limit, since)
	switch behind := at.block + leafBlocks; {
	case err != nil:
		return nil, nil, false, err
	case int64(len(rows)) == limit:
		return rows, last.key(), false, nil
	case behind < at.end:
		return rows, leafPlace{oid: l.oid, block: behind, end: at.end}.key(), false, nil
	}
	return rows, beyond.key(), false, nil
}

// leafFrom finds the next partition that may have rows filed since. The bound
// of a partition is written like FOR VALUES FROM ('1') TO ('2').
func (s *Store) leafFrom(u *unit, oid int64, since daybook.Time) (l leaf, found bool, err error) {
	err = glance(u, `SELECT c.oid::bigint, format('%I.%I', n.nspname, c.relname),
			coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint
		FROM pg_namespace n JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = 'ended'
		JOIN pg_inherits i ON i.inhparent = t.oid JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r'
		WHERE n.nspname = $1::text AND c.oid::bigint >= $2::bigint
			AND coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''?(-?[0-9]+)')::bigint,
				$4::bigint) > $3::bigint
		ORDER BY c.oid LIMIT 1`, []any{string(s.schema), oid, int64(since), int64(math.MaxInt64)}, func(row []any) error {
		l, found = leaf{num(row[0]), text(row[1]), num(row[2])}, true
		return nil
	})
	return l, found, err
}

// firstSince finds the first block with a row filed since.
func (l leaf) firstSince(u *unit, since daybook.Time) (block int64, found bool, err error) {
	u.later(anyCount, "", "SELECT set_config('enable_bitmapscan', 'on', true)")
	err = glance(u, "SELECT e.ctid::text FROM "+l.name+" e WHERE e.filed_at >= $1::bigint LIMIT 1",
		[]any{int64(since)}, func(row []any) error {
			at, err := l.placeOf(text(row[0]))
			block, found = at.block, true
			return err
		})
	u.later(anyCount, "", "SELECT set_config('enable_bitmapscan', 'off', true)")
	return block, found, err
}

// successes are the next ones behind a place, in the order of their places.
func (l leaf) successes(u *unit, at leafPlace, limit int64, since daybook.Time) (
	rows []string, last leafPlace, err error) {
	err = glance(u, "SELECT e.seq::text, e.ctid::text FROM "+l.name+` e WHERE e.ctid > $1::text::tid
		AND e.ctid < $2::text::tid AND e.filed_at >= $3::bigint AND e.outcome = 1 LIMIT $4::bigint`,
		[]any{tid(at.block, at.line), tid(min(at.block+leafBlocks, at.end), 0), int64(since), limit},
		func(row []any) (err error) {
			rows = append(rows, text(row[0]))
			last, err = l.placeOf(text(row[1]))
			last.end = at.end
			return err
		})
	return rows, last, err
}

func tid(block, line int64) string { return fmt.Sprintf("(%d,%d)", block, line) }

func (l leaf) placeOf(ctid string) (leafPlace, error) {
	at := leafPlace{oid: l.oid}
	_, err := fmt.Sscanf(ctid, "(%d,%d)", &at.block, &at.line)
	return at, err
}
