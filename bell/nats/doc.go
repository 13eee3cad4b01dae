// Package nats is the bell that rings through a NATS server. With core NATS a
// ring is one message to the queue group of its queue: the server gives it to
// one of the processes that listen, and keeps nothing. With JetStream the server
// also keeps the newest ring of each queue until a listener has acted on it, so
// that rings outlive listeners that die, and the server's own restart.
package nats
