// Package simulate runs the loops of this module (workers, reconcilers, relays)
// and clients that claim by hand on one book in memory, in virtual time, under a
// schedule of faults that a seed has drawn: calls that don't reach the database,
// answers that are lost, processes that die, stand still past their lease or are
// cut off, rings that are lost, doubled and late, and a person who cancels. An
// hour of that takes a moment, so that a test tries thousands of schedules.
//
// When all is healed every job must come to its end, the checker must find
// nothing, the destination's ledger must agree with the book, and the history of
// claims and completions, as their callers saw it, must be one that a single book
// could have given (it is checked for linearizability).
//
// A schedule that fails is made shorter, as far as it still fails, and written to
// a file that anybody can read; the files in testdata are run again by each test.
package simulate
