// Package rabbitmq is the bell that rings through a RabbitMQ server. Each queue
// of Daybook has one there, of two rings at most, which competing processes
// consume one at a time with manual acknowledgement: a ring that nobody acted on
// is delivered again. Rings aren't written to disk; whoever listens looks into
// the book when the server is back.
package rabbitmq
