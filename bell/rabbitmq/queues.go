package rabbitmq

import (
	"errors"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// everyQueue stands for the server's queue of those who listen to every queue.
// No queue of Daybook is called so.
const everyQueue = "*"

const (
	// ringsMost is how many rings of one queue may lie in the server: one that
	// is being delivered, and one that came meanwhile.
	ringsMost = 2
	// allMost is how many may wait for those who listen to every queue.
	allMost = 64
)

// place is the name of a queue at the server.
func (b *Bell) place(queue string) string {
	if queue == everyQueue {
		return b.name + ".rings"
	}
	return b.name + ".ring." + queue
}

// queueOf is the queue of a place.
func (b *Bell) queueOf(place string) (queue string, ok bool) {
	if place == b.name+".rings" {
		return everyQueue, true
	}
	return strings.CutPrefix(place, b.name+".ring.")
}

// arguments of a queue at the server: it stays small, and goes when nobody has
// used it for a while.
func (b *Bell) arguments(queue string) amqp.Table {
	most := int32(ringsMost)
	if queue == everyQueue {
		most = allMost
	}
	age := int64(b.age / time.Millisecond)
	return amqp.Table{"x-queue-type": "classic", "x-max-length": most, "x-overflow": "drop-head",
		"x-message-ttl": age, "x-expires": age}
}

// declare makes a queue at the server, without waiting for its answer. A queue
// that can't be made closes the channel.
func (b *Bell) declare(ch *amqp.Channel, queue string) error {
	_, err := ch.QueueDeclare(b.place(queue), true, false, false, true, b.arguments(queue))
	return err
}

// aboutQueue finds the queue that the server's complaint is about.
var aboutQueue = regexp.MustCompile(`queue '([^']*)' in vhost`)

// blamed is the queue for which the server closed a channel.
func (b *Bell) blamed(err error) (queue string, ok bool) {
	reason, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return "", false
	}
	found := aboutQueue.FindStringSubmatch(reason.Reason)
	if found == nil {
		return "", false
	}
	return b.queueOf(found[1])
}

// sayOdd tells people about a queue that is there and isn't as it should be.
func (b *Bell) sayOdd(queue string, cause error) {
	if !b.said.First(queue) {
		return
	}
	b.log.Error("the queue "+b.place(queue)+" isn't as the bell makes it, or may not be made; it is used as it is, "+
		"and rings may pile up in it: delete it, and the bell makes it anew", "cause", causeOf(cause))
}

// sayDeaf tells people about a queue that can't be listened to.
func (b *Bell) sayDeaf(queue string, cause error) {
	if !b.said.First("deaf " + queue) {
		return
	}
	b.log.Error("the queue "+b.place(queue)+" can't be listened to; its jobs start by polling until it can: "+
		"delete it, or give the bell's user the right to read it", "cause", causeOf(cause))
}
