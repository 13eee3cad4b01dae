package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/daybookdev/daybook"
)

// Delivery is the args of a job: what GitHub sent.
type Delivery struct {
	Event string          `json:"event"`
	Body  json.RawMessage `json:"body"`
}

// repository is whose delivery it is, or "" for those of no repository.
func (d Delivery) repository() string {
	var body struct {
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	if json.Unmarshal(d.Body, &body) != nil {
		return ""
	}
	return body.Repository.FullName
}

// bodyMax leaves room for what is written around a body, in bytes.
const bodyMax = daybook.ArgsMax - 1024

// inbox takes deliveries and answers when they are in the book, durably.
type inbox struct {
	book   *daybook.Book
	secret string
}

// ServeHTTP answers 202 for a delivery that was accepted, and 200 for one that
// is in the book already.
func (in inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := in.accept(w, r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(status)
}

func (in inbox) accept(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if r.Method != http.MethodPost || r.URL.Path != "/github" {
		return http.StatusNotFound, errors.New("POST deliveries to /github")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("at most %d bytes", bodyMax)
	}
	if !in.signed(r.Header.Get("X-Hub-Signature-256"), body) {
		return http.StatusUnauthorized, errors.New("the signature is wrong")
	}
	request, err := request(r.Header, body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	receipt, err := in.book.Enqueue(r.Context(), request)
	switch daybook.CodeOf(err) {
	case "":
		if receipt.Replayed {
			return http.StatusOK, nil
		}
		return http.StatusAccepted, nil
	case daybook.CodeInvalid, daybook.CodeTooLarge, daybook.CodeKeyConflict:
		return http.StatusUnprocessableEntity, err
	}
	return http.StatusServiceUnavailable, err // GitHub shows it, and a person redelivers
}

// request makes a job of a delivery. The body stays as it came, byte for byte,
// and the delivery's id is the request key.
func request(h http.Header, body []byte) (daybook.Request, error) {
	if !json.Valid(body) {
		return daybook.Request{}, errors.New("the body is not JSON")
	}
	event, err := json.Marshal(h.Get("X-GitHub-Event"))
	if err != nil {
		return daybook.Request{}, err
	}
	return daybook.Request{Queue: "github", Kind: "delivery", Key: h.Get("X-GitHub-Delivery"),
		Args: fmt.Appendf(nil, `{"event":%s,"body":%s}`, event, body)}, nil
}

// signed reports whether the body has the secret's signature. Without a secret
// everything counts as signed.
func (in inbox) signed(signature string, body []byte) bool {
	if in.secret == "" {
		return true
	}
	return hmac.Equal([]byte(signature), []byte(sign(in.secret, body)))
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
