package apifuzz

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// call is one request, as it goes over the wire.
type call struct {
	n      int
	kind   string
	op     *operation // nil where there is none
	method string
	path   string
	query  []string // NAME=VALUE, escaped
	header []field
	doc    any    // the body as a value; nil is none
	text   []byte // the body as bytes, if that isn't what doc says
	wire   []byte // all of the request, if that isn't what the rest says
	slow   bool   // sent a few bytes at a time
	ends   bool   // the sender closes its side behind it
	stops  bool   // the sender waits for the server to give up
	gone   bool   // the sender is gone when the answer comes

	want   []int // what may be answered; nil is anything but not
	not    []int
	silent bool // the connection may be ended without an answer
	own    bool // the HTTP library may answer by itself
}

type field struct{ name, value string }

// set gives a header its only value; "" leaves it out.
func (c *call) set(name, value string) {
	c.header = slices.DeleteFunc(c.header, func(f field) bool { return f.name == name })
	if value != "" {
		c.header = append(c.header, field{name, value})
	}
}

// body is what is sent behind the head.
func (c *call) body() []byte {
	if c.text != nil || c.doc == nil {
		return c.text
	}
	return render(c.doc)
}

// target is the path with its query.
func (c *call) target() string {
	if len(c.query) == 0 {
		return c.path
	}
	return c.path + "?" + strings.Join(c.query, "&")
}

// bytes is the request as it is sent to a host.
func (c *call) bytes(host string) []byte {
	if c.wire != nil {
		return bytes.ReplaceAll(c.wire, []byte("HOST"), []byte(host))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", c.method, c.target(), host)
	sized := false
	for _, f := range c.header {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
		sized = sized || f.name == "Content-Length" || f.name == "Transfer-Encoding"
	}
	body := c.body()
	if !sized && (len(body) > 0 || c.method == "POST") {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// clientFaults are what a call that keeps to the description never gets: that it
// can't be read, isn't let in, or is of the wrong form.
var clientFaults = []int{400, 401, 403, 405, 413, 415}

// draw makes call number n: a good one, and something wrong with it.
func (f *Fuzzer) draw(n int) *call {
	a := artist{Rand: rand.New(rand.NewPCG(f.o.Seed, uint64(n))), doc: f.doc, ids: f.o.IDs}
	for {
		c := f.good(a, pick(a, f.doc.operations))
		c.n = n
		k := kinds[a.IntN(len(kinds))]
		if c.kind = k.name; k.spoil(f, a, c) {
			return c
		}
	}
}

// good draws a call as the description wants it.
func (f *Fuzzer) good(a artist, op *operation) *call {
	c := &call{op: op, method: op.method, path: op.path, not: clientFaults}
	if len(f.o.Claims) > 0 && a.chance(2) {
		claim := pick(a, f.o.Claims)
		a.owned = &claim
	}
	for _, p := range op.in("path") {
		value, _ := a.valid(p.Schema, p.Name).(string)
		c.path = strings.ReplaceAll(c.path, "{"+p.Name+"}", url.PathEscape(value))
	}
	for _, p := range op.in("query") {
		if a.chance(4) {
			c.query = append(c.query, p.Name+"="+url.QueryEscape(fmt.Sprint(a.valid(p.Schema, p.Name))))
		}
	}
	for _, p := range op.in("header") {
		if a.chance(4) {
			c.set(p.Name, `"`+strconv.Itoa(a.IntN(50))+`"`)
		}
	}
	c.set("Authorization", "Bearer "+f.secretFor(a, op.scope()))
	if op.Body == nil {
		if op.method == "POST" {
			c.set("Content-Type", jsonMedia)
		}
		return c
	}
	c.set("Content-Type", jsonMedia)
	if op.Body.Required || a.chance(2) {
		c.doc = a.valid(op.Body.Content[jsonMedia].Schema, op.ID)
	}
	return c
}

// secretFor is a token that opens a scope.
func (f *Fuzzer) secretFor(a artist, scope string) string {
	if secret := f.o.Tokens[scope]; secret != "" && a.chance(2) {
		return secret
	}
	return f.o.All
}

// place is one value of a body, with its schema; nil is that users decide it.
type place struct {
	schema *schema
	value  any
	set    func(any)
}

// object reports whether a place is one whose fields the description decides.
func (p place) object() bool {
	_, is := p.value.(map[string]any)
	return is && p.schema != nil
}

// places are all values of a body.
func (a artist) places(c *call) []place {
	if c.doc == nil {
		return nil
	}
	return a.under(c.op.Body.Content[jsonMedia].Schema, c.doc, func(v any) { c.doc = v })
}

func (a artist) under(s *schema, value any, set func(any)) []place {
	s = a.doc.of(s)
	if s == nil || len(s.Type) == 0 {
		return []place{{nil, value, set}}
	}
	list := []place{{s, value, set}}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range sortedNames(value) {
			list = append(list, a.under(s.Properties[name], value[name], func(v any) { value[name] = v })...)
		}
	case []any:
		for n := range value {
			list = append(list, a.under(s.Items, value[n], func(v any) { value[n] = v })...)
		}
	}
	return list
}

// at draws a place that fits, if there is one.
func (a artist) at(c *call, fits func(place) bool) (place, bool) {
	list := slices.DeleteFunc(a.places(c), func(p place) bool { return !fits(p) })
	if len(list) == 0 {
		return place{}, false
	}
	return pick(a, list), true
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
