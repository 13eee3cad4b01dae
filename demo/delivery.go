package demo

import (
	"crypto/sha256"
	"strconv"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/webhooks"
)

// queue is where the deliveries wait.
const queue = "github"

// effect is the name of the one effect of each job.
const effect = "deliver"

// deliveries makes n deliveries: the real ones in the order of their file, and
// again with ids derived from theirs when n is larger.
func deliveries(n int) []webhooks.Delivery {
	real := webhooks.Deliveries()
	all := make([]webhooks.Delivery, n)
	for i := range all {
		all[i] = real[i%len(real)]
		if round := i / len(real); round > 0 {
			all[i].ID = derivedID(all[i].ID, round)
		}
	}
	return all
}

// derivedID is the id of a delivery's copy: the same in every process, and a
// UUID of version 8 (RFC 9562), as GitHub's ids are UUIDs.
func derivedID(id string, round int) string {
	sum := sha256.Sum256([]byte(id + "#" + strconv.Itoa(round)))
	var derived daybook.ID
	copy(derived[:], sum[:])
	derived[6] = derived[6]&0x0f | 0x80
	derived[8] = derived[8]&0x3f | 0x80
	return derived.String()
}

// request asks for the job of a delivery. GitHub's id is the request key, so
// that a redelivery is the same job.
func request(d webhooks.Delivery) daybook.Request {
	return daybook.Request{Queue: queue, Kind: d.Kind(), Args: d.Body, Key: d.ID}
}
