package daybook

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckJSON refuses what some database or reader would change or choke on:
// broken JSON, a key twice in one object, \u0000, a lone surrogate, invalid
// UTF-8, and nesting past ArgsDepthMax. The error names the place as a JSON
// pointer and never repeats a value.
func CheckJSON(field string, doc []byte) error {
	p := readers.Get().(*jsonReader)
	defer readers.Put(p)
	*p = jsonReader{field: field, doc: doc, path: p.path[:0], keys: p.keys[:0]}
	err := p.document()
	clear(p.path[:cap(p.path)])
	clear(p.keys[:cap(p.keys)])
	*p = jsonReader{path: p.path[:0], keys: p.keys[:0]}
	if cap(p.keys) > 1000 { // of one odd document; clearing them all costs
		p.keys = nil
	}
	return err
}

// readers are used again: bulk enqueues check many small documents.
var readers = sync.Pool{New: func() any { return new(jsonReader) }}

// Canonical is the form that fingerprints compare: keys sorted, strings
// unescaped, numbers as exact decimals (1, 1.0 and 1e0 are the same;
// 9007199254740993 and 9007199254740992 are not, so this is not RFC 8785).
// An exponent is never expanded. The document must pass CheckJSON.
func Canonical(doc []byte) ([]byte, error) {
	p := jsonReader{field: "args", doc: doc, canon: true}
	if err := p.document(); err != nil {
		return nil, err
	}
	return p.out, nil
}

// jsonReader reads one document in one pass, checking and, if asked, writing
// its canonical form.
type jsonReader struct {
	field string
	doc   []byte
	pos   int
	path  []step
	keys  [][]byte // of the objects around the place, the innermost one's last
	canon bool
	out   []byte

	fields  []string // names that the outermost object may have; nil allows any
	unknown *string  // its first other name
}

// step is one level of where the reader stands: a key, or a place in a list.
type step struct {
	key []byte
	nth int // of a list; -1 in an object
}

func (s step) String() string {
	if s.nth >= 0 {
		return strconv.Itoa(s.nth)
	}
	return string(s.key[:min(len(s.key), pointerMax)])
}

func (p *jsonReader) document() error {
	if err := p.value(0); err != nil {
		return err
	}
	p.space()
	if p.pos != len(p.doc) {
		return p.bad("has something behind the JSON document, at byte %d", p.pos)
	}
	return nil
}

func (p *jsonReader) bad(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if len(p.path) > 0 {
		text = "at " + p.pointer() + ": " + text
	}
	return Invalid(p.field, "%s", text)
}

// pointerMax bounds the JSON pointer in an error, in bytes: its keys are input.
const pointerMax = 256

// pointer is where the reader stands, as a quoted JSON pointer (RFC 6901); a
// long one is cut with a mark.
func (p *jsonReader) pointer() string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range p.path {
		if b.Len() > pointerMax {
			break
		}
		b.WriteByte('/')
		b.WriteString(escape.Replace(step.String()))
	}
	if b.Len() > pointerMax {
		return strconv.QuoteToASCII(b.String()[:pointerMax]) + "…"
	}
	return strconv.QuoteToASCII(b.String())
}

