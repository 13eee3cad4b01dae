// Package drill runs faults against a book on a real store, and compares what
// happened outside with what the book says. Its first drill is that of effects:
// for each policy, each gap around an effect, and each of two faults, kill -9 and
// stopped past the lease, a real worker process runs a job whose handler does one
// thing at a destination that keeps a ledger of its own; the fault hits the gap,
// another worker goes on, and in the end ledger and book must agree.
//
// The parent process plans, runs the destinations (examples/effects/outside) and
// a reconciler, and starts the workers: the same program again, which calls
// [Child]. A worker that reaches the gap it was armed for says so over a pipe,
// with its process id, and waits there, so that the fault hits the gap itself and
// not somewhere near it. A fault that can't be shown to have happened makes its
// run void, and void runs are no evidence.
package drill
