package demo

import (
	"github.com/daybookdev/daybook"
)

// Parent and child speak in lines of JSON: orders on the child's standard
// input, reports on its standard output. The end of the orders tells the child
// to stop: also when the parent died.

// role is what a child does.
type role string

const (
	roleEnqueuer role = "enqueuer"
	roleWorker   role = "worker"
)

// setup is the first line that a child reads.
type setup struct {
	Role        role
	Name        string // unique in the run
	Book        string // the file
	Destination string // URL, for a worker
	Jobs        int    // how many deliveries there are
}

// arming makes a child stop at its passage-th way through a gap. Gap "" is
// none: it takes an arming back.
type arming struct {
	Fault   int // counts from 1; tells reports of one arming from the next's
	Gap     string
	Passage int
}

// order is what the parent wants; one field is set.
type order struct {
	Arm  *arming `json:",omitempty"`
	Go   int     `json:",omitempty"` // go on from the gap where this fault stopped you
	Send []int   `json:",omitempty"` // enqueue these deliveries
}

// report is what a child says; one field is set.
type report struct {
	At    *standing `json:",omitempty"`
	Ack   *ack      `json:",omitempty"`
	Error string    `json:",omitempty"` // it can't go on, and ends
}

// standing says that the child stands in a gap and waits.
type standing struct {
	Fault int
	Gap   string
	Job   daybook.ID `json:",omitzero"` // none in the gap claim
}

// ack is the book's answer to one request, as its caller got it.
type ack struct {
	Delivery int
	ID       daybook.ID
	Replayed bool
}
