package apifuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// inside is what shows a program's inside: statements, drivers' words, stacks.
var inside = regexp.MustCompile(`(?i)\bselect\s.{0,200}\sfrom\s|\binsert into\b|\bupdate \w+ set\b|\bdelete from\b|` +
	`sqlstate|sqlite_|\bpgx\b|constraint failed|goroutine \d|\.go:\d|runtime error|panic:|0x[0-9a-f]{8}`)

// Leaks says what a text has in it that nobody should read there, "" for nothing:
// a secret, what a request was given, a statement, a stack.
func (f *Fuzzer) Leaks(text string) string {
	if strings.Contains(text, Marker) {
		return "what it was given"
	}
	return f.exposes(text)
}

func (f *Fuzzer) exposes(text string) string {
	for scope, secret := range f.o.Tokens {
		if strings.Contains(text, secret) {
			return "the token of scope " + scope
		}
	}
	if strings.Contains(text, f.o.All) {
		return "a token"
	}
	if found := inside.FindString(text); found != "" {
		return fmt.Sprintf("%.80q", found)
	}
	return ""
}

// judge says what is wrong with the answer to a call, "" for nothing.
func (f *Fuzzer) judge(c *call, got answer) string {
	text := string(got.body)
	switch leak := f.exposes(text); {
	case got.status >= 500 && !(c.own && (got.status == 501 || got.status == 505)):
		return "the server failed"
	case c.want != nil && !slices.Contains(c.want, got.status) && !rowRefused(got):
		return fmt.Sprintf("want one of %v", c.want)
	case c.want == nil && slices.Contains(c.not, got.status):
		return "a call as it is described was refused"
	case leak != "":
		return "the answer has in it: " + leak
	case got.status >= 400 && strings.Contains(text+fmt.Sprint(got.header), Marker):
		return "the refusal repeats what was given"
	}
	if wrong := headersWrong(got); wrong != "" {
		return wrong
	}
	if c.own && got.header.Get("Date") == "" { // the library's own answers have none, and are no documents
		return ""
	}
	return f.undescribed(c, got)
}

// rowRefused reports whether an answer has one of its own for each row of the
// body, and refuses one of them: the document's calls of that sort do the others.
func rowRefused(got answer) bool {
	var rows []struct{ Code string }
	return got.status == http.StatusOK && json.Unmarshal(got.body, &rows) == nil &&
		slices.ContainsFunc(rows, func(row struct{ Code string }) bool { return row.Code == "invalid" })
}

// headersWrong says which header an answer lacks.
func headersWrong(got answer) string {
	wants := map[int]string{401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}
	for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", wants[got.status]} {
		if name != "" && got.header.Get(name) == "" {
			return "there is no " + name
		}
	}
	return ""
}

// undescribed says where an answer isn't what the description says.
func (f *Fuzzer) undescribed(c *call, got answer) string {
	op := c.op
	if op == nil {
		op = f.doc.operations[0] // a problem is a problem
	}
	described, ok := op.Responses[strconv.Itoa(got.status)]
	if !ok && got.status >= 400 {
		described, ok = op.Responses["default"]
	}
	switch {
	case !ok:
		return "the description has no such status"
	case c.method == http.MethodHead || len(described.Content) == 0:
		if len(got.body) > 0 {
			return "there is a body, and should be none"
		}
		return ""
	}
	name, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	content, ok := described.Content[name]
	if err != nil || !ok {
		return fmt.Sprintf("the description has no media type %q", name)
	}
	if !strings.HasSuffix(name, "json") {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(got.body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil || d.More() {
		return "the answer isn't one JSON document"
	}
	if wrong := f.doc.broken(content.Schema, value, "#"); wrong != "" {
		return "the answer isn't as described: " + wrong
	}
	if name == problemMedia && fmt.Sprint(value.(map[string]any)["status"]) != strconv.Itoa(got.status) {
		return "the problem names another status"
	}
	return ""
}
