// Package reconcile is the loop that compares what is in the book with what
// should be, and repairs: sessions past their lease, claims that nobody holds
// any more, run limits, jobs past their expiry or retention, queues with work
// that nobody was told of.
//
// It needs to know no handler and no kind of job. Every repair is a
// compare-and-set like a worker's own write, so it can't harm live or finished
// work, and one bad row never stops the rest. Every worker and server runs a
// [Reconciler]; passes are taken by compare-and-set on one row, so a thousand
// processes cost about one.
package reconcile
