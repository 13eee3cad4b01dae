// Package sqlite keeps the book in one SQLite file: no server, durable, and
// open to several processes at once.
//
// One connection writes. Writes that arrive together share a commit (group
// commit), so that synchronous=FULL, the default, costs one flush for many
// jobs. Reads go to a pool of their own and never wait for writers (WAL).
// Every write transaction begins immediate: a transaction that read first and
// wrote later would fail at once when another process wrote in between.
//
// The driver is modernc.org/sqlite: pure Go, so a user needs no C compiler;
// docs/drivers.md has the numbers behind the choice.
package sqlite
