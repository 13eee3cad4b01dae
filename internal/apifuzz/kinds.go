package apifuzz

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// kind is one way to be wrong. spoil changes a good call, says what must be
// answered then, and reports whether this call can be wrong in this way.
type kind struct {
	name  string
	spoil func(f *Fuzzer, a artist, c *call) bool
}

// kinds are all of them, and two of calls that are right.
var kinds = slices.Concat([]kind{{"as described", described}, {"the example", example}}, bodyKinds, textKinds,
	doorKinds, pathKinds, wireKinds)

func described(_ *Fuzzer, _ artist, _ *call) bool { return true }

func example(_ *Fuzzer, _ artist, c *call) bool {
	if c.op.Body == nil {
		return false
	}
	c.doc, c.text = nil, c.op.Body.Content[jsonMedia].Example
	if strings.Contains(string(c.text), `"wait_seconds"`) {
		return false // it would wait as long as it says
	}
	c.not = append(slices.Clone(clientFaults), 422)
	c.header = slices.DeleteFunc(c.header, func(f field) bool { return f.name == "Idempotency-Key" }) // it has its own
	return c.text != nil
}

// refused says that a call gets one of these.
func (c *call) refused(status ...int) bool {
	c.want = status
	return true
}

// bodyKinds are wrong by the body's schema.
var bodyKinds = []kind{
	{"a value of another type", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.schema != nil })
		if ok {
			p.set(a.other(p.schema))
		}
		return ok && c.refused(422)
	}},
	{"a required field missing", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.object() && len(p.schema.Required) > 0 })
		if ok {
			delete(p.value.(map[string]any), pick(a, p.schema.Required))
		}
		return ok && c.refused(422)
	}},
	{"an unknown field", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.object() && p.schema.closed() })
		if ok {
			p.value.(map[string]any)[pick(a, []string{"odd-name", Marker + " ü", "__proto__", "ID", ""})] = Marker
		}
		return ok && c.refused(422)
	}},
	{"a value out of its range", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.schema != nil && a.outside(p.schema) != nil })
		if ok {
			p.set(a.outside(p.schema))
		}
		return ok && c.refused(422, 413)
	}},
	{"a required field null", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.object() && len(p.schema.Required) > 0 })
		if !ok {
			return false
		}
		name := pick(a, p.schema.Required)
		p.value.(map[string]any)[name] = nil
		if s := a.doc.of(p.schema.Properties[name]); s == nil || s.takes("null") {
			return true // null is a document too
		}
		return c.refused(422)
	}},
	{"a field in depth", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(place) bool { return true })
		if ok {
			n := 1 << (5 + a.IntN(11))
			p.set(json.RawMessage(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)))
			c.not = nil
		}
		return ok
	}},
	{"a long text", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.schema == nil || p.schema.takes("string") })
		if ok {
			p.set(strings.Repeat(Marker, 1<<a.IntN(16)))
			c.not = []int{401, 403, 405, 415}
		}
		return ok
	}},
	{"a character that isn't kept", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.schema == nil || p.schema.takes("string") })
		if ok {
			p.set(json.RawMessage(pick(a, []string{`"\ud800` + Marker + `"`, `"\udc00"`, `"\u0000` + Marker + `"`,
				`"\ud83d\u0041"`})))
			c.not = []int{401, 403, 405, 413, 415} // texts of errors are mended, others refused
		}
		return ok
	}},
	{"text that is none", func(_ *Fuzzer, a artist, c *call) bool {
		p, ok := a.at(c, func(p place) bool { return p.schema == nil || p.schema.takes("string") })
		if ok {
			p.set(json.RawMessage(pick(a, []string{"\"\xff\"", "\"\x01\"",
				`"` + Marker + "\n" + `"`, `"\x41"`})))
		}
		return ok && c.refused(400, 422)
	}},
}

