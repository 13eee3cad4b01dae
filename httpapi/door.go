package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
)

// doors decide who comes in.
type doors struct {
	look      func(context.Context) (daybook.Tokens, error) // at the book's tokens
	loopback  bool
	sensitive []string // kinds

	mu sync.Mutex
	seen

	failure  error     // of the last look, if it failed
	failedAt time.Time // when it ended

	last atomic.Pointer[seen] // as they were seen last, however long ago
}

// seen are the book's tokens as they were read at a time.
type seen struct {
	tokens daybook.Tokens
	read   time.Time
}

// now are the tokens with the time as it is: one that expired since they were read
// is good no more.
func (s seen) now() daybook.Tokens {
	s.tokens.At = s.tokens.At.Add(time.Since(s.read))
	return s.tokens
}

// tokensEvery is how long the book's tokens are believed: a revoked one is let
// in no longer than this.
const tokensEvery = 2 * time.Second

// tokensAgain is how soon they are looked at again for a token that isn't among them:
// a new one is good at once, and guesses cost the book ten looks a second.
const tokensAgain = 100 * time.Millisecond

// local is who does what is done without a token, on this machine.
const local = "local"

// from refuses what comes from another site's page, whoever's token it brings.
// Browsers say where a request is from; programs say nothing, and may pass.
func (d *doors) from(r *http.Request) *Problem {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" {
		return problem(codeForbidden, "calls from other sites' pages are refused")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return problem(codeForbidden, "calls from other sites' pages are refused: Origin isn't this server")
	}
	return nil
}

// thisMachine reports whether a Host header names this machine: a page that made
// its own name point here (DNS rebinding) doesn't.
func thisMachine(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// open lets a call in by its token, where the route asks for one.
func (d *doors) open(c *call) *Problem {
	works := c.route.scope == daybook.ScopeWork // who runs the jobs must have their args
	c.actor, c.sight = local, daybook.SightOf(d.sensitive, works)
	if c.route.scope == "" {
		return nil
	}
	look := d.current
	if c.route.away {
		look = d.lastSeen
	}
	tokens, err := look(c.ctx())
	if err != nil {
		return problemOf(err, "")
	}
	given := c.r.Header.Values("Authorization")
	if len(given) == 0 {
		switch open := d.loopback && len(tokens.List()) == 0; {
		case open && thisMachine(c.r.Host):
			return nil
		case open:
			return problem(codeForbidden, "without a token the server takes calls for localhost only")
		}
		return problem(codeUnauthorized, "a token is wanted: Authorization: Bearer TOKEN (daybook token create)")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	token, found := tokens.Find(strings.TrimSpace(secret))
	if !found && !c.route.away { // it may be a new one
		if tokens, err = d.since(c.ctx(), time.Now(), tokensAgain); err != nil {
			return problemOf(err, "")
		}
		token, found = tokens.Find(strings.TrimSpace(secret))
	}
	switch {
	case len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || !found:
		return problem(codeUnauthorized, "the token is not known, expired or revoked")
	case !token.Allows(c.route.scope):
		return problem(codeForbidden, "this call wants a token with scope "+string(c.route.scope))
	}
	c.token, c.actor = token.Name, token.Name
	c.sight = daybook.SightOf(d.sensitive, works || token.Allows(daybook.ScopeSensitive))
	return nil
}

// current are the book's tokens as of a moment ago.
func (d *doors) current(ctx context.Context) (daybook.Tokens, error) {
	return d.since(ctx, time.Now(), tokensEvery)
}

// since is current for a call that came at a time, by a look not older than age.
func (d *doors) since(ctx context.Context, came time.Time, age time.Duration) (daybook.Tokens, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.read.IsZero() && time.Since(d.read) < age:
		return d.seen.now(), nil
	case d.failure != nil && d.failedAt.After(came):
		// A look that failed while we waited for it was ours too. Looking again, one
		// after the other, each would wait as long as all before it together.
		return daybook.Tokens{}, d.failure
	}
	// Others wait for this look too, so it doesn't end with the call that began it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	asked := time.Now()
	tokens, err := d.look(ctx)
	if d.failure, d.failedAt = err, time.Now(); err != nil {
		return daybook.Tokens{}, err
	}
	d.seen = seen{tokens, asked}
	d.last.Store(&seen{tokens, asked})
	return tokens, nil
}

// awayAfter is how long a call that wants no database waits for it.
const awayAfter = time.Second

// lastSeen are the current tokens, or while the database is away those that were
// seen last.
func (d *doors) lastSeen(ctx context.Context) (daybook.Tokens, error) {
	type look struct {
		tokens daybook.Tokens
		err    error
	}
	done := make(chan look, 1)
	go func() {
		tokens, err := d.current(ctx)
		done <- look{tokens, err}
	}()
	timer := time.NewTimer(awayAfter)
	defer timer.Stop()
	var got *look
	select {
	case l := <-done:
		got = &l
	case <-timer.C:
	}
	if last := d.last.Load(); last != nil && (got == nil || got.err != nil) {
		return last.now(), nil
	}
	if got == nil {
		l := <-done
		got = &l
	}
	return got.tokens, got.err
}

// rates bound how often each token calls.
type rates struct {
	each float64 // a second; 0 is no bound

	mu  sync.Mutex
	had map[string]*bucket
}

// bucket is what a token may still call at once.
type bucket struct {
	left float64
	at   time.Time
}

// take counts a call of a token.
func (r *rates) take(c *call) *Problem {
	if r.each <= 0 || c.token == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	b := r.had[c.token]
	if b == nil {
		if r.had == nil {
			r.had = map[string]*bucket{}
		}
		b = &bucket{left: 2 * r.each, at: now}
		r.had[c.token] = b
	}
	b.left = min(2*r.each, b.left+r.each*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return problem(codeRateLimited, "this token calls too often; wait, and send more in one call")
	}
	b.left--
	return nil
}
