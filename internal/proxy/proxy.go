// Package proxy stands between a client and a TCP server and spoils what passes:
// it cuts connections, stalls them, and lets requests through whose answers it
// drops. Tests and drills use it, so that a fault reaches their own connections
// and nobody else's.
package proxy

import (
	"io"
	"net"
	"sync"
)

// Proxy forwards connections to one address.
type Proxy struct {
	to       string
	listener net.Listener
	wait     sync.WaitGroup

	mu      sync.Mutex
	awake   *sync.Cond
	conns   map[net.Conn]bool // true is frozen
	stalled bool
	down    bool
	drop    int // how many answers are still to be dropped
	dropped int
	passed  int       // reads of what clients sent
	spoil   *spoiling // the next exchange
	closed  bool
}

// spoiling is one exchange to be spoiled.
type spoiling struct {
	request bool // else its answer
	ahead   int  // requests to pass before
	then    func()
}

// Start listens on a free port of the loopback and forwards to an address.
func Start(to string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{to: to, listener: listener, conns: map[net.Conn]bool{}}
	p.awake = sync.NewCond(&p.mu)
	p.wait.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port is the port in Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Open counts the connections that are open, both ends of each.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Passed counts the requests that went through, as far as each came in one piece.
func (p *Proxy) Passed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

// Cut closes every connection that is open, and says how many ends there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut()
}

func (p *Proxy) cut() int {
	for c := range p.conns {
		c.Close()
		p.conns[c] = false
	}
	p.awake.Broadcast()
	return len(p.conns)
}

// Down cuts every connection and refuses new ones, until it is false again.
func (p *Proxy) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down = down; down {
		p.cut()
	}
}

// Stall takes connections and bytes and passes nothing on, until it is false
// again: then what was held back goes on its way.
func (p *Proxy) Stall(stalled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = stalled
	p.awake.Broadcast()
}

// Freeze makes the connections that are open pass nothing any more, not even
// that an end closed them, until they are cut. New ones work: what a router does
// that forgot its connections.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// DropAnswers lets n requests through and cuts their connections when the
// server answers: the request took hold, and its answer is lost.
func (p *Proxy) DropAnswers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = n
}

// Spoil spoils the n-th exchange from now on: with request, what a client sends
// doesn't reach the server; without, it does, and what the server answers is
// dropped. Then it calls then, while both ends still wait, and cuts the
// connection.
func (p *Proxy) Spoil(n int, request bool, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = &spoiling{request, n, then}
}

// Dropped is how many answers were dropped so far.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Close ends everything. Twice is harmless.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed, p.stalled = true, false
	err := p.listener.Close()
	p.cut()
	p.mu.Unlock()
	p.wait.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(client) })
	}
}

// serve forwards one connection both ways until either end closes.
func (p *Proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.forget(client)
	if !p.mayPass(client) {
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.forget(server)
	var both sync.WaitGroup
	both.Go(func() {
		p.forward(server, client, false)
		server.Close()
	})
	p.forward(client, server, true)
	client.Close()
	server.Close()
	both.Wait()
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down || p.closed {
		c.Close()
		return false
	}
	p.conns[c] = false
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// mayPass waits while the proxy is stalled or the connection frozen, and is
// false when the proxy is closed.
func (p *Proxy) mayPass(from net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.stalled || p.conns[from]) && !p.closed && !p.down {
		p.awake.Wait()
	}
	return !p.closed && !p.down
}

// thaw waits while the connection is frozen: its end mustn't be seen behind it.
func (p *Proxy) thaw(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.conns[c] && !p.closed {
		p.awake.Wait()
	}
}

func (p *Proxy) forward(to io.Writer, from net.Conn, answers bool) {
	defer p.thaw(from)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.mayPass(from) || answers && p.drops() {
				return
			}
			if then := p.spoils(answers); then != nil {
				then()
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// drops reports whether the answer at hand is one to be dropped.
func (p *Proxy) drops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop == 0 {
		return false
	}
	p.drop--
	p.dropped++
	return true
}

// spoils is what to call, where the bytes at hand are those to be kept back.
func (p *Proxy) spoils(answers bool) (then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !answers {
		p.passed++
	}
	switch {
	case p.spoil == nil:
		return nil
	case !answers:
		if p.spoil.ahead--; !p.spoil.request || p.spoil.ahead > 0 {
			return nil
		}
	case p.spoil.request || p.spoil.ahead > 0:
		return nil
	}
	then, p.spoil = p.spoil.then, nil
	return then
}
