package postgres

import (
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// canonOf connects to a book for documents to be read by both languages.
func canonOf(t *testing.T) (*pgx.Conn, schema) {
	t.Helper()
	name := bookName("")
	openBook(t, pgtest.SharedURL(t), name, Options{})
	return connect(t, pgtest.SharedURL(t)), schema(name)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

// The server's own refusals: of what isn't JSON, of what isn't UTF-8 or has a
// NUL, of nesting that its parser doesn't bear.
var beforeUs = map[string]bool{"22P02": true, "22P05": true, "22021": true, "54001": true}

// sameCanon fails unless SQL reads the document as Go does: the same canonical
// form and fingerprint, or both refuse it, in the same words unless the server
// refused before our function came to it.
func sameCanon(t *testing.T, conn *pgx.Conn, s schema, doc string) {
	t.Helper()
	wantForm, wantErr := daybook.Canonical([]byte(doc))
	want, _ := daybook.FingerprintOf("q", "k", []byte(doc))
	var form, fingerprint string
	err := conn.QueryRow(t.Context(), s.in(`SELECT daybook.canonical('args', $1::text::json),
		encode(daybook.fingerprint('q', 'k', $1::text::json), 'hex')`), doc).Scan(&form, &fingerprint)
	var refused *pgconn.PgError
	switch {
	case err != nil && !errors.As(err, &refused):
		t.Fatalf("%.80q: %v", doc, err)
	case err != nil && wantErr == nil:
		t.Fatalf("%.80q: SQL refuses with %s %s, Go accepts", doc, refused.Code, refused.Message)
	case err == nil && wantErr != nil:
		t.Fatalf("%.80q: SQL accepts, Go refuses: %v", doc, wantErr)
	case err != nil && refused.Code != stateInvalid && !(beforeUs[refused.Code] && isNoJSON(t, conn, doc)):
		t.Fatalf("%.80q: SQLSTATE %s %s", doc, refused.Code, refused.Message)
	case err != nil && refused.Code == stateInvalid && refused.Message != wantErr.Error() && oneProblem(doc, wantErr):
		t.Fatalf("%.80q:\nSQL %s\nGo  %s", doc, refused.Message, wantErr)
	case err == nil && form != string(wantForm):
		t.Fatalf("%.80q:\nSQL %.200s\nGo  %.200s", doc, form, wantForm)
	case err == nil && fingerprint != hex.EncodeToString(want[:]):
		t.Fatalf("%.80q: fingerprint %s, Go %x", doc, fingerprint, want)
	}
}

// isNoJSON reports whether PostgreSQL's own type refuses the document.
func isNoJSON(t *testing.T, conn *pgx.Conn, doc string) bool {
	_, err := conn.Exec(t.Context(), "SELECT $1::text::json", doc)
	return err != nil
}

// oneProblem tells documents of which both must name the same problem: those
// with one alone, and in a place whose name needs no escapes. (SQL looks for a
// key twice when the object ends.)
func oneProblem(doc string, err error) bool {
	problems := strings.Count(doc, `\u0000`) + strings.Count(strings.ToLower(doc), `\ud`)
	if strings.Contains(err.Error(), "this key twice") {
		problems += strings.Count(doc, "{")
	}
	return problems < 2 && len(doc) < 200 && strings.IndexFunc(doc, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// rootDocuments are the string literals of the domain's own tests of Canonical:
// documents, most of them, and words that aren't.
func rootDocuments(t *testing.T) (docs []string) {
	t.Helper()
	for _, name := range []string{"../../canon_test.go", "../../fuzz_test.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				doc, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				docs = append(docs, doc)
			}
			return true
		})
	}
	if len(docs) < 150 {
		t.Fatalf("found %d documents in the domain's tests", len(docs))
	}
	return docs
}

// TestCanonOfTheDomain: what the domain's tests read, SQL reads the same.
func TestCanonOfTheDomain(t *testing.T) {
	conn, s := canonOf(t)
	for _, doc := range rootDocuments(t) {
		sameCanon(t, conn, s, doc)
	}
	nines, zeros := strings.Repeat("9", 60), strings.Repeat("0", 60)
	for _, e := range []string{"0", "-0", "+7", "999999999999999", "-999999999999999", "1000000000000000",
		"-1000000000000000", "+1000000000000001", "9999999999999999", "1" + zeros, "-1" + zeros, nines, "-" + nines,
		"000" + nines} {
		for _, digits := range []string{"1", "1.5", "100", "0.001", "0.0", "-12.30", "1" + zeros, "0." + zeros + "1"} {
			sameCanon(t, conn, s, digits+"e"+e)
		}
	}
	for _, doc := range []string{"1e" + strings.Repeat("7", 100_000), strings.Repeat("9", 100_000),
		"0." + strings.Repeat("0", 100_000) + "1", `{"a":` + strings.Repeat(`[`, 511) + strings.Repeat(`]`, 511) + `}`,
		strings.Repeat(`{"a":`, 513) + `1` + strings.Repeat(`}`, 513), strings.Repeat(`[`, 512) + strings.Repeat(`]`, 512),
		strings.Repeat(`{"é":`, 513) + `1` + strings.Repeat(`}`, 513), `"` + strings.Repeat("é\\n", 50_000) + `"`,
		`["\u0000\ud800"]`, `["\ud800\u0000"]`, `["\ud83d\ud83d\ude00"]`, `["\\ud800","\\\ud800"]`, `{"\ud800":1}`,
		`["\uD83D\uDE00"]`,
	} {
		sameCanon(t, conn, s, doc)
	}
}

// TestCanonOfEveryCharacter: a string of any characters is kept as it is.
func TestCanonOfEveryCharacter(t *testing.T) {
	conn, s := canonOf(t)
	var b strings.Builder
	add := func(r rune) {
		switch {
		case r < 0x20 || r == '"' || r == '\\':
			fmt.Fprintf(&b, `\u%04x`, r)
		case utf8.ValidRune(r):
			b.WriteRune(r)
		}
	}
	for r := rune(1); r < 0x3000; r++ {
		add(r)
	}
	for r := rune(0x3000); r <= utf8.MaxRune; r += 97 {
		add(r)
	}
	add(utf8.MaxRune)
	sameCanon(t, conn, s, `"`+b.String()+`"`)
}

// TestCanonFuzz: random documents, and random damage to them.
func TestCanonFuzz(t *testing.T) {
	conn, s := canonOf(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := fuzzer{rand.New(rand.NewPCG(seed, 0))}
	for range 1500 {
		doc := f.document(0)
		sameCanon(t, conn, s, doc)
		sameCanon(t, conn, s, f.damaged(doc))
	}
}

// fuzzer makes documents near the edges of what is accepted.
type fuzzer struct{ *rand.Rand }

func (f fuzzer) pick(list ...string) string { return list[f.IntN(len(list))] }

func (f fuzzer) document(depth int) string {
	space := f.pick("", "", "", " ", "\n", "\t", " \r\n ")
	switch n := f.IntN(10); {
	case n < 2 && depth < 6:
		return space + "[" + f.list(depth, func() string { return f.document(depth + 1) }) + "]" + space
	case n < 6 && depth < 6:
		member := func() string { return f.text() + space + ":" + f.document(depth+1) }
		return space + "{" + f.list(depth, member) + "}" + space
	case n < 8:
		return space + f.number() + space
	case n < 9:
		return space + f.text()
	}
	return f.pick("true", "false", "null", "{}", "[]")
}

func (f fuzzer) list(depth int, item func() string) string {
	items := make([]string, f.IntN(6-depth+1))
	for i := range items {
		items[i] = item()
	}
	return strings.Join(items, ",")
}

func (f fuzzer) number() string {
	digits := func(most int) string {
		n := f.IntN(most) + 1
		b := make([]byte, n)
		for i := range b {
			b[i] = f.pick("0", "0", "9", "9", "1", "5")[0]
		}
		return string(b)
	}
	whole := strings.TrimLeft(digits(24), "0")
	if whole == "" {
		whole = "0"
	}
	number := f.pick("", "-") + whole
	if f.IntN(2) == 0 {
		number += "." + digits(24)
	}
	if f.IntN(2) == 0 {
		number += f.pick("e", "E") + f.pick("", "+", "-") + digits(40)
	}
	return number
}

// text is a string; few of them, so that keys meet again in other words.
func (f fuzzer) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range f.IntN(4) {
		b.WriteString(f.pick("a", "b", "a", "b", "Z", "é", "e\u0301", "ß", "日", "😀", "\u2028", "\u202e", "\u00ad",
			"\ufffd", "\x7f", "\ue000", `\n`, `\"`, `\\`, `\/`, `\b`, `\f`, `\r`, `\t`, `\u0061`, `\u00e9`, `\u00E9`,
			`\ud83d\ude00`, `\u001f`, `\u000b`, `\u0007`, `\\u0000`, `\u2028`, `\uFFFF`, `\u0378`))
		if f.IntN(60) == 0 {
			b.WriteString(f.pick(`\u0000`, `\ud800`, `\udc00`, `\ude00\ud83d`, `\ud83d\u0041`))
		}
	}
	b.WriteByte('"')
	return b.String()
}

// damaged changes a few bytes.
func (f fuzzer) damaged(doc string) string {
	b := []byte(doc)
	for range f.IntN(3) + 1 {
		if len(b) == 0 {
			break
		}
		at := f.IntN(len(b))
		switch f.IntN(4) {
		case 0:
			b = append(b[:at], b[at+1:]...)
		case 1:
			more := f.pick(`"`, `\`, `{`, `]`, `,`, `:`, `0`, `e`, `-`, `u`, "\x00", "\xff")
			b = slices.Insert(b, at, []byte(more)...)
		case 2:
			b[at] = byte(f.IntN(256))
		default:
			b = append(b, b[at:min(len(b), at+f.IntN(20))]...)
		}
	}
	return string(b)
}
