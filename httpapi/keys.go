package httpapi

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/daybookdev/daybook"
)

// callKeys remember with which bodies the keys of claim calls came last. The book
// repeats a call by its id, which is made of key and body; that one key came with
// two bodies only shows here. A server that is started anew, or another one, takes
// the second for a call of its own: no claim is given twice by that.
type callKeys struct {
	mu     sync.Mutex
	bodies map[daybook.ID]daybook.ID // by token and key
	order  []daybook.ID              // a ring of the keys, the oldest at next
	next   int
}

// callKeysMost is how many keys are remembered.
const callKeysMost = 10_000

// check refuses a key that came with another body before.
func (k *callKeys) check(key, body daybook.ID) *Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, known := k.bodies[key]
	switch {
	case known && was != body:
		return problem(daybook.CodeKeyConflict, keyHeader+": came with another body before; give each call a key of its own").
			parameter(keyHeader)
	case known:
		return nil
	case k.bodies == nil:
		k.bodies = map[daybook.ID]daybook.ID{}
	}
	if len(k.order) < callKeysMost {
		k.order = append(k.order, key)
	} else {
		delete(k.bodies, k.order[k.next])
		k.order[k.next] = key
		k.next = (k.next + 1) % callKeysMost
	}
	k.bodies[key] = body
	return nil
}

// callOf makes an idempotency key the id of a claim call: of this token, and of
// this request, so that another client's same key doesn't answer with claims of
// somebody else. How long to wait may differ in a repeat.
func (s *Server) callOf(c *call, key string, in ClaimBody) (daybook.ID, error) {
	in.WaitSeconds = nil
	body := digest(c.token, key, in, in.job)
	if p := s.keys.check(digest(c.token, key), body); p != nil {
		return daybook.ID{}, p
	}
	return body, nil
}

// digest is an id made of values.
func digest(of ...any) daybook.ID {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(of)
	var id daybook.ID
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: made by our own rule
	return id
}
