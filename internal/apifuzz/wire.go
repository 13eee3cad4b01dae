package apifuzz

import (
	"strconv"
	"strings"
)

// wireKinds are broken below the document: in how the bytes come.
var wireKinds = []kind{
	{"a body cut off", func(_ *Fuzzer, a artist, c *call) bool {
		body := c.body()
		if len(body) < 2 {
			return false
		}
		c.text = body[:a.IntN(len(body))]
		c.set("Content-Length", strconv.Itoa(len(body)))
		c.ends, c.silent = true, true
		return c.refused(400)
	}},
	{"a head cut off", func(_ *Fuzzer, a artist, c *call) bool {
		c.text, c.doc = nil, nil
		head := c.bytes("HOST")
		c.wire = head[:1+a.IntN(len(head)-2)]
		c.ends, c.silent, c.own = true, true, true
		return c.refused(400)
	}},
	{"slow, and whole", func(_ *Fuzzer, _ artist, c *call) bool {
		c.slow = true
		return len(c.body()) < 1<<10
	}},
	{"slow, and never whole", func(_ *Fuzzer, a artist, c *call) bool {
		whole := c.bytes("HOST")
		if len(whole) > 1<<10 || c.op.Body == nil {
			return false
		}
		c.wire = whole[:len(whole)/2+a.IntN(len(whole)/2)]
		c.slow, c.stops, c.silent, c.own = true, true, true, true
		return a.chance(3) && c.refused(400, 408)
	}},
	{"chunks that are none", func(_ *Fuzzer, a artist, c *call) bool {
		if c.doc == nil {
			return false
		}
		c.text = []byte(pick(a, []string{"zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n", "ffffffffffffffffff\r\n{}",
			"2\r\n{}0\r\n\r\n", "2;" + strings.Repeat("x", 5000) + "\r\n{}\r\n0\r\n\r\n"}))
		c.set("Transfer-Encoding", "chunked")
		c.ends, c.silent = true, true
		return c.refused(400)
	}},
	{"a head too large", func(_ *Fuzzer, a artist, c *call) bool {
		c.own, c.silent = true, true
		if a.chance(2) {
			c.set("X-Large", strings.Repeat(Marker, 1<<15))
			return c.refused(431)
		}
		c.query = []string{"key=" + strings.Repeat(Marker, 1<<15)}
		return c.refused(431)
	}},
	{"no HTTP", func(_ *Fuzzer, a artist, c *call) bool {
		c.wire = []byte(pick(a, []string{"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET  /v1/jobs  HTTP/1.1\r\n\r\n",
			"GET /" + Marker + "\x00 HTTP/1.1\r\nHost: HOST\r\n\r\n", "GET /v1/jobs HTTP/1.1\r\n\r\n",
			"GET /v1/jobs HTTP/1.1\r\nHost: HOST\r\n" + Marker + "\r\n\r\n",
			"GET /v1/jobs HTTP/1.1\r\nHost: HOST\r\nX: a\x00b\r\n\r\n",
			"GET /v1/jobs HTTP/1.1\r\nHost: HOST\r\nHost: " + Marker + "\r\n\r\n",
			"POST /v1/jobs HTTP/1.1\r\nHost: HOST\r\nContent-Length: " + Marker + "\r\n\r\n",
			"POST /v1/jobs HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
			"POST /v1/jobs HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: " + Marker + "\r\n\r\n{}",
			"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + Marker, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\n\r\n",
			strings.Repeat(Marker, 1<<13)}))
		c.op, c.ends, c.own, c.silent = nil, true, true, true
		return c.refused(400, 401, 404, 431, 501, 505)
	}},
	{"two lengths", func(f *Fuzzer, _ artist, c *call) bool {
		// What a proxy in front could read as two requests is refused or read as one.
		c.wire = []byte("POST /v1/jobs HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Type: application/json\r\n" +
			"Authorization: Bearer " + f.o.All + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"0\r\n\r\nGET /v1/" + Marker + " HTTP/1.1\r\nHost: HOST\r\n\r\n")
		c.op, c.ends, c.own, c.silent = nil, true, true, true
		return c.refused(400)
	}},
	{"gone before the answer", func(_ *Fuzzer, _ artist, c *call) bool {
		c.gone, c.silent = true, true
		return true
	}},
}
