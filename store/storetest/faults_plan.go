package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// fault is how one call of the database fails.
type fault struct {
	after  bool // the call took hold, and only its answer is lost
	lasts  reach
	number int // which call, from 1
}

// reach is how much fails with the call.
type reach string

const (
	justOnce   reach = "once"       // the connection goes on working
	connection reach = "connection" // the connection is dead from here on
	outage     reach = "outage"     // every connection is, and no new one is made
)

var errFault = errors.New("a fault was injected here")

// faulter counts the calls that reach the database and lets one of them fail.
type faulter struct {
	mu    sync.Mutex
	armed *fault
	calls int
	fired bool
	down  bool
	seen  int // calls ever, armed or not
}

// arm lets the next calls count.
func (f *faulter) arm(with fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.calls, f.fired, f.down = &with, 0, false, false
}

// disarm ends the fault and reports whether its call was reached.
func (f *faulter) disarm() (fired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.down = nil, false
	return f.fired
}

// hits counts one call and reports whether it is the one.
func (f *faulter) hits() *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.armed == nil || f.fired {
		return nil
	}
	if f.calls++; f.calls != f.armed.number {
		return nil
	}
	f.fired, f.down = true, f.armed.lasts == outage
	return f.armed
}

func (f *faulter) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

// around makes one call of a connection, or has it fail.
func (f *faulter) around(c *faultyConn, call func() error) error {
	if f.isDown() {
		c.Close()
	}
	if c.isDead() {
		return driver.ErrBadConn
	}
	hit := f.hits()
	if hit == nil {
		return call()
	}
	if hit.after {
		if err := call(); err != nil {
			return err
		}
	}
	if hit.lasts != justOnce {
		c.Close()
	}
	return errFault
}

// call is for stores that aren't on database/sql: see Options.Fault.
func (f *faulter) call(_ string, did bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return errFault
	}
	if !did {
		f.seen++
		if f.armed != nil {
			f.calls++
		}
	}
	if f.armed == nil || f.fired || f.calls != f.armed.number || did != f.armed.after {
		return nil
	}
	f.fired, f.down = true, f.armed.lasts == outage
	return errFault
}

// wrap puts the faulter between a store and its driver.
func (f *faulter) wrap(c driver.Connector) driver.Connector { return faultyConnector{c, f} }

type faultyConnector struct {
	driver.Connector
	f *faulter
}

func (c faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.f.isDown() {
		return nil, errFault
	}
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: raw, f: c.f}, nil
}
