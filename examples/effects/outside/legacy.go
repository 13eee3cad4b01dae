package outside

import "net/http"

// NewLegacy makes an API that offers nothing: POST /letters prints and posts a
// letter for each request, takes no key, and can't be asked. Its ledger is a
// drawer that a person can look into ([Server.Acts]).
func NewLegacy(o Options) (*Server, error) {
	return start(o, func(s *Server, mux *http.ServeMux) {
		mux.HandleFunc("POST /letters", s.doAlways)
	})
}