// render is a document's text. Raw parts stay as they are, JSON or not.
func render(doc any) []byte {
	var b bytes.Buffer
	write(&b, doc)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case json.RawMessage:
		b.Write(v)
	case map[string]any:
		b.WriteByte('{')
		for n, name := range sortedNames(v) {
			if n > 0 {
				b.WriteByte(',')
			}
			write(b, name)
			b.WriteByte(':')
			write(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for n, row := range v {
			if n > 0 {
				b.WriteByte(',')
			}
			write(b, row)
		}
		b.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // it was drawn
		}
		b.Write(text)
	}
}

// textKinds are bodies that aren't read, whatever is in them.
var textKinds = []kind{
	{"no JSON", func(_ *Fuzzer, a artist, c *call) bool {
		text := string(c.body())
		if c.doc == nil || len(text) < 2 {
			return false
		}
		c.text = []byte(pick(a, []string{text[:a.IntN(len(text)-1)+1], text + text, text + "}", "nope" + Marker,
			"{'a':1}", text[:1] + "," + text[1:], "\xef\xbb\xbf" + text, "NaN", "<a>" + Marker + "</a>", "a=" + Marker}))
		if json.Valid(c.text) {
			return false
		}
		return c.refused(400, 422) // what is wrong before it breaks off may be said first
	}},
	{"a field twice", func(_ *Fuzzer, _ artist, c *call) bool {
		object, ok := c.doc.(map[string]any)
		if !ok || len(object) == 0 {
			return false
		}
		name := sortedNames(object)[0]
		value, _ := json.Marshal(object[name])
		c.text = []byte(`{"` + name + `":` + string(value) + `,` + string(c.body()[1:]))
		return c.refused(422, 400)
	}},
	{"no body", func(_ *Fuzzer, _ artist, c *call) bool {
		if c.op.Body == nil || !c.op.Body.Required {
			return false
		}
		c.doc = nil
		return c.refused(400)
	}},
	{"a body too large", func(_ *Fuzzer, a artist, c *call) bool {
		if c.op.Body == nil || c.op.Body.Most > 4<<20 {
			return false
		}
		c.text = []byte(`{"` + strings.Repeat("x", int(c.op.Body.Most)+a.IntN(1000)) + `":1}`)
		return c.refused(413)
	}},
	{"another media type", func(_ *Fuzzer, a artist, c *call) bool {
		if c.doc == nil {
			return false
		}
		c.set("Content-Type", pick(a, []string{"", "text/plain", "text/" + Marker, "application/x-www-form-urlencoded",
			"multipart/form-data; boundary=x", "application/xml", ";"}))
		return c.refused(415)
	}},
	{"an encoded body", func(_ *Fuzzer, a artist, c *call) bool {
		c.set("Content-Encoding", pick(a, []string{"gzip", "br", Marker}))
		return c.doc != nil && c.refused(415)
	}},
}

// doorKinds aren't let in.
var doorKinds = []kind{
	{"no token", func(_ *Fuzzer, _ artist, c *call) bool {
		c.set("Authorization", "")
		return c.op.scope() != "" && c.refused(401)
	}},
	{"an unknown token", func(f *Fuzzer, a artist, c *call) bool {
		c.set("Authorization", pick(a, []string{"Bearer " + Marker, "Bearer", "Basic eDp5", f.o.All,
			"Bearer " + f.o.All + "x", "Bearer " + strings.Repeat("x", 5000), "Token " + f.o.All}))
		return c.op.scope() != "" && c.refused(401)
	}},
	{"two tokens", func(f *Fuzzer, _ artist, c *call) bool {
		c.header = append(c.header, field{"Authorization", "Bearer " + f.o.All})
		return c.op.scope() != "" && c.refused(401)
	}},
	{"a token without the scope", func(f *Fuzzer, a artist, c *call) bool {
		if c.op.scope() == "" {
			return false
		}
		scopes := slices.DeleteFunc(f.scopes(), func(s string) bool { return s == c.op.scope() })
		c.set("Authorization", "Bearer "+f.o.Tokens[pick(a, scopes)])
		return c.refused(403)
	}},
	{"another site's page", func(_ *Fuzzer, a artist, c *call) bool {
		c.set("Origin", pick(a, []string{"https://evil.example", "null", "http://localhost:1", Marker}))
		return c.refused(403)
	}},
}

