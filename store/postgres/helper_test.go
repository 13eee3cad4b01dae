package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/proxy"
)

// A few words for tests of this package.

// fresh opens a book in a schema of its own and checks it when the test ends.
func fresh(t *testing.T, url string, o Options) *daybook.Book {
	t.Helper()
	book := openBook(t, url, bookName(""), o)
	t.Cleanup(func() { healthy(t, book) })
	return book
}

// healthy runs the checker over the whole book.
func healthy(t *testing.T, book *daybook.Book) {
	t.Helper()
	report, err := check.Run(context.Background(), book, check.Options{Full: true})
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, r := range report.Invariants {
		for _, v := range r.Found {
			t.Errorf("check: %s: %s %s", v.Invariant, v.Subject, v.Detail)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v (code %s)", err, daybook.CodeOf(err))
	}
}

func psql(t *testing.T, url, sql string) string {
	t.Helper()
	out, err := pgtest.Psql(url, sql)
	ok(t, err)
	return out
}

func enqueued(t *testing.T, book *daybook.Book, n int) []daybook.ID {
	t.Helper()
	requests := make([]daybook.Request, n)
	for i := range requests {
		requests[i] = daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
	}
	receipts, err := book.EnqueueMany(t.Context(), requests)
	ok(t, err)
	ids := make([]daybook.ID, n)
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids
}

func session(t *testing.T, book *daybook.Book, lease time.Duration) daybook.Session {
	t.Helper()
	s, err := book.StartSession(t.Context(), daybook.SessionRequest{Worker: "w", Lease: lease})
	ok(t, err)
	return s
}

func claimed(t *testing.T, book *daybook.Book, s daybook.Session, n int) []daybook.Job {
	t.Helper()
	got, err := book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: n})
	ok(t, err)
	return got.Jobs
}

func ownerOf(j daybook.Job) daybook.Owner {
	return daybook.Owner{Session: j.Session, Generation: j.Generation}
}

func complete(t *testing.T, book *daybook.Book, j daybook.Job) {
	t.Helper()
	_, err := book.Complete(t.Context(), j.ID, ownerOf(j), nil)
	ok(t, err)
}

func succeeded(t *testing.T, book *daybook.Book) (n int64) {
	t.Helper()
	_, backlog, err := book.Backlog(t.Context())
	ok(t, err)
	for _, b := range backlog {
		n += b.Succeeded
	}
	return n
}

// through is the URL of a server as it looks through a proxy.
func through(t *testing.T, server string) (string, *proxy.Proxy) {
	t.Helper()
	u, err := url.Parse(server)
	ok(t, err)
	p, err := proxy.Start(u.Host)
	ok(t, err)
	t.Cleanup(func() { p.Close() })
	u.Host = p.Addr()
	return u.String(), p
}

// ownServer is a server that the test may break.
func ownServer(t *testing.T, o pgtest.Options) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start(o)
	ok(t, err)
	t.Cleanup(func() { server.Stop() })
	return server
}

// serializable is a database whose default isolation is the strictest.
func serializable(t *testing.T) string {
	t.Helper()
	url := pgtest.Database(t)
	psql(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''serializable''',
		current_database()); END $$`)
	return url
}
