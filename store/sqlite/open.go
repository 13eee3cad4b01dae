package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
)

// Options of a SQLite book. The zero value works.
type Options struct {
	Book daybook.Options // log, hook, and the bell: nil is one inside this process
	// Now is the book's one clock; nil is the process's. Every time in the
	// book comes from it.
	Now func() time.Time
	// Fast sets synchronous=NORMAL: after a power loss the last commits may
	// be gone, which breaks the promise that accepted jobs are never lost.
	Fast bool
	// Busy is how long a write waits for another process's; 0 is a minute.
	Busy time.Duration
	// Cache is how much of the file each connection keeps in memory, in bytes;
	// 0 is CacheDefault. A program that only puts jobs in needs little.
	Cache int
	// Wrap wraps the driver's connector, for tests that cut or count calls.
	Wrap func(driver.Connector) driver.Connector
}

// MinVersion is the oldest SQLite that is safe with several connections:
// 3.7.0 to 3.51.2 could corrupt a WAL file when a commit met the start of a
// checkpoint.
const MinVersion = "3.51.3"

// CacheDefault keeps the pages of a few thousand jobs at hand.
const CacheDefault = 32 << 20

// busySlice is how long the driver waits for another process's write at a
// time. Between slices the writer looks whether anybody still wants it to: a
// caller that gave up, or a book that closes, must not wait for a stranger.
const busySlice = 250 * time.Millisecond

// Memory is the path of a book that lives in this process alone.
const Memory = ":memory:"

// Store is a SQLite file as a daybook.Store. Open makes one inside a Book.
type Store struct {
	path   string
	now    func() time.Time
	busy   time.Duration
	cache  int
	queue  chan *write
	done   chan struct{}
	closed chan struct{} // closed when Close begins
	once   sync.Once
	names  *names
	refs   *refs
	writes driver.Connector
	reads  *sql.DB // nil in memory: reads go through the writer
	txs    *sql.DB // for ClaimTx
	own    *conn   // the writer's; only its goroutine touches it
}

// Open opens the book in the file, making file and schema when they are not
// there. It refuses a SQLite older than MinVersion and a file on a network
// file system, whose locks can't be trusted. Several processes may open the
// same file. The caller closes the book.
func Open(ctx context.Context, path string, o Options) (*daybook.Book, error) {
	if path == "" {
		return nil, daybook.Invalid("db", "is empty; name a file, like sqlite:daybook.db")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Book.Bell == nil {
		o.Book.Bell = local.New()
	}
	if o.Busy == 0 {
		o.Busy = time.Minute
	}
	if o.Cache == 0 {
		o.Cache = CacheDefault
	}
	if path != Memory {
		if err := refuseNetwork(path); err != nil {
			return nil, err
		}
	}
	s := &Store{path: path, now: o.Now, busy: o.Busy, cache: max(o.Cache, 256<<10), queue: make(chan *write, 1024),
		done: make(chan struct{}), closed: make(chan struct{}), names: newNames(),
		refs: newRefs()}
	wrap := o.Wrap
	if wrap == nil {
		wrap = func(c driver.Connector) driver.Connector { return c }
	}
	s.writes = wrap(connector{s.dsn(o.Fast, "immediate", min(s.busy, busySlice))})
	if path != Memory {
		s.reads = sql.OpenDB(wrap(connector{s.dsn(o.Fast, "deferred", s.busy)}))
		s.reads.SetMaxOpenConns(max(4, runtime.NumCPU()))
		s.reads.SetConnMaxIdleTime(time.Minute)
		s.txs = sql.OpenDB(s.writes)
		s.txs.SetMaxOpenConns(1)
		s.txs.SetConnMaxIdleTime(time.Second)
	}
	if err := s.begin(ctx); err != nil {
		s.shut()
		return nil, s.friendly("opening the book", err)
	}
	go s.run()
	return daybook.New(s, o.Book), nil
}

// dsn is the driver's data source name. temp_store keeps claims from paying
// for a temporary file.
func (s *Store) dsn(fast bool, lock string, busy time.Duration) string {
	q := url.Values{}
	q.Set("_txlock", lock)
	synchronous := "FULL"
	if fast {
		synchronous = "NORMAL"
	}
	for _, p := range []string{"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")",
		"synchronous(" + synchronous + ")", "temp_store(MEMORY)", "cache_size(-" + strconv.Itoa(s.cache>>10) + ")",
		"wal_autocheckpoint(4000)", "foreign_keys(0)"} {
		q.Add("_pragma", p)
	}
	if s.path == Memory {
		return Memory + "?" + q.Encode()
	}
	return "file:" + (&url.URL{Path: s.path}).EscapedPath() + "?" + q.Encode()
}

