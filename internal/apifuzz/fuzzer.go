package apifuzz

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options of a fuzzer.
type Options struct {
	// URL is the server's, http://HOST:PORT.
	URL string
	// Tokens are secrets by the one scope that each has; All has every scope.
	Tokens map[string]string
	All    string
	// IDs are of jobs and sessions that there are.
	IDs []string
	// Claims are jobs with their owners: so that calls get past the question whose
	// a job is.
	Claims []Claim
	// Seed is what all calls are drawn from.
	Seed uint64
	// Patience is how long a call that never becomes whole waits for the server to
	// end it; then it leaves. Any other call that gets no answer within a minute is
	// a fault.
	Patience time.Duration
	// Limit is the shortest time after which the server gives up a call that isn't
	// whole yet; 0 is none. One that took as long and was given up is no fault: on a
	// busy machine that happens to any.
	Limit time.Duration
	// AtOnce is how many calls are under way at once.
	AtOnce int
}

// Claim is a job that a session owns.
type Claim struct {
	Job, Session string
	Generation   int64
	Effect       string // that it has, if any
}

// Fuzzer makes calls, and remembers what came of them.
type Fuzzer struct {
	o    Options
	host string
	doc  *document

	mu     sync.Mutex
	faults []string
	seen   map[string]map[int]int // calls by kind and status; 0 is without an answer
	ops    map[string]bool        // operations that answered well
}

// New makes a fuzzer of what a server says of itself.
func New(ctx context.Context, o Options) (*Fuzzer, error) {
	at, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	f := &Fuzzer{o: o, host: at.Host, seen: map[string]map[int]int{}, ops: map[string]bool{}}
	c := &call{method: "GET", path: "/openapi.json"}
	got, err := f.send(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.doc, err = read(got.body); err != nil {
		return nil, err
	}
	for _, op := range f.doc.operations {
		if scope := op.scope(); scope != "" && o.Tokens[scope] == "" {
			return nil, fmt.Errorf("%s %s wants the scope %q, which no token has", op.method, op.path, scope)
		}
	}
	return f, nil
}

// scopes are those that tokens have.
func (f *Fuzzer) scopes() []string { return slices.Sorted(maps.Keys(f.o.Tokens)) }

// Run makes the calls of these numbers, from the first to before the last.
func (f *Fuzzer) Run(ctx context.Context, from, to int) {
	numbers := make(chan int)
	var running sync.WaitGroup
	for range f.o.AtOnce {
		running.Go(func() {
			for n := range numbers {
				f.try(ctx, n)
			}
		})
	}
	for n := from; n < to && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	running.Wait()
}

// try makes one call and judges its answer.
func (f *Fuzzer) try(ctx context.Context, n int) {
	c := f.draw(n)
	begun := time.Now()
	got, err := f.send(ctx, c)
	wrong := ""
	switch {
	case f.o.Limit > 0 && time.Since(begun) >= f.o.Limit && (err != nil || got.status == http.StatusRequestTimeout):
	case err == nil:
		wrong = f.judge(c, got)
	case !c.silent:
		wrong = "no answer: " + err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[c.kind] == nil {
		f.seen[c.kind] = map[int]int{}
	}
	f.seen[c.kind][got.status]++
	if got.status/100 == 2 && c.op != nil {
		f.ops[c.op.ID] = true
	}
	if wrong != "" {
		f.faults = append(f.faults, fmt.Sprintf("seed %d call %d (%s): %s %.200s %.300q: got %d %.400q: %s", f.o.Seed, n,
			c.kind, c.method, c.target(), c.body(), got.status, got.body, wrong))
	}
}

// send makes a call on a connection of its own.
func (f *Fuzzer) send(ctx context.Context, c *call) (answer, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", f.host)
	if err != nil {
		return answer{}, err
	}
	if strings.HasPrefix(f.o.URL, "https:") {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	defer conn.Close()
	wait := time.Minute
	if c.stops {
		wait = f.o.Patience
	}
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return answer{}, err
	}
	// Who refuses a body may answer before it has all of it.
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		f.write(conn, c)
	}()
	if c.gone {
		<-sent
		return answer{}, errors.New("left")
	}
	defer func() {
		conn.Close()
		<-sent
	}()
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.method})
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return answer{}, err
	}
	return answer{r.StatusCode, r.Header, body}, err
}

// write sends a call's bytes, as fast as it does.
func (f *Fuzzer) write(conn net.Conn, c *call) {
	text := c.bytes(f.host)
	if c.slow {
		drip := time.NewTicker(2 * time.Millisecond)
		defer drip.Stop()
		for part := range slices.Chunk(text, 1+len(text)/20) {
			<-drip.C
			if _, err := conn.Write(part); err != nil {
				return
			}
		}
	} else if _, err := conn.Write(text); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && c.ends {
		_ = half.CloseWrite()
	}
}

// Faults are what was wrong with answers, each with what it takes to make it
// again.
func (f *Fuzzer) Faults() []string { return f.faults }

// Own gives the fuzzer other jobs with their owners, for the calls that follow.
func (f *Fuzzer) Own(claims []Claim) { f.o.Claims = claims }

// Unreached are the operations that never answered well: none of their calls got
// past the door.
func (f *Fuzzer) Unreached() (list []string) {
	for _, op := range f.doc.operations {
		if !f.ops[op.ID] {
			list = append(list, op.ID)
		}
	}
	return list
}

// Table is how many calls of each kind got which status.
func (f *Fuzzer) Table() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "%-30s", k.name)
		for _, status := range slices.Sorted(maps.Keys(f.seen[k.name])) {
			if status == 0 {
				fmt.Fprintf(&b, "  unanswered %d", f.seen[k.name][status])
				continue
			}
			fmt.Fprintf(&b, "  %d: %d", status, f.seen[k.name][status])
		}
		b.WriteString("\n")
	}
	return b.String()
}
