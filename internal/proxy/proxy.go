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
	conns   map[net.Conn]bool
	stalled bool
	down    bool
	drop    int // how many answers are still to be dropped
	dropped int
	closed  bool
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

// Cut closes every connection that is open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	for c := range p.conns {
		c.Close()
	}
	p.awake.Broadcast()
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

// DropAnswers lets n requests through and cuts their connections when the
// server answers: the request took hold, and its answer is lost.
func (p *Proxy) DropAnswers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = n
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
	if !p.mayPass() {
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
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// mayPass waits while the proxy is stalled, and is false when it is closed.
func (p *Proxy) mayPass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalled && !p.closed && !p.down {
		p.awake.Wait()
	}
	return !p.closed && !p.down
}

func (p *Proxy) forward(to io.Writer, from io.Reader, answers bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.mayPass() || answers && p.drops() {
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
