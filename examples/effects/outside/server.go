// Package outside has destinations that behave like real ones, for the examples
// of effects and for the drill: a payment API with idempotency keys, an e-mail
// provider that can be asked by message id, a price list that takes the same
// value any number of times, and a legacy API that offers nothing. Each is a
// real HTTP server with its own ledger of what happened, which knows nothing of
// the book, and with faults that can be set.
package outside

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault is what a destination does wrong with one request.
type Fault string

// The faults. In all but Refuse it has acted, and its caller can't tell.
const (
	Drop   Fault = "drop"   // acts, and drops the connection instead of answering
	Twice  Fault = "twice"  // acts twice
	Slow   Fault = "slow"   // acts, and answers when its caller has gone
	Fail   Fault = "fail"   // acts, and answers 500
	Refuse Fault = "refuse" // doesn't act, and answers 402: the one error that is a no
)

// Act is one thing that a destination did.
type Act struct {
	Receipt int    `json:"receipt"` // counts from 1
	Key     string `json:"key"`     // as it came with the request; none to the legacy API
	About   string `json:"about"`   // what the request was about: an order's number
	Value   string `json:"value"`   // what was asked for
	At      time.Time
}

// Options of a destination. The zero value works.
type Options struct {
	// Now is its clock; nil is the process's.
	Now func() time.Time
	// Forget is how long the payment API keeps an idempotency key; 0 is a day.
	// Less than 0 is never: it takes every request for a new one.
	Forget time.Duration
	// Appear is how long the e-mail provider takes to show a message that it
	// accepted, to those who ask for it.
	Appear time.Duration
}

// Server is what the destinations have in common.
type Server struct {
	URL string

	opts   Options
	server *http.Server
	done   chan struct{}

	mu     sync.Mutex
	faults []Fault
	acts   []Act
	asked  map[string]int
	blind  bool
}

// start lets a destination listen on this machine.
func start(o Options, routes func(s *Server, mux *http.ServeMux)) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a destination can't listen on 127.0.0.1; check the firewall: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{URL: "http://" + listener.Addr().String(), opts: o, done: make(chan struct{}), asked: map[string]int{}}
	mux := http.NewServeMux()
	routes(s, mux)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // until Close
	}()
	return s, nil
}

// Close ends the server, and the requests on their way. Twice is harmless.
func (s *Server) Close() {
	_ = s.server.Close()
	<-s.done
}

// Next sets the faults of the next requests, one each. They come after those
// that were set before; "" is a request without a fault.
func (s *Server) Next(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Acts lists what the destination did about one order, first things first.
func (s *Server) Acts(about string) []Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.acts), func(a Act) bool { return a.About != about })
}

// Asked counts the requests about one order that wanted something done.
func (s *Server) Asked(about string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[about]
}

// Ledger lists all that the destination did.
func (s *Server) Ledger() []Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acts)
}

// wish is the body of every request that wants something done.
type wish struct {
	About string `json:"order"`
	Value string `json:"value"`
}

// bodyMax bounds a request, in bytes.
const bodyMax = 64 << 10

func readWish(w http.ResponseWriter, r *http.Request) (wish, error) {
	var asked wish
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax)).Decode(&asked)
	if err == nil && asked.About == "" {
		err = errors.New("wants an order")
	}
	return asked, err
}

// receipt is the answer to what was done.
func receipt(a Act) answer {
	return answer{http.StatusOK, fmt.Appendf(nil, `{"receipt":%d}`, a.Receipt)}
}

// answer is one that can be stored.
type answer struct {
	status int
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a caller that has gone
}

func problem(status int, text string) answer {
	return answer{status, fmt.Appendf(nil, `{"error":%q}`, text)}
}

// take counts a request and takes the fault that is next. It wants the lock.
func (s *Server) take(asked wish) Fault {
	s.asked[asked.About]++
	if len(s.faults) == 0 {
		return ""
	}
	next := s.faults[0]
	s.faults = s.faults[1:]
	return next
}

// act does what was asked, as the fault has it, and says what to answer. It
// wants the lock.
func (s *Server) act(key string, asked wish, f Fault) answer {
	if f == Refuse {
		return problem(http.StatusPaymentRequired, "refused")
	}
	done := Act{Receipt: len(s.acts) + 1, Key: key, About: asked.About, Value: asked.Value, At: s.opts.Now()}
	s.acts = append(s.acts, done)
	if f == Twice {
		again := done
		again.Receipt++
		s.acts = append(s.acts, again)
	}
	if f == Fail {
		return problem(http.StatusInternalServerError, "something went wrong")
	}
	return receipt(done)
}

// reply answers, or doesn't, as the fault has it.
func reply(w http.ResponseWriter, r *http.Request, f Fault, a answer) {
	switch f {
	case Drop:
		panic(http.ErrAbortHandler) // the server's way to drop a connection
	case Slow:
		<-r.Context().Done()
	}
	a.write(w)
}
