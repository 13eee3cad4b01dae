package main

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/httpapi"
	"github.com/daybookdev/daybook/internal/everyanswer"
)

// Two hundred clients that send a byte now and then (slow loris), in the head or
// in the body, are cut off, and others are served meanwhile.
func TestServeCutsSlowClients(t *testing.T) {
	if timesDefault.head > 10*time.Second || timesDefault.request > time.Minute {
		t.Errorf("a client may take %+v", timesDefault)
	}
	api, err := httpapi.New(daybooktest.New(t).Book, httpapi.Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := webServer(t.Context(), api, times{400 * time.Millisecond, 600 * time.Millisecond, time.Minute,
		time.Minute})
	var open sync.WaitGroup
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Done()
		}
	}
	go func() { _ = everyanswer.Serve(server, listener, nil) }()
	defer server.Close()
	const clients = 200
	const begin = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
	heads := []string{begin + "X-Slow: ", begin + "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"}
	var all sync.WaitGroup
	cut := make(chan error, clients)
	for n := range clients {
		all.Go(func() { cut <- slowClient(listener.Addr().String(), heads[n%2]) })
	}
	answer, err := http.Get("http://" + listener.Addr().String() + "/v1/jobs")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("another client meanwhile: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	all.Wait() // each until it was cut off
	close(cut)
	for err := range cut {
		if err != nil {
			t.Error(err)
		}
	}
	open.Wait() // and the server holds none of them any more
}

// slowClient sends a byte after the other until the server ends it.
func slowClient(address, head string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	drip := time.NewTicker(20 * time.Millisecond)
	defer drip.Stop()
	for {
		select {
		case <-gone:
			return nil
		case <-drip.C:
			if _, err := conn.Write([]byte("x")); err != nil {
				<-gone
				return nil
			}
		}
	}
}
