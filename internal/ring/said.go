package ring

import "sync"

// saidMost bounds what Said remembers; beyond it nothing is new.
const saidMost = 1000

// Said is what people were told, once each. The zero value is nothing.
type Said struct {
	mu  sync.Mutex
	all map[string]bool
}

// First reports whether this is new, and notes it.
func (s *Said) First(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[what] || len(s.all) >= saidMost {
		return false
	}
	if s.all == nil {
		s.all = map[string]bool{}
	}
	s.all[what] = true
	return true
}

// Forget makes it new again.
func (s *Said) Forget(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, what)
}

// ForgetAll makes everything new again.
func (s *Said) ForgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}
