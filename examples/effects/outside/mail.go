package outside

import "net/http"

// NewMail makes an e-mail provider: POST /messages/ID sends a message, and sends
// it again when it is asked again. GET /messages/ID says whether there is one,
// but only a while after it was accepted (Options.Appear): 404 until then.
func NewMail(o Options) (*Server, error) {
	return start(o, func(s *Server, mux *http.ServeMux) {
		mux.HandleFunc("POST /messages/{id}", s.doAlways)
		mux.HandleFunc("GET /messages/{id}", func(w http.ResponseWriter, r *http.Request) {
			s.find(r.PathValue("id")).write(w)
		})
	})
}

// doAlways acts on every request.
func (s *Server) doAlways(w http.ResponseWriter, r *http.Request) {
	asked, err := readWish(w, r)
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	s.mu.Lock()
	f := s.take(asked)
	a := s.act(r.PathValue("id"), asked, f)
	s.mu.Unlock()
	reply(w, r, f, a)
}

// find looks for a message that had time to appear.
func (s *Server) find(id string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind {
		return problem(http.StatusServiceUnavailable, "the index is being rebuilt")
	}
	latest := s.opts.Now().Add(-s.opts.Appear)
	for _, done := range s.acts {
		if done.Key == id && !done.At.After(latest) {
			return receipt(done)
		}
	}
	return problem(http.StatusNotFound, "no such message")
}

// Blind makes the e-mail provider unable to say what it sent, or able again.
func (s *Server) Blind(blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind = blind
}
