package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// The headers of a request to the destination, beside Idempotency-Key.
const (
	headerKey      = "Idempotency-Key"
	headerDelivery = "X-GitHub-Delivery"
)

// act is one thing that the destination did.
type act struct {
	Receipt  int64             `json:"receipt"` // counts from 1; the answer to every request with the key
	Key      string            `json:"key"`
	Delivery string            `json:"delivery"`
	Asked    int               `json:"asked"` // requests with the key
	Body     [sha256.Size]byte `json:"-"`     // what it was given to act on
}

// destination is the outside world: an HTTP server that knows nothing of the
// book. It enforces the effect key: the first request with a key acts, and
// repeats get the same answer without acting. Its ledger is its own.
type destination struct {
	server *http.Server
	url    string

	mu    sync.Mutex
	acts  []act          // in the order in which they happened
	known map[string]int // index in acts by key
	asked int            // requests that named a key
}

// newDestination makes a destination and lets it listen on this machine.
func newDestination() (*destination, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, &daybook.Error{Code: daybook.CodeInternal, Err: err,
			Text: "the demo's destination can't listen on 127.0.0.1; check the firewall"}
	}
	d := &destination{url: "http://" + listener.Addr().String(), known: map[string]int{}}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second}
	go d.server.Serve(listener)
	return d, nil
}

// ServeHTTP acts on one request, or finds that it did.
func (d *destination) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, delivery := r.Header.Get(headerKey), r.Header.Get(headerDelivery)
	if key == "" || delivery == "" {
		http.Error(w, "wants "+headerKey+" and "+headerDelivery, http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, daybook.ArgsMax))
	if err != nil {
		return // the sender died on the way: nothing was asked
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"receipt":%d}`, d.act(key, delivery, body))
}

// act does the thing unless the key did it, and returns its receipt.
func (d *destination) act(key, delivery string, body []byte) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if i, found := d.known[key]; found {
		d.acts[i].Asked++
		return d.acts[i].Receipt
	}
	d.known[key] = len(d.acts)
	d.acts = append(d.acts, act{Receipt: int64(len(d.acts) + 1), Key: key, Delivery: delivery, Asked: 1,
		Body: sha256.Sum256(body)})
	return int64(len(d.acts))
}

// ledger is what happened, and how often it was asked for.
func (d *destination) ledger() (acts []act, asked int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(acts, d.acts...), d.asked
}

// save writes the ledger for people to look at, a line of JSON for each act.
func (d *destination) save(path string) error {
	acts, _ := d.ledger()
	f, err := os.Create(path)
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the destination's ledger can't be written to %s", path)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, a := range acts {
		if err := daybook.EncodeJSON(w, a); err != nil {
			return err
		}
	}
	return w.Flush()
}

// close ends the server; requests on their way get a moment.
func (d *destination) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.server.Shutdown(ctx) != nil {
		d.server.Close()
	}
}
