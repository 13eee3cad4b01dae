package postgres

import (
	"errors"
	"sync"

	"github.com/daybookdev/daybook"
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

// lists are the queues and kinds of sessions that claimed here. They never change,
// and a session of ten thousand queues is not to say so with every claim.
type lists struct {
	mu   sync.RWMutex
	list map[daybook.ID]*sessionLists
	size int // names in them
}

type sessionLists struct{ queues, kinds []string }

// of is nil where they aren't known.
func (l *lists) of(session daybook.ID) *sessionLists {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.list[session]
}

func (l *lists) learn(s daybook.Session) {
	if s.ID.IsZero() || l.of(s.ID) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size += 1 + len(s.Queues) + len(s.Kinds)
	if l.list == nil || l.size > knownMost {
		l.list, l.size = map[daybook.ID]*sessionLists{}, 1+len(s.Queues)+len(s.Kinds)
	}
	l.list[s.ID] = &sessionLists{s.Queues, s.Kinds}
}
