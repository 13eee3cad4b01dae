package sqlite

import "sync"

// names remembers which number a queue's name has. A queue is never renamed or
// removed, so what was once committed stays true.
type names struct {
	mu     sync.RWMutex
	byName map[string]int64
	byNum  map[int64]string
}

func newNames() *names {
	return &names{byName: map[string]int64{}, byNum: map[int64]string{}}
}

func (n *names) number(name string) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	num, ok := n.byName[name]
	return num, ok
}

func (n *names) name(num int64) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, ok := n.byNum[num]
	return name, ok
}

func (n *names) learn(known map[string]int64) {
	if len(known) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, num := range known {
		n.byName[name], n.byNum[num] = num, name
	}
}
