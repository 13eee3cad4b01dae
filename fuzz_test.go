package daybook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// jsonSeeds are documents near the edges of what is accepted.
var jsonSeeds = []string{
	`{"a":1,"b":[true,null,"x"]}`, `{"a":"\u0000"}`, `{"a":"\\u0000"}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
	`["\ud83d\ude00"]`,
	`["\ud800"]`, "[\"\xff\"]", `1e999999999999999999999`, `-0.000e-0`, `9007199254740993`, `[[[[[[]]]]]]`,
	`{"":{"":{}}}`, ` "x" `, `01`,
	`{"a":1,}`, `"\`, `"\u12`, `nul`, ``, "\"\n\"", `{"queue":"q","kind":"k","args":{"n":1.50}}`,
	`"\"\\\/\b\f\n\r\t"`,
}

// refusable says, by other means than the checker's, whether a valid document
// holds something that the checker is there to refuse.
func refusable(t *testing.T, doc []byte) bool {
	if !utf8.Valid(doc) || bytes.Contains(doc, []byte(`\u0000`)) ||
		bytes.Contains(bytes.ToLower(doc), []byte(`\ud`)) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	type frame struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []frame
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			return true // nested too deep for the decoder
		}
		top := len(stack) - 1
		switch v := tok.(type) {
		case json.Delim:
			switch v {
			case '{':
				stack = append(stack, frame{keys: map[string]bool{}, key: true})
			case '[':
				stack = append(stack, frame{})
			default:
				stack = stack[:top]
			}
			if len(stack) > ArgsDepthMax {
				return true
			}
			if v == '{' || v == '[' {
				continue
			}
		case string:
			if top >= 0 && stack[top].key {
				if stack[top].keys[v] {
					return true
				}
				stack[top].keys[v], stack[top].key = true, false
				continue
			}
		}
		if top = len(stack) - 1; top >= 0 && stack[top].keys != nil {
			stack[top].key = true
		}
	}
}

// FuzzCheckJSON: the checker accepts exactly the JSON documents that hold
// nothing of what it refuses.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := CheckJSON("args", doc)
		switch valid := json.Valid(doc); {
		case !valid && err == nil:
			t.Fatalf("accepted what isn't JSON: %q", doc)
		case valid && err != nil && !refusable(t, doc):
			t.Fatalf("refused %q: %v", doc, err)
		case valid && err == nil && refusable(t, doc) && !bytes.Contains(bytes.ToLower(doc), []byte(`\ud`)) &&
			!bytes.Contains(doc, []byte(`\\u0000`)):
			t.Fatalf("accepted %q", doc)
		}
		if err != nil && (!errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%q: the error is %q", doc, err)
		}
	})
}

// FuzzCanonical: a document that passes the check has a canonical form, and
// writing it another way doesn't change it.
func FuzzCanonical(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		canonical, err := Canonical(doc)
		if (err == nil) != (CheckJSON("args", doc) == nil) {
			t.Fatalf("%q: check and canonical form disagree: %v", doc, err)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		// Keys sorted, other escapes and spaces, numbers as they were.
		rewritten, err := json.MarshalIndent(v, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		again, err := Canonical(rewritten)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%q is %s, and rewritten as %q it is %s, %v", doc, canonical, rewritten, again, err)
		}
	})
}

// FuzzDecodeRequest: whatever comes in, the answer is a request whose args are
// part of the input, or one line that says what is wrong.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
		f.Add([]byte(`{"queue":"q","kind":"k","key":"k1","run_at":"2027-01-02T03:04:05Z","args":` + s + `}`))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := DecodeRequest(doc)
		if err == nil {
			_, err = r.Prepare()
			if len(r.Args) > 0 && !bytes.Contains(doc, r.Args) {
				t.Fatalf("%q: args became %q", doc, r.Args)
			}
			if again, err2 := DecodeRequest(doc); err2 != nil || asJSON(t, again) != asJSON(t, r) {
				t.Fatalf("%q: the second time %+v, %v", doc, again, err2)
			}
		}
		if err == nil {
			return
		}
		switch CodeOf(err) {
		case CodeInvalid, CodeMalformed, CodeTooLarge:
		default:
			t.Fatalf("%q: got code %s", doc, CodeOf(err))
		}
		if text := err.Error(); strings.ContainsAny(text, "\n\x00") || len(text) > 2000 || !utf8.ValidString(text) {
			t.Fatalf("%q: the error is %q", doc, text)
		}
	})
}

// FuzzProblem: whatever a handler says, it can be stored.
func FuzzProblem(f *testing.F) {
	for _, s := range []string{"", "boom", "boom\x00", "a\xffb", "\xed\xa0\x80", strings.Repeat("é", ErrorMax),
		strings.Repeat("\x80", ErrorMax+9),
		strings.Repeat("\x00", ErrorMax)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := NewProblem(text, text, text)
		checkStorable(t, "text", p.Text, ErrorMax)
		checkStorable(t, "kind", p.Kind, NameMax)
		checkStorable(t, "trace", p.Trace, ErrorMax)
		clean := len(text) <= NameMax && utf8.ValidString(text) && !strings.Contains(text, "\x00")
		if clean && (p.Cut || p.Text != text || p.Kind != text || p.Trace != text) {
			t.Fatalf("%q was changed into %+v", text, p)
		}
		if len(text) > ErrorMax && (!p.Cut || !strings.HasSuffix(p.Text, cutMark)) {
			t.Fatalf("%d bytes were cut without a mark", len(text))
		}
		if again := NewProblem(p.Text, p.Kind, p.Trace); again.Text != p.Text || again.Kind != p.Kind || again.Cut {
			t.Fatalf("cleaning twice changes it: %+v", again)
		}
	})
}

// FuzzKey: a key that passes is kept as it came and can stand in one line of
// a log; names are safe in a URL too.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "a1", `"a1"`, "schlüssel", "a\x00", "\x1b[31m", "\xff",
		strings.Repeat("k", KeyMax+1), "a.b_c-d:9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		r := Request{Queue: "q", Kind: "k", Key: key}
		n, err := r.Prepare()
		good := len(key) <= KeyMax && utf8.ValidString(key) &&
			strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
		if (err == nil) != good {
			t.Fatalf("%q: got %v, want ok %v", key, err, good)
		}
		if err == nil && n.Job.Key != key {
			t.Fatalf("%q became %q", key, n.Job.Key)
		}
		if err := CheckName("queue", key); err == nil {
			if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:") != "" ||
				len(key) > NameMax || key == "" {
				t.Fatalf("%q passes as a name", key)
			}
		} else if len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Fatalf("%q: the error is %q", key, err)
		}
	})
}
