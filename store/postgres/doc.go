// Package postgres keeps the book in PostgreSQL 15 or newer: the store that
// companies run.
//
// A row says where a job is (ready, owned, ended), and on the fast path rows
// only move: they are inserted and deleted, never updated. The fast moves are
// functions in the book's schema, so that programs in any language carry out
// the very same statements inside their own transaction (see sql/). Slow moves
// are decided by the pure moves of package daybook on rows that are locked.
//
// Every transaction says its isolation (read committed) itself, since what it
// needs is row locks; the database's default may be stricter. Through a pooler
// in transaction mode no prepared statements are used: it is recognised by its
// process number.
package postgres
