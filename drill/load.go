package drill

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/proxy"
)

// load is what runs under all faults: enqueuers, one through a server, and
// workers, on a queue of their own. Its connections to the database and to the
// bell go through proxies, where they can be spoiled.
type load struct {
	s           *stand
	store, bell *proxy.Proxy // nil where there is no server, or no way to it
	where       string
	address     string // of the server

	mu        sync.Mutex
	starts    int
	workers   []*process
	enqueuers []*process
	server    *process
	extra     []daybook.ID // put in from here
}

// loadWorkers and loadSlots are few: a drill shares the machine with what it
// drills.
const loadWorkers, loadSlots = 2, 4

func (s *stand) startLoad(ctx context.Context) (l *load, err error) {
	l = &load{s: s}
	defer func() {
		if err != nil {
			l.end()
		}
	}()
	route := Route{Application: applicationLoad}
	if at := s.site.StoreAddr; at != "" {
		if l.store, err = proxy.Start(at); err != nil {
			return l, daybook.Fail(daybook.CodeInternal, "the drill's proxy can't listen on 127.0.0.1")
		}
		route.Store = l.store.Addr()
	}
	if at := s.site.BellAddr; at != "" {
		if l.bell, err = proxy.Start(at); err != nil {
			return l, daybook.Fail(daybook.CodeInternal, "the drill's proxy can't listen on 127.0.0.1")
		}
		route.Bell = l.bell.Addr()
	}
	if l.where, err = s.site.Where(route); err != nil {
		return l, err
	}
	if l.address, err = freeAddress(); err != nil {
		return l, err
	}
	if l.server, err = l.begin(ctx, setup{Role: roleServer, Server: l.address}); err != nil {
		return l, err
	}
	for range loadWorkers {
		if err := l.work(ctx); err != nil {
			return l, err
		}
	}
	for n, server := range []string{"", l.address} {
		p, err := l.begin(ctx, setup{Role: roleEnqueuer, Load: true, Server: server,
			Accepted: filepath.Join(s.dir, fmt.Sprintf("accepted-load-%d", n+1))})
		if err != nil {
			return l, err
		}
		l.enqueuers = append(l.enqueuers, p)
	}
	return l, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", daybook.Fail(daybook.CodeInternal, "the drill can't listen on 127.0.0.1; check the firewall")
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// begin starts a process of the load and waits until it does its work.
func (l *load) begin(ctx context.Context, s setup) (*process, error) {
	l.mu.Lock()
	l.starts++
	s.Name, s.Queue, s.Where, s.Bells = fmt.Sprintf("load%s-%d", s.Role, l.starts), loadQueue, l.where, true
	l.mu.Unlock()
	p, err := l.s.begin(s)
	if err != nil {
		return nil, err
	}
	return p, p.begun(ctx)
}

// work adds a worker.
func (l *load) work(ctx context.Context) error {
	p, err := l.begin(ctx, setup{Slots: loadSlots, Loops: true, Poll: pollFaults})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, p)
	return nil
}

// take takes the oldest worker out of the load.
func (l *load) take() *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.workers[0]
	l.workers = l.workers[1:]
	return p
}

// listening are the processes that hear the bell.
func (l *load) listening() []*process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*process(nil), l.workers...)
}

// also notes a job of the load that didn't come from its enqueuers.
func (l *load) also(id daybook.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra = append(l.extra, id)
}

// accepted counts the ids in the enqueuers' files.
func (l *load) accepted() (n int) {
	files, _ := filepath.Glob(filepath.Join(l.s.dir, "accepted-load-*")) // fails for bad patterns only
	for _, name := range files {
		if at, err := os.Stat(name); err == nil {
			n += int(at.Size() / idLine)
		}
	}
	return n
}

// idLine is how long an id and the end of its line are.
const idLine = 37

// stopEnqueuers ends what puts jobs in.
func (l *load) stopEnqueuers() {
	for _, p := range l.enqueuers {
		p.end()
	}
	l.enqueuers = nil
}

// drained waits until the load has nothing more to do, and is false when that
// takes too long.
func (l *load) drained(ctx context.Context) (bool, error) {
	late := time.Now().Add(l.s.patience)
	for time.Now().Before(late) {
		waiting, err := l.s.book.Count(ctx, daybook.Filter{Queue: loadQueue, State: daybook.Waiting})
		if err != nil {
			return false, err
		}
		running, err := l.s.book.Count(ctx, daybook.Filter{Queue: loadQueue, State: daybook.Running})
		if err != nil {
			return false, err
		}
		if waiting+running == 0 {
			return true, nil
		}
		if !sleep(ctx, lull) {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// end ends all of it. Twice is harmless.
func (l *load) end() {
	l.stopEnqueuers()
	for _, p := range l.workers {
		p.end()
	}
	if l.server != nil {
		l.server.end()
	}
	if l.store != nil {
		_ = l.store.Close() // it only forwards
	}
	if l.bell != nil {
		_ = l.bell.Close()
	}
}
