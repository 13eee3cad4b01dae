package daybook

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// TestL34Fingerprints: the same document in other words is the same request,
// and a different number never is (mojaloop/project #2463). The numbers are
// exact decimals: this is not RFC 8785.
func TestL34Fingerprints(t *testing.T) {
	nines := strings.Repeat("9", 40)
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{`{"a":{"x":[1,{"p":1,"q":2}]}}`, ` { "a" : {"x":[ 1 , {"q":2,"p":1}]} } `, true},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":{"b":1}}`, `{"a":1,"b":1}`, false},
		{`1`, `1.0`, true}, {`1`, `1e0`, true}, {`1`, `10e-1`, true}, {`1`, `0.1e+1`, true}, {`1.0`, `1.00`, true},
		{`100`, `1e2`, true}, {`100`, `1E+02`, true}, {`0.001`, `1e-3`, true},
		{`0`, `-0`, true}, {`0`, `0.000`, true}, {`0`, `0e99999999999999999999`, true},
		{`1`, `-1`, false}, {`1`, `1.0000000000000000000000001`, false}, {`1`, `"1"`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`9007199254740993`, `9007199254740993.0`, true},
		{`0.1`, `0.1000000000000000055511151231257827`, false},
		{`1e400`, `1e401`, false}, {`1e400`, `10e399`, true},
		{`1e999999999999999999999999`, `10e999999999999999999999998`, true},
		{`1e-999999999999999999999999`, `0.1e-999999999999999999999998`, true},
		{`1e` + nines, `0.1e1` + strings.Repeat("0", 40), true},
		{`1e` + nines, `1e-` + nines, false},
		{`1e` + nines, `1e0000` + nines, true},
		{`"\u00e9"`, `"é"`, true}, {`"\/"`, `"/"`, true}, {`"\ud83d\ude00"`, `"😀"`, true},
		{`"é"`, `"e\u0301"`, false}, {`"a"`, `"A"`, false}, {`""`, `null`, false},
		{`"\\u0041"`, `"A"`, false}, {`"\u0041"`, `"A"`, true}, {`"\ufffd"`, `"�"`, true},
		{`{"\u0061":1}`, `{"a":1}`, true},
		{`true`, `"true"`, false}, {`[]`, `{}`, false}, {`[[]]`, `[]`, false},
	} {
		a, b := mustFingerprint(t, tt.a), mustFingerprint(t, tt.b)
		if got := a == b; got != tt.same {
			t.Errorf("%.60s and %.60s: same is %v, want %v", tt.a, tt.b, got, tt.same)
		}
	}
}

func mustFingerprint(t *testing.T, args string) Fingerprint {
	t.Helper()
	f, err := FingerprintOf("q", "k", []byte(args))
	if err != nil {
		t.Fatalf("%.60s: %v", args, err)
	}
	return f
}

// Queue and kind count, and can't run into each other.
func TestFingerprintOfQueueAndKind(t *testing.T) {
	seen := map[Fingerprint]string{}
	for _, r := range [][3]string{{"q", "k", `1`}, {"q", "k", `2`}, {"q2", "k", `1`}, {"q", "k2", `1`}, {"qk",
		"k", `1`},
		{"q", "kk", `1`}, {"k", "q", `1`}} {
		f, err := FingerprintOf(r[0], r[1], []byte(r[2]))
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[f]; twice {
			t.Errorf("%v and %s have one fingerprint", r, other)
		}
		seen[f] = strings.Join(r[:], " ")
	}
}

// A fingerprint is kept for as long as its key: this one must never change
// within version 1.
func TestFingerprintIsStable(t *testing.T) {
	canonical, err := Canonical([]byte(`{"b":[1.50,"é\n",true,null],"a":{}}`))
	if got, want := string(canonical), "{\"a\":{},\"b\":[15e-1,\"é\n\",true,null]}"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	f := mustFingerprint(t, `{"b":[1.50,"é\n",true,null],"a":{}}`)
	if got, want := hex.EncodeToString(f[:8]), "58cd719ec6ec6f24"; got != want {
		t.Errorf("the fingerprint begins with %s, want %s", got, want)
	}
}

