// Package relay is the loop that publishes the rings which lie in a book's
// outbox: each transaction that makes work eligible leaves a row there, with the
// work, and a bell that other processes hear is told of it afterwards.
//
// Programs ring by themselves, right after the commit. The relay is for those
// that can't: transactions of the caller's own, enqueues in SQL, a process that
// died between commit and ring, a bell that was away.
//
// A relay reads a batch of rows, publishes their queues with no transaction
// open, and then takes just those rows out, under row locks, in a transaction
// that carries their counts on. Several may run; none leads. Dying in the middle
// publishes a batch twice, which costs a look. It never trusts that rows show up
// in order: a mark spares it rows that it knows, and it looks at all of them
// again and again.
package relay
