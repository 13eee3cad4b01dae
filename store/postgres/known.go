package postgres

import (
	"errors"
	"sync"
)

// names are queues that are in the book, as far as this process knows: queues
// aren't taken out, but a book can be restored to a state before one.
type names struct {
	mu   sync.RWMutex
	list map[string]bool
}

// knownMost bounds the names that are remembered.
const knownMost = 100_000

// errForgotten is that a queue wasn't there: the next try makes it.
var errForgotten = errors.New("a queue is not there any more")

func (n *names) has(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.list[name]
}

// learn takes from how a transaction ended that queues are there, or aren't.
func (n *names) learn(met []string, err error) error {
	gone := stateOf(err) == stateNotNull
	if err != nil && !gone || err == nil && len(met) == 1 && n.has(met[0]) {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if gone {
		for _, name := range met {
			delete(n.list, name)
		}
		return errors.Join(errForgotten, err)
	}
	if n.list == nil || len(n.list) > knownMost {
		n.list = map[string]bool{}
	}
	for _, name := range met {
		n.list[name] = true
	}
	return nil
}