// A huge exponent costs its length, not its value, nor its length squared.
func TestHugeExponents(t *testing.T) {
	for _, e := range []string{"0", "7", "-7", "999999999999999", "-999999999999999", "1000000000000000",
		"-1000000000000000",
		"+1000000000000001", "9999999999999999", "99999999999999999999", "-99999999999999999999",
		"100000000000000000000", "-100000000000000000000", "1" + strings.Repeat("0", 60),
		"-1" + strings.Repeat("0", 60),
		strings.Repeat("9", 60), "-" + strings.Repeat("9", 60), "000" + strings.Repeat("9", 30),
		"123456789012345678901234567890"} {
		for _, n := range []int{0, 1, -1, 5, -5, 1 << 20, -1 << 20} {
			sum, _ := new(big.Int).SetString(strings.TrimPrefix(e, "+"), 10)
			want := sum.Add(sum, big.NewInt(int64(n))).String()
			if got := addDecimal(e, n); got != want {
				t.Errorf("%s + %d: got %s, want %s", e, n, got, want)
			}
		}
	}
	doc := "1e" + strings.Repeat("7", ArgsMax-2)
	got, err := Canonical([]byte(doc))
	if err != nil || string(got) != doc {
		t.Errorf("an exponent of %d digits: %.40s, %v", ArgsMax-2, got, err)
	}
}

