// Package demo runs the main job on real input, with faults, and judges it:
// real webhook deliveries are accepted twice each by several processes at
// once, worker processes act on them against a destination that keeps its own
// ledger, and on the way processes are killed with SIGKILL, or stopped past
// their lease and continued, in the gaps of daybook.Gaps. In the end it
// compares what the destination saw with what the book says, and checks the
// book.
//
// The parent process plans the faults, runs the destination and a reconciler,
// and starts the others: the same program again, which calls [Child]. When a
// child reaches a gap that the parent armed, it says so over a pipe and waits
// there, so that a kill hits the gap itself and not somewhere near it. The
// parent lets new deliveries in while it goes through its plan, so every fault
// meets work on its way.
package demo
