package drill

import (
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/worker"
)

// Parent and child speak in lines of JSON: orders on the child's standard
// input, reports on its standard output. The end of the orders tells the child
// to stop: also when the parent died.

// role is what a child is.
type role string

// The roles. The zero one is a worker.
const (
	roleWorker   role = ""
	roleEnqueuer role = "enqueuer"
	roleRelay    role = "relay"
	roleServer   role = "server"
	roleMover    role = "mover"
)

// setup is the first line that a child reads.
type setup struct {
	Role  role   `json:",omitempty"`
	Name  string // unique in the drill
	Queue string
	Where string // the book, for [Opener]; may hold a password
	Lease time.Duration
	To    effects.Handlers // where the destinations are
	Fault planted          `json:",omitempty"`

	Poll     time.Duration `json:",omitempty"` // 0 is poll
	Slots    int           `json:",omitempty"` // handlers at once; 0 is one
	Loops    bool          `json:",omitempty"` // reconciler and relay beside the handlers
	Bells    bool          `json:",omitempty"` // rings count, and can be hurt
	Load     bool          `json:",omitempty"` // of an enqueuer: put jobs in without being told to
	Accepted string        `json:",omitempty"` // where an enqueuer writes the ids that it was answered
	Server   string        `json:",omitempty"` // the address to serve at, or to enqueue through
	Clock    time.Duration `json:",omitempty"` // how far its wall clock is off
	Old      oldPlace      `json:",omitzero"`  // what a mover moves
}

// oldPlace is a queue of an old system, with the cutover that moves it.
type oldPlace struct{ URL, Queue, Cutover string }

// planted is a fault of the worker itself, which the drill must find: for its
// own tests.
type planted string

// The planted faults.
const (
	forgetful planted = "forgetful" // calls outside of the ledger
	deaf      planted = "deaf"      // no fault ever reaches it
	careless  planted = "careless"  // movers forget what a dead one held
)

// arming makes a child stand still when it comes to a gap. No gap takes the
// arming before back.
type arming struct {
	Run int // tells reports of one run from the next's
	Gap string
}

// gapReceived is a place of the drill's own in the gap accept: before the
// enqueuer's transaction. Who is stopped in one of SQLite's stops everybody.
const gapReceived = "received"

// request is one that an enqueuer is told to make.
type request struct {
	ID    daybook.ID
	Queue string
	Args  []byte
}

// order is what the parent wants; one field is set.
type order struct {
	Arm  *arming  `json:",omitempty"`
	Go   int      `json:",omitempty"` // go on from where this run made you stand
	Send *request `json:",omitempty"`
	Hurt *hurting `json:",omitempty"`
	Ring string   `json:",omitempty"` // a ring for this queue, carried by the parent
	Move string   `json:",omitempty"` // a step of a cutover
	Tell int      `json:",omitempty"` // say what you counted
}

// report is what a child says; one field is set.
type report struct {
	Armed  int       `json:",omitempty"` // the arming of this run is in force
	At     *standing `json:",omitempty"`
	On     int       `json:",omitempty"` // it went on from where this run made it stand
	Error  string    `json:",omitempty"` // it can't go on, and ends
	Away   bool      `json:",omitempty"` // because the database is away
	Ready  bool      `json:",omitempty"` // it does its work
	Sent   *sent     `json:",omitempty"`
	Rings  []string  `json:",omitempty"` // rung, for the parent to carry
	Listen []string  `json:",omitempty"` // it listens to these queues
	Told   *told     `json:",omitempty"`
	Moved  *moved    `json:",omitempty"`
}

// moved says how a step of a cutover ended.
type moved struct {
	Verb string
	Code daybook.Code `json:",omitempty"`
	Text string       `json:",omitempty"`
}

// standing says that the child stands in a gap and waits.
type standing struct {
	Run int
	PID int
	Gap string
	Job daybook.ID `json:",omitzero"` // not known in the gap pause
}

// sent is what an enqueuer was answered.
type sent struct {
	ID       daybook.ID
	Replayed bool   `json:",omitempty"`
	Error    string `json:",omitempty"`
}

// told is what a child counted.
type told struct {
	Number int          // of the order
	Worker worker.Stats `json:",omitzero"`
	Hurt   int          // rings that were spoiled since the last hurting
	Wall   time.Time    // its clock
	Sent   int64        // ids that an enqueuer was answered
}