// TestL22CheckJSON: what some database or reader would change or choke on is
// refused with its place, and nothing else is (hardbyte/awa #85).
func TestL22CheckJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct{ doc, want string }{
		{`{"a":"\u0000"}`, `args: at "/a": has \u0000, which databases can't store as text`},
		{`{"a":[1,{"b":"x\u0000"}]}`, `args: at "/a/1/b": has \u0000, which databases can't store as text`},
		{`{"a":{"k\u0000":1}}`, `args: at "/a/": has \u0000, which databases can't store as text`},
		{`"\u0000"`, `args: has \u0000, which databases can't store as text`},
		{`{"a":"\\u0000"}`, ``},
		{`{"a":"\\\\u0000"}`, ``},
		{`{"a":"\\\u0000"}`, `args: at "/a": has \u0000, which databases can't store as text`},
		{`{"a":1,"a":2}`, `args: at "/a": has this key twice`},
		{`{"a":1,"b":{},"\u0061":2}`, `args: at "/a": has this key twice`},
		{`[{},{"x":{"y/z~":1,"y/z~":1}}]`, `args: at "/1/x/y~1z~0": has this key twice`},
		{`{"a":{"b":1},"b":{"a":1}}`, ``},
		{`["\ud800"]`, `args: at "/0": has a lone surrogate, which is no character`},
		{`["\udc00"]`, `args: at "/0": has a lone surrogate, which is no character`},
		{`["\ud800\n"]`, `args: at "/0": has a lone surrogate, which is no character`},
		{`["\ud800\ud800"]`, `args: at "/0": has a lone surrogate, which is no character`},
		{`["\ude00\ud83d"]`, `args: at "/0": has a lone surrogate, which is no character`},
		{`["\uD83D\uDE00"]`, ``},
		{"[\"\xff\"]", `args: at "/0": has a string that is not UTF-8`},
		{"[\"a\\n\xc3\"]", `args: at "/0": has a string that is not UTF-8`},
		{"{\"\xff\":1}", `args: at "/": has a string that is not UTF-8`},
		{deep(ArgsDepthMax), ``},
		{deep(ArgsDepthMax + 1), `nests deeper than 512`},
		{strings.Repeat(`{"a":`, 100_000), `nests deeper than 512`},
		{``, `args: ends where a JSON value is wanted`},
		{` `, `args: ends where a JSON value is wanted`},
		{`{} x`, `args: has something behind the JSON document, at byte 3`},
		{`{"a":1,}`, `args: at "/": wants a key at byte 7`},
		{`{"a" 1}`, `args: at "/a": wants : at byte 5`},
		{`{"a":1 "b":2}`, `args: at "/a": wants , or } at byte 7`},
		{`{a:1}`, `args: at "/": wants a key at byte 1`},
		{`[1 2]`, `args: at "/0": wants , or ] at byte 3`},
		{`[1,]`, `args: at "/1": is not JSON at byte 3`},
		{`'a'`, `args: is not JSON at byte 0`}, {`nul`, `args: is not JSON at byte 0`}, {`NaN`,
			`args: is not JSON at byte 0`},
		{`01`, `args: has something behind the JSON document, at byte 1`},
		{`-`, `args: has a broken number at byte 0`}, {`1.`, `args: has a broken number at byte 0`},
		{`1.e1`, `args: has a broken number at byte 0`}, {`[1e+]`, `args: at "/0": has a broken number at byte 1`},
		{`"a`, `args: has a string without an end`}, {`"\`, `args: has a string without an end`},
		{`"\u12`, `args: has a string without an end`}, {`"\n`, `args: has a string without an end`},
		{`"\x"`, `args: has an unknown escape at byte 1`}, {`"\u+123"`, `args: has a broken \u escape at byte 3`},
		{"\"\n\"", `args: has a bare control character in a string at byte 1`},
		{"\"\\t\n\"", `args: has a bare control character in a string at byte 3`},
		{"\ufeff{}", `args: is not JSON at byte 0`},
		{`{"":1}`, ``}, {`{"":1,"":1}`, `args: at "/": has this key twice`},
		{" \t\r\n[ ] ", ``}, {`"\"\\\/\b\f\n\r\t\u007f"`, ``},
	} {
		err := CheckJSON("args", []byte(tt.doc))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && !(strings.HasPrefix(tt.want, "nests") && strings.HasSuffix(got, tt.want)) {
			t.Errorf("%.60q:\ngot  %s\nwant %s", tt.doc, got, tt.want)
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%.60q: got code %s, want invalid", tt.doc, CodeOf(err))
		}
		if valid := json.Valid([]byte(tt.doc)); !valid && err == nil {
			t.Errorf("%.60q: accepted what isn't JSON", tt.doc)
		}
	}
}

// An object with many keys is checked as strictly as a small one, in linear
// time.
func TestManyKeys(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{`)
	for i := range 50_000 {
		b.WriteString(`"key` + strconv.Itoa(i) + `":0,`)
	}
	if err := CheckJSON("args", []byte(b.String()+`"last":0}`)); err != nil {
		t.Error(err)
	}
	err := CheckJSON("args", []byte(b.String()+`"key31":0}`))
	if err == nil || err.Error() != `args: at "/key31": has this key twice` {
		t.Errorf("a key twice among 50,000: %v", err)
	}
}

// An error is one short line whatever the document's keys are.
func TestErrorPathsAreBounded(t *testing.T) {
	long := strings.Repeat("k", 100_000)
	for _, doc := range []string{
		`{"` + long + `":1,"` + long + `":1}`,
		strings.Repeat(`{"`+strings.Repeat("é", 100)+`":`, 400) + `"\u0000"`,
		`{"a\u000ab\u202e":{"x":"\u0000"}}`,
	} {
		err := CheckJSON("args", []byte(doc))
		if err == nil {
			t.Fatalf("%.40s: accepted", doc)
		}
		text := err.Error()
		if len(text) > 4*pointerMax || strings.ContainsAny(text, "\n\u202e") {
			t.Errorf("%.40s: an error of %d bytes: %.200q", doc, len(text), text)
		}
	}
}
