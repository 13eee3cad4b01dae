package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookdev/daybook"
	bell "github.com/daybookdev/daybook/bell/postgres"
)

// Options of a PostgreSQL book. The zero value works.
type Options struct {
	Book daybook.Options // log, hook, and the bell: nil is one inside this process
	// Schema is where the book is; "" is SchemaDefault.
	Schema string
	// Conns bounds the connections for the book's own short transactions; 0 is
	// ConnsDefault, and fewer than ConnsMin are refused: a renewal must never
	// wait for the completions.
	Conns int
	// TxConns bounds those that ClaimTx holds while a handler's transaction
	// runs; 0 is TxConnsDefault. They are apart, so that handlers can't use up
	// what keeps their own leases.
	TxConns int
	// Patience bounds one round trip, so that a database that takes requests
	// and never answers holds nobody up; 0 is PatienceDefault.
	Patience time.Duration
	// Now replaces the database's clock, for tests: every transaction sets it.
	Now         func() time.Time
	wholeClaims bool // claimFew isn't used, for tests

	// Fault is called around each round trip, for tests: before it, and then
	// with did after it. Its error is the trip's, and breaks the connection.
	Fault func(call string, did bool) error
}

// The defaults.
const (
	ConnsDefault, ConnsMin = 10, 3
	TxConnsDefault         = 10
	PatienceDefault        = 30 * time.Second
	// busyAfter is how long a write waits for a row that somebody else holds.
	busyAfter = "2s"
)

// Store is a book in PostgreSQL as a daybook.Store. Open makes one inside a
// Book.
type Store struct {
	schema schema
	opts   Options
	ladder ladder
	pool   *pgxpool.Pool // the book's own short transactions
	txs    *pgxpool.Pool // ClaimTx
	where  string        // host, port and database, without secrets
	marks  marks
	tours  tours
	bell   *bell.Bell // when nobody named another one
	once   sync.Once
	closed atomic.Bool

	known names // queues
	lists lists // queues and kinds of sessions
	rests rests // queues again

	prepares bool // statements are prepared, unless a pooler stands between

	looking sync.Mutex
	looked  bool // whether a pooler stands between
	pooled  bool
}

var (
	_ daybook.Store     = (*Store)(nil)
	_ daybook.Inspector = (*Store)(nil)
)

// Open opens the book at a postgres:// URL, whose schema must be there (see
// Up). Nothing keeps the book from being opened by many processes at once. Its
// bell, unless o names another one, is the database's own NOTIFY, on up to two
// more connections; through a pooler that shares connections it isn't heard, and
// work is found by polling. The caller closes the book.
func Open(ctx context.Context, url string, o Options) (*daybook.Book, error) {
	s, err := newStore(url, o)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if o.Book.Bell == nil {
		own, err := bell.Open(ctx, url, bell.Options{Schema: o.Schema, Log: o.Book.Log})
		if err != nil {
			s.Close()
			return nil, err
		}
		s.bell, o.Book.Bell = own, own
	}
	return daybook.New(s, o.Book), nil
}

// newStore makes the pools and asks nothing of the database.
func newStore(url string, o Options) (*Store, error) {
	if o.Schema == "" {
		o.Schema = SchemaDefault
	}
	if err := checkSchema(o.Schema); err != nil {
		return nil, err
	}
	if o.Conns == 0 {
		o.Conns = ConnsDefault
	}
	if o.TxConns == 0 {
		o.TxConns = TxConnsDefault
	}
	if o.Patience == 0 {
		o.Patience = PatienceDefault
	}
	if o.Conns < ConnsMin {
		return nil, daybook.Invalid("conns", "wants at least %d, so that renewals have one, got %d", ConnsMin, o.Conns)
	}
	s := &Store{schema: schema(o.Schema), opts: o, ladder: steps}
	var err error
	if s.pool, err = s.connect(url, o.Conns, steady); err != nil {
		return nil, err
	}
	if s.txs, err = s.connect(url, o.TxConns, nil); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

// steady keeps plans from flipping: a table that was empty when a plan was made
// looks as if reading all of it were cheapest, and that plan is kept for long.
// A transaction that nobody begins is what those are that say so, whatever the
// database's default is. And that of a process which was stopped, or cut off, in
// the middle of it is ended: for as long as that held its session's row, nobody
// could end the session, nor give its jobs to others.
var steady = map[string]string{"enable_seqscan": "off", "jit": "off", isolation: "read committed",
	"idle_in_transaction_session_timeout": strconv.FormatInt(idleMost.Milliseconds(), 10)}

const isolation = "default_transaction_isolation"

// idleMost is how long a transaction of the book's own, which asks one thing
// right after the other, may wait for its process.
const idleMost = 5 * time.Second

func (s *Store) connect(url string, conns int, settings map[string]string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, daybook.Invalid("db", "is not a PostgreSQL URL like postgres://user@host/database: %s", redact(err, url))
	}
	at := c.ConnConfig
	s.where = fmt.Sprintf("%s:%d/%s", at.Host, at.Port, at.Database)
	if at.RuntimeParams["application_name"] == "" {
		at.RuntimeParams["application_name"] = "daybook"
	}
	if at.ConnectTimeout == 0 {
		at.ConnectTimeout = s.opts.Patience
	}
	if at.ValidateConnect == nil {
		// A node that can't be written to is not the book's.
		at.ValidateConnect = refuseReadOnly
	}
	chosen := at.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
	s.prepares = !chosen
	c.MaxConns = int32(conns)
	c.MaxConnIdleTime = time.Minute
	c.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error { return s.tune(ctx, c, chosen, settings) }
	return pgxpool.NewWithConfig(context.Background(), c)
}

// ready checks that the schema is one that this program knows, and that the
// database is the one that it was.
func (s *Store) ready(ctx context.Context) error {
	if err := s.checkVersion(ctx); err != nil {
		return err
	}
	return s.Write(ctx, "opening the book", func(t daybook.Tx) error {
		_, err := t.(*tx).one("SELECT daybook.note_origin()")
		return err
	})
}

// Describe says what the store is, for logs.
func (s *Store) Describe() string {
	if s.schema == SchemaDefault {
		return "postgres://" + s.where
	}
	return "postgres://" + s.where + " schema " + s.schema.quoted()
}

// Schema is the name of the schema that the book is in.
func (s *Store) Schema() string { return string(s.schema) }

// Close waits for running writes and lets go of the database. Twice is
// harmless.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		s.pool.Close()
		s.txs.Close()
		if s.bell != nil {
			s.bell.Close() // last: it says what is still to be said
		}
	})
	return nil
}

func closedError() error {
	return daybook.Fail(daybook.CodeUnavailable, "the book is closed")
}

// of finds the PostgreSQL store under a book.
func of(book *daybook.Book) (*Store, error) {
	if book == nil { // a claim that was made through a server
		return nil, daybook.Fail(daybook.CodeRefused, "a transaction needs the book itself, and here is only its server")
	}
	s, ok := book.Store().(*Store)
	if !ok {
		return nil, daybook.Invalid("db", "is not a PostgreSQL book but %s", fmt.Sprintf("%.64s", book.Store().Describe()))
	}
	return s, nil
}
