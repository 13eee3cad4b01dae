package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// hub keeps the rooms: one for each page that somebody watches. A room renders
// the page's live parts once for all who are in it.
type hub struct {
	mu       sync.Mutex
	rooms    map[string]*room
	watchers int
}

// room is one page, as one sort of viewer sees it.
type room struct {
	key     string
	members map[*watcher]bool
	last    map[string]string // the parts as they were sent
	again   chan struct{}     // somebody changed something: look at once
	left    context.CancelFunc
}

// watcher is one stream. It gets the newest state of each part and never a queue
// of old ones.
type watcher struct {
	mu      sync.Mutex
	pending map[string]string
	ready   chan struct{}
}

const (
	// roomEvery is how often a room renders; a dear page is rendered so many times
	// what it cost apart.
	roomEvery = 2 * time.Second
	roomCosts = 50
	// beatEvery is how often a stream says something, so that a dead one is noticed.
	beatEvery = 15 * time.Second
	// statePart is the event that says why a page doesn't follow the book; "" is that
	// it does.
	statePart = "state"
)

// wake makes all rooms look at once.
func (h *hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rooms {
		select {
		case r.again <- struct{}{}:
		default:
		}
	}
}

// give notes a part for a watcher.
func (w *watcher) give(parts map[string]string) {
	w.mu.Lock()
	for name, html := range parts {
		w.pending[name] = html
	}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *watcher) take() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := w.pending
	w.pending = map[string]string{}
	return parts
}

// join opens a stream of a page; nil is that there are too many.
func (c *Console) join(a *ask) (w *watcher, leave func()) {
	key := fmt.Sprint(a.who.Operate, a.who.Sensitive, " ", a.page.name, " ", a.r.URL.Path, "?", a.query.Encode())
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.hub.watchers >= c.opts.Watchers {
		return nil, nil
	}
	c.hub.watchers++
	w = &watcher{pending: map[string]string{}, ready: make(chan struct{}, 1)}
	r := c.hub.rooms[key]
	if r == nil {
		ctx, left := context.WithCancel(c.closing)
		r = &room{key: key, members: map[*watcher]bool{}, last: map[string]string{},
			again: make(chan struct{}, 1), left: left}
		c.hub.rooms[key] = r
		watched := *a
		watched.who.Name, watched.visit = "", visit{} // what it renders is for all of them
		c.background(func() { c.follow(ctx, r, &watched) })
	}
	r.members[w] = true
	w.give(r.last)
	return w, func() {
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		c.hub.watchers--
		if delete(r.members, w); len(r.members) == 0 {
			r.left()
			delete(c.hub.rooms, r.key)
		}
	}
}

// follow renders a room's page until everybody left.
func (c *Console) follow(ctx context.Context, r *room, a *ask) {
	wait := time.NewTimer(roomEvery / 4)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		case <-r.again:
		}
		begun := time.Now()
		parts, err := c.parts(ctx, a)
		switch {
		case err == nil:
			parts[statePart] = ""
			c.spread(r, parts)
		case ctx.Err() == nil: // who watches must know that what they see is old
			c.spread(r, map[string]string{statePart: notLive(err)})
		}
		wait.Reset(max(roomEvery, roomCosts*time.Since(begun)))
	}
}

// notLive says why a page can't be followed: a book that answers that something isn't
// in it can be read.
func notLive(err error) string {
	if daybook.CodeOf(err) == daybook.CodeNotFound {
		return "not live: the book has this no more"
	}
	return "not live: the book can’t be read"
}

// spread gives what changed to everybody in the room.
func (c *Console) spread(r *room, parts map[string]string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for name, html := range parts {
		if r.last[name] == html {
			delete(parts, name)
		} else {
			r.last[name] = html
		}
	}
	if len(parts) == 0 {
		return
	}
	for w := range r.members {
		w.give(parts)
	}
}

// parts renders a page's live parts.
func (c *Console) parts(ctx context.Context, a *ask) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	again := *a
	again.ctx = ctx
	data, err := a.page.load(c, &again)
	if err != nil {
		return nil, err
	}
	parts := map[string]string{}
	for _, name := range a.page.live {
		html, err := c.made.part(a.page, name, c.viewOf(&again, data))
		if err != nil {
			return nil, err
		}
		parts[name] = html
	}
	return parts, nil
}

// stream follows a page: GET /live?at=/jobs?state=waiting sends its live parts as
// server-sent events, each named after its part.
func (c *Console) stream(a *ask) error {
	at, err := url.Parse(a.r.URL.Query().Get("at"))
	if err != nil || at.IsAbs() || at.Host != "" || !strings.HasPrefix(at.Path, "/") {
		return daybook.Invalid("at", "wants the path of a page here")
	}
	watched, err := c.pageAt(a, at)
	if err != nil {
		return err
	}
	w, leave := c.join(watched)
	if w == nil {
		a.w.Header().Set("Retry-After", "60")
		return daybook.Fail(daybook.CodeUnavailable, "as many pages are followed live as may be; this one is as of its time")
	}
	defer leave()
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if a.r.Method == http.MethodHead {
		return nil
	}
	control := http.NewResponseController(a.w)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	say := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(beatEvery))
		_, err := a.w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	going := say("retry: 3000\n\n")
	defer func() {
		if !c.still(a) {
			say("event: bye\ndata: login\n\n")
		}
	}()
	for going {
		select {
		case <-a.ctx.Done():
			return nil
		case <-c.closing.Done():
			return nil
		case <-beat.C:
			going = c.still(a) && say("event: beat\ndata:\n\n")
		case <-w.ready:
			going = c.still(a) && say(events(w.take()))
		}
	}
	return nil
}

// still reports whether who opened a stream may see what they did: not when their
// token was revoked since, or lets them see less. That the book can't be read now
// takes nothing from them.
func (c *Console) still(a *ask) bool {
	who, _, _, err := c.door.known(a.r)
	if err != nil {
		status := statusOf(err)
		return status != http.StatusUnauthorized && status != http.StatusForbidden
	}
	return who == a.who
}

// events writes parts as server-sent events.
func events(parts map[string]string) string {
	var b strings.Builder
	for name, html := range parts {
		fmt.Fprintf(&b, "event: %s\n", name)
		html = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(html)
		for line := range strings.SplitSeq(html, "\n") {
			b.WriteString("data: " + line + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}
