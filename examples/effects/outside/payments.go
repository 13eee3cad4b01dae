package outside

import (
	"net/http"
	"time"
)

// HeaderKey carries the key of a request to the payment API, and HeaderReplayed
// says that an answer is the one that was stored for the key.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotency-Replayed"
)

// stored is the first answer to a key.
type stored struct {
	answer answer
	at     time.Time
}

// NewPayments makes a payment API: POST /charges acts once for an
// Idempotency-Key, as long as it knows it. Requests with a key that it knows get
// the answer that the first one got, whatever that was: a refusal or a 500 is
// stored and replayed like a receipt.
func NewPayments(o Options) (*Server, error) {
	if o.Forget == 0 {
		o.Forget = 24 * time.Hour
	}
	known := map[string]stored{}
	return start(o, func(s *Server, mux *http.ServeMux) {
		mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get(HeaderKey)
			asked, err := readWish(w, r)
			if err != nil || key == "" {
				problem(http.StatusBadRequest, "wants an order and an "+HeaderKey).write(w)
				return
			}
			a, f, replayed := s.charge(known, key, asked)
			if replayed {
				w.Header().Set(HeaderReplayed, "true")
			}
			reply(w, r, f, a)
		})
	})
}

func (s *Server) charge(known map[string]stored, key string, asked wish) (a answer, f Fault, replayed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, found := known[key]; found && s.opts.Now().Before(first.at.Add(s.opts.Forget)) {
		s.asked[asked.About]++
		return first.answer, "", true
	}
	f = s.take(asked)
	a = s.act(key, asked, f)
	known[key] = stored{a, s.opts.Now()}
	return a, f, false
}
