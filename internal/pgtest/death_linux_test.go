package pgtest

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// TestDeathOfThread: a server outlives the thread on which it was asked for.
func TestDeathOfThread(t *testing.T) {
	type result struct {
		s      *Server
		err    error
		thread int
	}
	results := make(chan result)
	var startAndEnd func()
	startAndEnd = func() {
		runtime.LockOSThread() // and the thread ends with this function
		if syscall.Gettid() == syscall.Getpid() {
			go startAndEnd() // the first thread never ends; here it is taken
			return
		}
		s, err := Start(Options{})
		results <- result{s, err, syscall.Gettid()}
	}
	go startAndEnd()
	r := <-results
	must(t, r.err)
	t.Cleanup(func() { must(t, r.s.Stop()) })
	must(t, until("the thread has ended", func() bool { return missingFile(fmt.Sprintf("/proc/self/task/%d", r.thread)) }))
	if r.s.process.hasEnded() {
		t.Fatal("the server died with the thread")
	}
	want(t, "the server", answer(t, r.s.URL("postgres"), "SELECT 1"), "1")
}
