// Package effects shows how a handler does something outside through the
// ledger, one handler for each kind of destination: which policy it declares,
// which errors are a certain no, and what is left to a person. README.md tells
// which policy is for which destination.
package effects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/daybookdev/daybook/worker"
)

// Order is the args of every job here.
type Order struct {
	Number string `json:"order"`
	Value  string `json:"value"` // the amount, the text, the price
}

// Receipt is what a destination answers, and what the job's result says.
type Receipt struct {
	Number int `json:"receipt"`
}

// Handlers do the work of four kinds of job, each at a destination of its own.
type Handlers struct {
	Client                         *http.Client
	Payments, Mail, Prices, Legacy string // their URLs

	// Window is how long the payment API promises to know a key. Declare less
	// than it says: clocks differ.
	Window time.Duration
	// Quiet is how long after a call was given up its message may still show at
	// the e-mail provider: the longest delay that it has, and some more.
	Quiet time.Duration
}

// Register registers the handlers with a worker, under the names of their kinds.
func (h Handlers) Register(w *worker.Worker, options ...worker.KindOptions) {
	worker.Handle(w, "charge", h.Charge, options...)
	worker.Handle(w, "mail", h.Send, options...)
	worker.Handle(w, "price", h.Price, options...)
	worker.Handle(w, "letter", h.Letter, options...)
}

// post sends an order and reads the receipt. Its errors say what is known: a
// destination that couldn't be reached at all, or that said no, has done
// nothing; whatever else went wrong, it may have acted.
func (h Handlers) post(ctx context.Context, method, url, key string, o Order) (Receipt, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Receipt{}, worker.NotHappened(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return Receipt{}, worker.NotHappened(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := h.Client.Do(r)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return Receipt{}, worker.NotHappened(err)
	}
	if err != nil {
		return Receipt{}, err // a timeout is not a no
	}
	return read(answer)
}

// answerMax bounds what is read of an answer, in bytes.
const answerMax = 4 << 10

// read reads a receipt, or says what the answer's status means.
func read(answer *http.Response) (receipt Receipt, err error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	if err != nil {
		return receipt, err
	}
	switch status := answer.StatusCode; {
	case status == http.StatusOK:
		return receipt, json.Unmarshal(body, &receipt)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500:
		// It may be at work on it, or have done it before it failed.
		err = fmt.Errorf("%s answered %s: %s", answer.Request.URL.Path, answer.Status, body)
		if answer.Header.Get("Idempotency-Replayed") != "" {
			// Stored, and replayed for as long as the key is known: only a person
			// can find out what is behind it.
			err = worker.Permanent(err)
		}
		return receipt, err
	}
	return receipt, worker.NotHappened(fmt.Errorf("%s said no with %s: %s", answer.Request.URL.Path, answer.Status, body))
}
