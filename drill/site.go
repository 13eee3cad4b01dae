package drill

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// Site is where a drill of everything runs: a book of its own on somebody's store
// and bell, and what can be done to it there. What is nil can't be done, and its
// faults are left out.
type Site struct {
	Store string // what it is, for people: "sqlite", "postgres"
	Bell  string // the same
	Place string // where the store is and of which version, for people; holds no secret
	// Addresses of the servers, host:port, for the drill's proxies; "" is none, or
	// one that they can't reach.
	StoreAddr, BellAddr string
	// Where names the drill's book to the Opener, reached as the route says.
	Where  func(Route) (string, error)
	Server Server
	Power  Power
	Room   int // connections that the server has room for; 0 where none are counted
	// Old starts a Redis for the drill alone, in which it has an old system's
	// queues; nil is that it can't, and NoOld says why.
	Old   func() (url string, stop func() error, err error)
	NoOld string
	// Full opens a fresh SQLite book of its own in a folder, whose file can't grow
	// beyond what little it has; room makes some room in it.
	Full func(ctx context.Context, dir string) (book *daybook.Book, room func() error, err error)
}

// Route is how a process reaches the book.
type Route struct {
	Application string        // the application_name of its connections, on PostgreSQL
	Store, Bell string        // host:port instead of the servers' own
	Clock       time.Duration // how far the process's clock is off
}

// Server is a database server, as far as a drill goes: its own connections.
type Server interface {
	// Terminate ends the connections with an application_name, and says how many.
	Terminate(ctx context.Context, application string) (int, error)
	// Sit opens up to n idle connections, and says how many are there; fewer when
	// the server has no room for more. leave closes them.
	Sit(ctx context.Context, n int, application string) (sits int, leave func(), err error)
	// Began is when the server began to run, as it says; another time is another run.
	Began(ctx context.Context) (string, error)
}

// Power is a server that the drill may take down.
type Power interface {
	// Restart restarts it, and returns when it takes connections again.
	Restart(ctx context.Context) error
	// ReadOnly makes every transaction read only, or lets them write again. Where
	// that would reach further than the drill may, CanReadOnly is false.
	ReadOnly(ctx context.Context, on bool) error
	CanReadOnly() bool
}
