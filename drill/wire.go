package drill

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
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

// lines writes values as lines of JSON, from any goroutine.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(append(line, '\n'))
	return err
}

// readLines decodes one value a line until the end. A line that is cut off,
// because its writer was killed, is the end too; the error is a whole line that
// is something else.
func readLines[T any](r *bufio.Reader, each func(T)) error {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return daybook.Invalid("line", "%.80q is not what the drill's processes say to each other", line)
		}
		each(v)
	}
}
