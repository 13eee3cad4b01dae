// Package daybook is a durable job system: a book (a database record) says
// what work was accepted, who owns it and how it ended; a bell only says
// "look now".
//
// This package is the domain. It holds the states of a job, every move
// between them as a pure function, the limits, the gaps and the invariants as
// data, and [Book], which carries the moves out on a [Store]. It imports the
// standard library only and does no I/O of its own.
//
// Open a book with store/sqlite (one file, no server), put work in with
// [Book.Enqueue], and run it with package worker:
//
//	book, err := sqlite.Open(ctx, "daybook.db", sqlite.Options{})
//	receipt, err := book.Enqueue(ctx, daybook.Request{
//		Queue: "mail", Kind: "welcome", Args: json.RawMessage(`{"to":"ada@example.org"}`),
//		Key: "signup-4711", // the same key twice is one job
//	})
//
// The word is at-least-once. A job's handler may run again after a crash; what
// must not happen twice goes through the effects ledger, or into the same
// transaction as the completion (ClaimTx of the store packages), the one place
// where once means once.
package daybook
