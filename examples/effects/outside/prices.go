package outside

import "net/http"

// price is what a thing costs now, and the answer to who set that.
type price struct {
	value  string
	answer answer
}

// NewPrices makes a price list: PUT /prices sets the price of one thing. Setting
// what is set already changes nothing, and so isn't an act in its ledger.
func NewPrices(o Options) (*Server, error) {
	list := map[string]price{}
	return start(o, func(s *Server, mux *http.ServeMux) {
		mux.HandleFunc("PUT /prices", func(w http.ResponseWriter, r *http.Request) {
			asked, err := readWish(w, r)
			if err != nil {
				problem(http.StatusBadRequest, err.Error()).write(w)
				return
			}
			f, a := s.put(list, asked)
			reply(w, r, f, a)
		})
	})
}

func (s *Server) put(list map[string]price, asked wish) (Fault, answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.take(asked)
	if now, found := list[asked.About]; found && now.value == asked.Value {
		return f, now.answer
	}
	a := s.act("", asked, f)
	if f != Refuse {
		list[asked.About] = price{asked.Value, receipt(s.acts[len(s.acts)-1])}
	}
	return f, a
}
