package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/examples/webhooks"
	"github.com/daybookdev/daybook/store/sqlite"
)

const secret = "it's a secret"

func open(t *testing.T) *daybook.Book {
	t.Helper()
	book, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "inbox.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}

// deliver sends a delivery as GitHub does, and returns the status.
func deliver(in inbox, d webhooks.Delivery, signature string) int {
	r := httptest.NewRequest(http.MethodPost, "/github", bytes.NewReader(d.Body))
	r.Header.Set("X-GitHub-Event", d.Event)
	r.Header.Set("X-GitHub-Delivery", d.ID)
	r.Header.Set("X-Hub-Signature-256", signature)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w.Code
}

// Every delivery comes twice and from many senders at once; each counts once.
func TestRedeliveriesCountOnce(t *testing.T) {
	book := open(t)
	in := inbox{book, secret}
	deliveries := webhooks.Deliveries()
	work := make(chan webhooks.Delivery)
	var mu sync.Mutex
	answers := map[int]int{}
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for d := range work {
				status := deliver(in, d, sign(secret, d.Body))
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	for range 2 {
		for _, d := range deliveries {
			work <- d
		}
	}
	close(work)
	senders.Wait()
	if want := map[int]int{202: len(deliveries), 200: len(deliveries)}; !maps.Equal(answers, want) {
		t.Errorf("got answers %v, want %v", answers, want)
	}
	if err := newWorker(book).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, d := range deliveries {
		want[fmt.Sprint(Delivery{Event: d.Event, Body: d.Body}.repository(), " ", d.Event)]++
	}
	if got := counts(t, book); !maps.Equal(got, want) {
		t.Errorf("got counts %v, want %v", got, want)
	}
}

// counts reads the worker's own table.
func counts(t *testing.T, book *daybook.Book) map[string]int {
	t.Helper()
	path := strings.TrimPrefix(book.Store().Describe(), "sqlite:")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(context.Background(), "SELECT repository, event, n FROM inbox_count")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]int{}
	for rows.Next() {
		var repository, event string
		var n int
		if err := rows.Scan(&repository, &event, &n); err != nil {
			t.Fatal(err)
		}
		got[repository+" "+event] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRefusedDeliveries(t *testing.T) {
	book := open(t)
	in := inbox{book, secret}
	d := webhooks.Deliveries()[0]
	other, broken, large := d, d, d
	other.Body = []byte(`{"other":true}`)
	broken.Body = []byte(`{"a":`)
	large.Body = bytes.Repeat([]byte(" "), bodyMax+1)
	nul := webhooks.Delivery{ID: "nul", Body: []byte(`{"a":"\u0000"}`)}
	for _, tt := range []struct {
		name      string
		d         webhooks.Delivery
		signature string
		want      int
	}{
		{"no signature", d, "", 401},
		{"another's signature", d, sign("guess", d.Body), 401},
		{"accepted", d, sign(secret, d.Body), 202},
		{"the same id with another body", other, sign(secret, other.Body), 422},
		{"not JSON", broken, sign(secret, broken.Body), 400},
		{"what can't be stored", nul, sign(secret, nul.Body), 422},
		{"too large", large, sign(secret, large.Body), 413},
	} {
		if got := deliver(in, tt.d, tt.signature); got != tt.want {
			t.Errorf("%s: got status %d, want %d", tt.name, got, tt.want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/github", nil)
	w := httptest.NewRecorder()
	if in.ServeHTTP(w, r); w.Code != 404 {
		t.Errorf("a GET: got status %d, want 404", w.Code)
	}
	page, err := book.Jobs(t.Context(), daybook.Filter{})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("got %d jobs, %v, want the accepted one alone", len(page.Items), err)
	}
}

// serve takes a delivery over a real connection, works on it, and ends when it
// is told to.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	recorded := sync.OnceFunc(func() { close(done) })
	book, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "inbox.db"), sqlite.Options{Book: daybook.Options{
		Bell: local.New(), Hook: func(gap string, _ daybook.ID) {
			if gap == daybook.GapReply { // an outcome is committed
				recorded()
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, book, ln, "") }()
	body := strings.NewReader(`{"repository":{"full_name":"octo-org/octo-repo"}}`)
	answer, err := http.Post("http://"+ln.Addr().String()+"/github", "application/json", body)
	if err != nil || answer.StatusCode != 202 {
		t.Fatalf("got %v, %v, want 202", answer, err)
	}
	answer.Body.Close()
	<-done
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
	if got := counts(t, book); got["octo-org/octo-repo "] != 1 || len(got) != 1 {
		t.Errorf("got counts %v, want the one delivery", got)
	}
}
