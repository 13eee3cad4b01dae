package ring

import (
	"context"
	"net"
	"sync"
)

// Link is what a bell knows of its connection, and who waits for it. The bell's
// client makes the connection; the link can end it whatever the client does.
type Link struct {
	mu      sync.Mutex
	raw     net.Conn      // the newest
	up      bool          // the server answers
	tried   bool          // it was asked for the first time, with success or without
	over    bool          // there shall be no more connections
	epoch   int           // how often it came up
	changed chan struct{} // closed when up or tried changed
}

// NewLink is a link that wasn't tried yet.
func NewLink() *Link { return &Link{changed: make(chan struct{})} }

// Up reports whether the server is connected, and how often it was.
func (l *Link) Up() (epoch int, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, l.up
}

// Connected reports whether the server is connected.
func (l *Link) Connected() bool {
	_, up := l.Up()
	return up
}

// Set notes that the server is connected, or isn't. changed reports news, and
// first that it is the first of all: each is told to people once.
func (l *Link) Set(up bool) (changed, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, first = l.up != up, !l.tried
	if up {
		l.epoch++
	}
	l.up, l.tried = up, true
	close(l.changed)
	l.changed = make(chan struct{})
	return changed, first
}

// Wait reports whether the server is connected. While the first try is on its
// way it waits for that, and otherwise not: the caller has its own next try.
func (l *Link) Wait(ctx context.Context) bool {
	for {
		l.mu.Lock()
		up, tried, changed := l.up, l.tried, l.changed
		l.mu.Unlock()
		if up || tried {
			return up
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Use notes the newest connection. After HangUp it closes it, and is false.
func (l *Link) Use(raw net.Conn) bool {
	l.mu.Lock()
	l.raw = raw
	over := l.over
	l.mu.Unlock()
	if over {
		raw.Close()
	}
	return !over
}

// Drop closes the connection under the client, which then notices. It asks
// neither the server nor the client, who may both be stuck.
func (l *Link) Drop() {
	l.mu.Lock()
	raw := l.raw
	l.mu.Unlock()
	if raw != nil {
		raw.Close()
	}
}

// HangUp is Drop for good.
func (l *Link) HangUp() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.Drop()
}
