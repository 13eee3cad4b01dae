// Package e2e moves real queues: each old system's own producers and workers run
// while the book takes their queue over, and the mover is killed on the way.
// DAYBOOK_TEST_OLD=1 runs its tests.
package e2e
