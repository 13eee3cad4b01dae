package drill

import (
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
)

// Parent and child speak in lines of JSON: orders on the child's standard
// input, reports on its standard output. The end of the orders tells the child
// to stop: also when the parent died.

// setup is the first line that a child reads.
type setup struct {
	Name  string // unique in the drill
	Queue string
	Where string // the book, for [Opener]; may hold a password
	Lease time.Duration
	To    effects.Handlers // where the destinations are
	Fault planted          `json:",omitempty"`
}

// planted is a fault of the worker itself, which the drill must find: for its
// own tests.
type planted string

// The planted faults.
const (
	forgetful planted = "forgetful" // calls outside of the ledger
	deaf      planted = "deaf"      // no fault ever reaches it
)

// arming makes a child stand still when it comes to a gap. No gap takes the
// arming before back.
type arming struct {
	Run int // tells reports of one run from the next's
	Gap string
}

// order is what the parent wants; one field is set.
type order struct {
	Arm *arming `json:",omitempty"`
	Go  int     `json:",omitempty"` // go on from where this run made you stand
}

// report is what a child says; one field is set.
type report struct {
	Armed int       `json:",omitempty"` // the arming of this run is in force
	At    *standing `json:",omitempty"`
	On    int       `json:",omitempty"` // it went on from where this run made it stand
	Error string    `json:",omitempty"` // it can't go on, and ends
}

// standing says that the child stands in a gap and waits.
type standing struct {
	Run int
	PID int
	Gap string
	Job daybook.ID `json:",omitzero"` // not known in the gap pause
}
