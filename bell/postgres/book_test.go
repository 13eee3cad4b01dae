package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	bell "github.com/daybookdev/daybook/bell/postgres"
	"github.com/daybookdev/daybook/internal/pgtest"
	store "github.com/daybookdev/daybook/store/postgres"
)

// bookWith opens a fresh book that rings this bell.
func bookWith(t *testing.T, url string, rings daybook.Bell) *daybook.Book {
	t.Helper()
	if _, err := store.Up(t.Context(), url, store.Options{}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	book, err := store.Open(t.Context(), url, store.Options{Book: daybook.Options{Bell: rings}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}

// snoop listens like psql does and returns every text that passes.
func snoop(t *testing.T, url, channel string) func() []string {
	t.Helper()
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var texts []string
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, n.Payload)
	}
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.ExecParams(t.Context(), `LISTEN "`+channel+`"`, nil, nil, nil, nil).Read().Err; err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for conn.WaitForNotification(ctx) == nil {
		}
	}()
	t.Cleanup(func() { stop(); <-done; conn.Close(context.Background()) })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), texts...)
	}
}

// L27: args of any size are accepted, and what goes through NOTIFY stays small.
func TestL27LargeArgs(t *testing.T) {
	if !bell.Wanted(t) {
		return
	}
	url := pgtest.Database(t)
	b := bell.Closing(t, bell.OpenLogged(t, url, bell.Options{}))
	book := bookWith(t, url, b)
	seen := snoop(t, url, bell.ChannelOf(bell.SchemaDefault))
	large := json.RawMessage(`"` + strings.Repeat("x", daybook.ArgsMax-2) + `"`)
	queue := strings.Repeat("q", daybook.NameMax)
	for n, args := range []json.RawMessage{json.RawMessage(`1`), large} {
		_, err := book.Enqueue(t.Context(), daybook.Request{Queue: queue, Kind: "k", Args: args})
		if err != nil {
			t.Fatalf("%d bytes of args: %v", len(args), err)
		}
		b.Ring(t.Context(), queue)
		bell.Soon(t, "a ring", func() bool { return len(seen()) > n })
	}
	size := len(seen()[0])
	for _, text := range seen() {
		if len(text) != size || size > bell.TextMax {
			t.Errorf("a ring of %d bytes after one of %d, want the same and at most %d", len(text), size, bell.TextMax)
		}
	}
}

// L44: somebody listens and never reads, so that NOTIFY's queue fills. Jobs are
// accepted all the same, and the log says why nothing rings.
func TestL44FullQueue(t *testing.T) {
	if !bell.Wanted(t) {
		return
	}
	settings := map[string]string{}
	probe := pgtest.Shared(t)
	small := bell.Psql(t, probe, "SELECT count(*) FROM pg_settings WHERE name = 'max_notify_queue_pages'") == "1"
	if small { // from PostgreSQL 17 on; before, it takes 8 GB
		settings["max_notify_queue_pages"] = "64"
	}
	server, err := pgtest.Start(pgtest.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	url := server.URL("postgres")
	var log bell.Text
	b := bell.OpenLogged(t, url, bell.Options{Echo: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !small {
		bell.SetMuch(b, 1e-6)
	}
	bell.Closing(t, b)
	book := bookWith(t, url, b)

	stuck, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close(context.Background())
	for _, sql := range []string{`LISTEN anything`, `BEGIN`, `SELECT 1`} {
		if err := stuck.ExecParams(t.Context(), sql, nil, nil, nil, nil).Read().Err; err != nil {
			t.Fatal(err)
		}
	}
	bell.Listening(t, b, "mail")
	rings := make([]daybook.Ring, 1000)
	for i := range rings {
		rings[i].Queue = fmt.Sprintf("%0*d", daybook.NameMax, i)
	}
	var full error
	for range 20 {
		if err := b.Publish(t.Context(), rings); err != nil {
			full = err
		}
	}
	if small && full == nil {
		t.Fatal("the queue never filled, so that this shows nothing")
	}
	bell.Soon(t, "a warning", func() bool { return strings.Contains(log.String(), "queue fills") })
	for n := range 20 {
		request := daybook.Request{Queue: "mail", Kind: "k", Args: json.RawMessage(fmt.Sprint(n))}
		if _, err := book.Enqueue(t.Context(), request); err != nil {
			t.Fatalf("an enqueue while NOTIFY's queue is full: %v", err)
		}
	}
	if small && (!strings.Contains(full.Error(), "queue") || !strings.Contains(log.String(), "pg_stat_activity")) {
		t.Errorf("a full queue is told as %q and logged as\n%s", full, log.String())
	}
}