// pathKinds are wrong before the body.
var pathKinds = []kind{
	{"another method", func(f *Fuzzer, a artist, c *call) bool {
		c.method = pick(a, []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", Marker})
		if _, there := f.doc.Paths[c.op.path][strings.ToLower(c.method)]; there {
			return false
		}
		return c.refused(405)
	}},
	{"HEAD", func(_ *Fuzzer, _ artist, c *call) bool {
		c.method = "HEAD"
		return c.op.method == "GET"
	}},
	{"no such path", func(_ *Fuzzer, a artist, c *call) bool {
		c.path += pick(a, []string{"/", "/" + Marker, "/../jobs", "/%2e%2e/" + Marker, "//", "/%00"})
		c.op, c.query = nil, nil
		return c.refused(404, 405, 422) // it may be a parameter of another path
	}},
	{"an odd name in the path", func(_ *Fuzzer, a artist, c *call) bool {
		params := c.op.in("path")
		if len(params) == 0 {
			return false
		}
		odd := []string{Marker + "%20", "%00", "%ff", "%27%20OR%201=1--", strings.Repeat("a", 300), "%2e%2e%2f" + Marker}
		c.path = strings.ReplaceAll(c.op.path, "{"+params[0].Name+"}", pick(a, odd))
		for _, p := range params[1:] {
			value, _ := a.valid(p.Schema, p.Name).(string)
			c.path = strings.ReplaceAll(c.path, "{"+p.Name+"}", value)
		}
		if c.op.Body != nil && c.doc == nil {
			return false
		}
		return c.refused(422, 404, 409)
	}},
	{"an unknown parameter", func(_ *Fuzzer, a artist, c *call) bool {
		c.query = append(c.query, url.QueryEscape(pick(a, []string{"odd", Marker + " ü", "", "limit[]"}))+"="+Marker)
		return c.refused(422)
	}},
	{"a parameter out of its range", func(_ *Fuzzer, a artist, c *call) bool {
		params := slices.DeleteFunc(c.op.in("query"), func(p parameter) bool { return a.outside(p.Schema) == nil })
		if len(params) == 0 {
			return false
		}
		p := pick(a, params)
		value, _ := json.Marshal(a.outside(p.Schema))
		c.query = []string{p.Name + "=" + url.QueryEscape(strings.Trim(string(value), `"`))}
		return c.refused(422)
	}},
	{"a parameter that is no text", func(_ *Fuzzer, a artist, c *call) bool {
		params := slices.DeleteFunc(c.op.in("query"), func(p parameter) bool { return !p.Schema.takes("string") })
		if len(params) == 0 {
			return false
		}
		c.query = []string{pick(a, params).Name + "=" + pick(a, []string{"%00", "%ff", "a%00b", "%ed%a0%80", "MTr_AA",
			"MTr_", "AA", "MToA", "MTr_Og"})} // the last are as cursors may be inside
		c.not = []int{400, 401, 403, 405, 413, 415}
		return true
	}},
	{"a parameter twice", func(_ *Fuzzer, a artist, c *call) bool {
		params := c.op.in("query")
		if len(params) == 0 {
			return false
		}
		one := pick(a, params).Name + "=1"
		c.query = []string{one, one}
		return c.refused(422)
	}},
	{"a query that is none", func(_ *Fuzzer, a artist, c *call) bool {
		c.query = []string{pick(a, []string{"limit=%", "limit=%zz", "a=1;b=2", "%u0041=" + Marker})}
		return c.refused(400)
	}},
	{"a header out of its range", func(_ *Fuzzer, a artist, c *call) bool {
		params := c.op.in("header")
		if len(params) == 0 {
			return false
		}
		name := pick(a, params).Name
		c.set(name, pick(a, []string{`"`, `"` + Marker, `""`, `"a\x"`, strings.Repeat("k", 300), "\xff" + Marker, Marker}))
		c.not = []int{401, 403, 405, 413, 415} // which values are refused, their own tests say
		return true
	}},
}
