// Package belldrill lets bells lie while jobs run: it kills, wipes, replays,
// doubles and silences each of them under workers, and then looks whether every
// job ran once and the book is as it should be. It has tests only: a few hundred
// jobs a fault where the servers are wanted, and twenty thousand by
// make drill-bells.
package belldrill
