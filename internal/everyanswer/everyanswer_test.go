package everyanswer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake looks like an answer of net/http's own.
const fake = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"400 Bad Request"

// pages answer with the policy that every handler of ours sets.
func pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/fake", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, fake)
			_ = http.NewResponseController(w).Flush() // each begins a write to the connection
		}
	})
	mux.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS != nil && r.TLS.HandshakeComplete, " ", r.Proto)
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, fake)
			err = c.Close()
		}
		if err != nil {
			panic(err)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "of a handler")
		mux.ServeHTTP(w, r)
	})
}

// place is a server under test.
type place struct {
	*testing.T
	address string
	secure  *tls.Config // of its clients; nil speaks HTTP
}

// each runs a test on a plain and on a secure server.
func each(t *testing.T, limit time.Duration, test func(place)) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure %t", secure), func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			p := place{T: t, address: listener.Addr().String()}
			var config *tls.Config
			if secure {
				lender := httptest.NewTLSServer(nil)
				defer lender.Close()
				config = &tls.Config{Certificates: lender.TLS.Certificates}
				p.secure = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
			}
			server := &http.Server{Handler: pages(), ReadHeaderTimeout: limit, MaxHeaderBytes: 4 << 10}
			ended := make(chan error, 1)
			go func() { ended <- Serve(server, listener, config) }()
			test(p)
			if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("serving ended with %v", err)
			}
		})
	}
}

func (p place) dial() net.Conn {
	p.Helper()
	var c net.Conn
	var err error
	if p.secure != nil {
		c, err = tls.Dial("tcp", p.address, p.secure)
	} else {
		c, err = net.Dial("tcp", p.address)
	}
	if err == nil {
		err = c.SetDeadline(time.Now().Add(30 * time.Second)) // of a test that waits for what never comes
	}
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// said is all that the server says to what one connection sends.
func (p place) said(send string) string {
	p.Helper()
	c := p.dial()
	defer c.Close()
	if _, err := io.WriteString(c, send); err != nil {
		p.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if len(all) == 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("%.60q: answered %q, %v", send, all, err)
	}
	return string(all)
}

// answered fails unless a text is answers of these statuses, each with one policy.
func (p place) answered(send, text string, statuses ...int) (last string) {
	p.Helper()
	r := bufio.NewReader(strings.NewReader(text))
	for n, want := range statuses {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			p.Fatalf("%.60q: answer %d of %q: %v", send, n, text, err)
		}
		body, err := io.ReadAll(answer.Body)
		if policies := answer.Header["Content-Security-Policy"]; err != nil || answer.StatusCode != want ||
			len(policies) != 1 {
			p.Errorf("%.60q: answer %d is %d with policies %q, %v, want %d with one", send, n, answer.StatusCode,
				policies, err, want)
		}
		last = string(body)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		p.Errorf("%.60q: %q was said behind the answers, %v", send, rest, err)
	}
	return last
}

// What no handler sees is answered with our headers too, first on a connection
// and behind good requests.
func TestEveryAnswer(t *testing.T) {
	each(t, 10*time.Second, func(p place) {
		good := "GET /secure HTTP/1.1\r\nHost: h\r\n\r\n"
		for send, want := range map[string]int{
			"GET\r\n\r\n":                                                                      400,
			"GET  / HTTP/1.1\r\nHost: h\r\n\r\n":                                               400,
			"GET / HTTP/9.9\r\nHost: h\r\n\r\n":                                                505,
			"GET / HTTP/x\r\nHost: h\r\n\r\n":                                                  400,
			"GET / HTTP/1.1\r\n\r\n":                                                           400,
			"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                     400,
			"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                              400,
			"GET / HTTP/1.1\r\nHost: h\r\nno field\r\n\r\n":                                    400,
			"GET / HTTP/1.1\r\nHost: h\r\nX: a\x00b\r\n\r\n":                                   400,
			"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n":      431,
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n":                          400,
			"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n":                    501,
			"GET / HTTP/1.1\r\nHost: h\r\nExpect: much\r\n\r\n":                                417,
			"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n":                       200,
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                 400,
			"GET /none HTTP/1.0\r\n\r\n":                                                       404,
			"CONNECT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n":                       404,
			"GET //none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n":                      307,
			"POST /secure HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n": 200,
		} {
			p.answered(send, p.said(send), want)
			p.answered(send, p.said(good+good+send), 200, 200, want)
		}
	})
}

// A handler's answer is passed on as it is, whatever it looks like.
func TestHandlersAnswersAreKept(t *testing.T) {
	each(t, 10*time.Second, func(p place) {
		for _, send := range []string{"GET /fake HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
			"GET /fake HTTP/1.0\r\n\r\n"} {
			if got := p.answered(send, p.said(send), 200); got != fake+fake+fake {
				p.Errorf("got %q, want what the handler said", got)
			}
		}
		if got := p.said("GET /hijack HTTP/1.1\r\nHost: h\r\n\r\n"); got != fake {
			p.Errorf("got %q, want what the handler said on the connection", got)
		}
		send := "GET /secure HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
		want := fmt.Sprint(p.secure != nil, " HTTP/1.1")
		if got := p.answered(send, p.said(send), 200); got != want {
			p.Errorf("handlers see %q, want %q", got, want)
		}
	})
}

// Who says nothing is waited for by nobody else, and not for ever.
func TestSilentClients(t *testing.T) {
	each(t, 3*time.Second, func(p place) {
		silent, err := net.Dial("tcp", p.address)
		if err == nil {
			err = silent.SetDeadline(time.Now().Add(30 * time.Second)) // of a test that waits for what never comes
		}
		if err != nil {
			p.Fatal(err)
		}
		defer silent.Close()
		p.answered("meanwhile", p.said("GET / HTTP/1.0\r\n\r\n"), 404)
		if all, err := io.ReadAll(silent); err != nil || len(all) > 0 {
			p.Errorf("the silent one got %q, %v, want to be cut off", all, err)
		}
	})
}

// Who speaks HTTP to a server of HTTPS is told so, with our headers.
func TestHTTPToHTTPS(t *testing.T) {
	each(t, 10*time.Second, func(p place) {
		if p.secure == nil {
			return
		}
		p.secure = nil
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			send := method + " / HTTP/1.1\r\nHost: h\r\n\r\n"
			if got := p.answered(send, p.said(send), 400); !strings.Contains(got, "HTTP request to an HTTPS server") {
				p.Errorf("%s: got %q", method, got)
			}
		}
		c := p.dial()
		defer c.Close()
		if _, err := io.WriteString(c, "neither of both\r\n\r\n"); err != nil {
			p.Fatal(err)
		}
		if all, _ := io.ReadAll(c); strings.Contains(string(all), "HTTP/") {
			p.Errorf("what is no HTTP got %q", all)
		}
	})
}