func (p *jsonReader) space() {
	for p.pos < len(p.doc) {
		switch p.doc[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *jsonReader) emit(b ...byte) {
	if p.canon {
		p.out = append(p.out, b...)
	}
}

func (p *jsonReader) value(depth int) error {
	p.space()
	if p.pos == len(p.doc) {
		return p.bad("ends where a JSON value is wanted")
	}
	switch c := p.doc[p.pos]; {
	case (c == '{' || c == '[') && depth == ArgsDepthMax:
		return p.bad("nests deeper than %d", ArgsDepthMax)
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.str()
		if err == nil && p.canon {
			p.out = appendText(p.out, s)
		}
		return err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.doc[p.pos:], []byte(word)) {
			p.pos += len(word)
			p.emit([]byte(word)...)
			return nil
		}
	}
	return p.bad("is not JSON at byte %d", p.pos)
}

func (p *jsonReader) array(depth int) error {
	p.pos++
	p.emit('[')
	p.path = append(p.path, step{})
	defer func() { p.path = p.path[:len(p.path)-1] }()
	for n := 0; ; n++ {
		p.space()
		if n == 0 && p.next(']') {
			break
		}
		p.path[len(p.path)-1].nth = n
		if n > 0 {
			p.emit(',')
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
		p.space()
		if p.next(']') {
			break
		}
		if !p.next(',') {
			return p.bad("wants , or ] at byte %d", p.pos)
		}
	}
	p.emit(']')
	return nil
}

func (p *jsonReader) next(c byte) bool {
	if p.pos < len(p.doc) && p.doc[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// member is one key of an object and where its canonical value lies.
type member struct{ key, value []byte }

func (p *jsonReader) object(depth int) error {
	p.pos++
	seen := keySet{first: len(p.keys)}
	var members []member
	outer := p.out
	p.path = append(p.path, step{nth: -1})
	defer func() { p.path, p.keys = p.path[:len(p.path)-1], p.keys[:seen.first] }()
	for n := 0; ; n++ {
		p.space()
		if n == 0 && p.next('}') {
			break
		}
		key, err := p.key(&seen)
		if err != nil {
			return err
		}
		p.out = nil
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if p.canon {
			members = append(members, member{key, p.out})
		}
		p.space()
		if p.next('}') {
			break
		}
		if !p.next(',') {
			return p.bad("wants , or } at byte %d", p.pos)
		}
	}
	p.out = outer
	if p.canon {
		p.members(members)
	}
	return nil
}

func (p *jsonReader) members(members []member) {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	p.out = append(p.out, '{')
	for i, m := range members {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		p.out = appendText(p.out, m.key)
		p.out = append(append(p.out, ':'), m.value...)
	}
	p.out = append(p.out, '}')
}

// appendText writes a string so that its end can be told, and otherwise as it
// is: a table of characters would change with its version, and with it every
// fingerprint.
func appendText(out, s []byte) []byte {
	out = append(out, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return append(out, '"')
}

// key reads `"name":` and refuses a name that the object has already.
func (p *jsonReader) key(seen *keySet) ([]byte, error) {
	here := &p.path[len(p.path)-1]
	here.key = nil
	if p.pos == len(p.doc) || p.doc[p.pos] != '"' {
		return nil, p.bad("wants a key at byte %d", p.pos)
	}
	key, err := p.str()
	if err != nil {
		return nil, err
	}
	here.key = key
	if !p.isNew(seen, key) {
		return nil, p.bad("has this key twice")
	}
	if p.fields != nil && p.unknown == nil && len(p.path) == 1 && !slices.Contains(p.fields, string(key)) {
		name := string(key)
		p.unknown = &name
	}
	p.space()
	if !p.next(':') {
		return nil, p.bad("wants : at byte %d", p.pos)
	}
	return key, nil
}

// keySet says which keys one object has: those of the reader's keys from first
// on, and, of a large object, a map of them all.
type keySet struct {
	first int
	many  map[string]bool
}

// manyKeys is from how many keys on a map is quicker than a look at them all.
const manyKeys = 16

// isNew adds a key of the innermost object, unless that has it.
func (p *jsonReader) isNew(seen *keySet, key []byte) bool {
	if seen.many != nil {
		if seen.many[string(key)] {
			return false
		}
		seen.many[string(key)] = true
		return true
	}
	few := p.keys[seen.first:]
	for _, k := range few {
		if bytes.Equal(k, key) {
			return false
		}
	}
	p.keys = append(p.keys, key)
	if len(few) == manyKeys {
		seen.many = make(map[string]bool, 2*manyKeys)
		for _, k := range p.keys[seen.first:] {
			seen.many[string(k)] = true
		}
	}
	return true
}

// str reads a string and returns it unescaped; without escapes it is part of
// the document and no copy.
func (p *jsonReader) str() ([]byte, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.doc) {
		switch c := p.doc[p.pos]; {
		case c == '"':
			s := p.doc[start:p.pos]
			p.pos++
			return p.valid(s)
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			return nil, p.bad("has a bare control character in a string at byte %d", p.pos)
		}
		p.pos++
	}
	return nil, p.bad("has a string without an end")
}

func (p *jsonReader) valid(s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return nil, p.bad("has a string that is not UTF-8")
	}
	return s, nil
}

func (p *jsonReader) escaped(start int) ([]byte, error) {
	out := append([]byte(nil), p.doc[start:p.pos]...)
	for p.pos < len(p.doc) {
		c := p.doc[p.pos]
		p.pos++
		switch {
		case c == '"':
			return p.valid(out)
		case c < 0x20:
			return nil, p.bad("has a bare control character in a string at byte %d", p.pos-1)
		case c != '\\':
			out = append(out, c)
			continue
		}
		r, err := p.escape()
		if err != nil {
			return nil, err
		}
		out = utf8.AppendRune(out, r)
	}
	return nil, p.bad("has a string without an end")
}

const simpleEscapes, simpleRunes = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// escape reads what follows a backslash.
func (p *jsonReader) escape() (rune, error) {
	if p.pos == len(p.doc) {
		return 0, p.bad("has a string without an end")
	}
	c := p.doc[p.pos]
	p.pos++
	if i := strings.IndexByte(simpleEscapes, c); i >= 0 {
		return rune(simpleRunes[i]), nil
	}
	if c != 'u' {
		return 0, p.bad("has an unknown escape at byte %d", p.pos-2)
	}
	r, err := p.hex4()
	switch {
	case err != nil:
		return 0, err
	case r == 0:
		return 0, p.bad(`has \u0000, which databases can't store as text`)
	case !utf16.IsSurrogate(r):
		return r, nil
	}
	if p.next('\\') && p.next('u') {
		low, err := p.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, p.bad("has a lone surrogate, which is no character")
}

func (p *jsonReader) hex4() (rune, error) {
	if p.pos+4 > len(p.doc) {
		return 0, p.bad("has a string without an end")
	}
	n, err := strconv.ParseUint(string(p.doc[p.pos:p.pos+4]), 16, 16)
	if err != nil || p.doc[p.pos] == '+' {
		return 0, p.bad(`has a broken \u escape at byte %d`, p.pos)
	}
	p.pos += 4
	return rune(n), nil
}

// number reads -?int frac? exp? and writes it as digits and an exponent.
func (p *jsonReader) number() error {
	start := p.pos
	p.next('-')
	if !p.next('0') && p.digits() == 0 {
		return p.bad("has a broken number at byte %d", start)
	}
	whole := p.pos
	if p.next('.') && p.digits() == 0 {
		return p.bad("has a broken number at byte %d", start)
	}
	frac := p.pos
	if p.next('e') || p.next('E') {
		if !p.next('+') {
			p.next('-')
		}
		if p.digits() == 0 {
			return p.bad("has a broken number at byte %d", start)
		}
	}
	if p.canon {
		p.out = append(p.out, decimal(p.doc[start:whole], p.doc[whole:frac], p.doc[frac:p.pos])...)
	}
	return nil
}

func (p *jsonReader) digits() int {
	start := p.pos
	for p.pos < len(p.doc) && p.doc[p.pos] >= '0' && p.doc[p.pos] <= '9' {
		p.pos++
	}
	return p.pos - start
}

// decimal writes sign, digits without zeros at either end, and the exponent
// that places the last digit. The exponent may be longer than any machine
// integer and is only ever added to.
func decimal(whole, frac, exp []byte) string {
	sign := ""
	if whole[0] == '-' {
		sign, whole = "-", whole[1:]
	}
	digits := string(whole)
	shift := 0
	if len(frac) > 0 {
		digits += string(frac[1:])
		shift = -(len(frac) - 1)
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	trimmed := strings.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	if len(exp) == 0 {
		return sign + trimmed + "e" + strconv.Itoa(shift)
	}
	return sign + trimmed + "e" + addDecimal(string(exp[1:]), shift)
}

// addDecimal adds n, which is far below 2^40 either way, to a decimal integer
// of any length. A long one is never turned into a number, which would cost
// its length squared: all but its last digits stay as they are, unless the sum
// carries into them.
func addDecimal(e string, n int) string {
	const tail = 15 // digits that are computed; 10^15 is above 2^40 and fits an int
	negative := strings.HasPrefix(e, "-")
	e = strings.TrimLeft(strings.TrimLeft(e, "+-"), "0")
	if len(e) <= tail {
		low, _ := strconv.Atoi("0" + e)
		if negative {
			low = -low
		}
		return strconv.Itoa(low + n)
	}
	if negative {
		n = -n // add to the magnitude
	}
	head := []byte(e[:len(e)-tail])
	low, _ := strconv.Atoi(e[len(e)-tail:])
	low += n
	const limit = 1_000_000_000_000_000
	switch {
	case low >= limit:
		low -= limit
		head = carry(head, '9', '0', +1)
	case low < 0:
		low += limit
		head = carry(head, '0', '9', -1)
	}
	sum := strings.TrimLeft(string(head)+fmt.Sprintf("%0*d", tail, low), "0")
	if negative {
		return "-" + sum
	}
	return sum
}

// carry adds 1 or -1 to decimal digits: trailing digits that wrap turn into
// their other end, and the first that doesn't moves by one.
func carry(digits []byte, wraps, into byte, by int) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] != wraps {
			digits[i] += byte(by)
			return digits
		}
		digits[i] = into
	}
	return append([]byte{'1'}, digits...)
}