// begin opens the writer's connection and brings file and schema up.
func (s *Store) begin(ctx context.Context) error {
	own, err := connect(ctx, s.writes)
	if err != nil {
		return err
	}
	s.own = own
	version, err := one(own, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	if older(text(version), MinVersion) {
		return daybook.Fail(daybook.CodeInvalid, "SQLite %s can corrupt a book that several connections share; %s or newer is needed",
			text(version), MinVersion)
	}
	if s.path != Memory {
		if err := s.patiently(ctx, func() error { return makeWAL(own) }); err != nil {
			return err
		}
	}
	return s.patiently(ctx, func() error { return upgrade(own, s.clock()) })
}

// makeWAL switches the file to a write-ahead log, once in its life.
func makeWAL(c *conn) error {
	mode, err := one(c, "PRAGMA journal_mode")
	if err != nil || text(mode) == "wal" {
		return err
	}
	mode, err = one(c, "PRAGMA journal_mode=WAL")
	if err == nil && text(mode) != "wal" {
		return daybook.Fail(daybook.CodeInvalid, "the file can't have a write-ahead log (its mode stays %s); choose a local disk", text(mode))
	}
	return err
}

// patiently repeats what another process may be in the way of.
func (s *Store) patiently(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(s.busy)
	for {
		err := do()
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		t := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// one reads a single value.
func one(q querier, query string, args ...driver.Value) (v driver.Value, err error) {
	err = q.rows(query, args, func(row []driver.Value) error {
		if b, ok := row[0].([]byte); ok {
			v = append([]byte(nil), b...)
		} else {
			v = row[0]
		}
		return nil
	})
	return v, err
}

// older compares versions like 3.51.3 number by number.
func older(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range w {
		a, b := 0, 0
		if i < len(h) {
			a, _ = strconv.Atoi(h[i])
		}
		b, _ = strconv.Atoi(w[i])
		if a != b {
			return a < b
		}
	}
	return false
}

// clock is the book's time.
func (s *Store) clock() daybook.Time { return daybook.At(s.now()) }

// Describe says what the store is, for logs.
func (s *Store) Describe() string { return "sqlite:" + s.path }

// Path is the file, or Memory.
func (s *Store) Path() string { return s.path }

// Close waits for running writes and lets go of the file. Twice is harmless.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closed)
		<-s.done
		s.shut()
	})
	return nil
}

func (s *Store) shut() {
	if s.reads != nil {
		s.reads.Close()
		s.txs.Close()
	}
	if s.own != nil {
		s.own.close()
		s.own = nil
	}
}

func closedError() error {
	return daybook.Fail(daybook.CodeUnavailable, "the book is closed")
}

func dirOf(path string) string { return filepath.Dir(path) }

// of finds the SQLite store under a book.
func of(book *daybook.Book) (*Store, error) {
	if book == nil { // a claim that was made through a server
		return nil, daybook.Fail(daybook.CodeRefused, "a transaction needs the book itself, and here is only its server")
	}
	s, ok := book.Store().(*Store)
	if !ok {
		return nil, daybook.Invalid("db", "is not a SQLite book but %s", fmt.Sprintf("%.64s", book.Store().Describe()))
	}
	return s, nil
}
