package httpapi

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// decode reads a body into a value, strictly: unknown fields, fields given twice
// and values of another type are refused by their place. Go's own decoder takes
// "Queue" for "queue" and the last of two; its errors don't say where in a list.
// Raw documents inside stay byte for byte.
func decode(doc []byte, to any) *Problem {
	if !utf8.Valid(doc) {
		return problem(daybook.CodeMalformed, "the body is not UTF-8")
	}
	if !json.Valid(doc) {
		return broken(doc)
	}
	d := decoder{doc: doc}
	return d.value(reflect.ValueOf(to).Elem(), place{}, spot{})
}

// broken says where a body is no JSON document, or has more behind it.
func broken(doc []byte) *Problem {
	var first json.RawMessage
	if json.NewDecoder(bytes.NewReader(doc)).Decode(&first) == nil {
		return problem(daybook.CodeMalformed, "the body has something behind its JSON document")
	}
	at := int64(len(doc))
	if e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(doc, &first)); ok {
		at = e.Offset
	}
	return problem(daybook.CodeMalformed, "the body is not JSON, at byte "+strconv.FormatInt(at, 10))
}

// decoder walks over a document that is JSON. It is our own, since a batch has a
// thousand rows: with the standard library's tokens, reading outcomes was a tenth of
// all that server, database and clients did.
type decoder struct {
	doc []byte
	pos int
}

// next is the first byte of what comes next.
func (d *decoder) next() byte {
	for {
		switch c := d.doc[d.pos]; c {
		case ' ', '\n', '\t', '\r', ',', ':':
			d.pos++
		default:
			return c
		}
	}
}

// raw steps over the value that comes next.
func (d *decoder) raw() json.RawMessage {
	c, begin, depth := d.next(), d.pos, 0
	for {
		switch c {
		case '"':
			d.quoted()
		case '{', '[':
			depth++
			d.pos++
		case '}', ']':
			depth--
			d.pos++
		default:
			for d.pos < len(d.doc) && !bytes.ContainsRune(ends, rune(d.doc[d.pos])) {
				d.pos++
			}
		}
		if depth == 0 {
			return d.doc[begin:d.pos:d.pos]
		}
		c = d.next()
	}
}

// ends are the bytes that a number, true, false or null may stand before.
var ends = []byte(" \n\t\r,:]}")

// quoted steps over a string.
func (d *decoder) quoted() {
	for d.pos++; d.doc[d.pos] != '"'; d.pos++ {
		if d.doc[d.pos] == '\\' {
			d.pos++
		}
	}
	d.pos++
}

// name is the next name of an object's field.
func (d *decoder) name() string {
	raw := d.raw()
	if text, ok := plain(raw); ok {
		return string(text)
	}
	var name string
	_ = json.Unmarshal(raw, &name) // it is a string
	return name
}

// plain is the text of a string without escapes.
func plain(raw []byte) ([]byte, bool) {
	if raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// spot is where in a body something stands, written out only for a refusal.
type spot struct {
	up   *spot
	name string // of a field; "" in a list
	n    int
}

func (s *spot) String() string {
	switch {
	case s.up == nil:
		return "#"
	case s.name == "":
		return s.up.String() + "/" + strconv.Itoa(s.n)
	}
	return s.up.String() + "/" + s.name
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value reads one value, which stands in a field unless f is empty.
func (d *decoder) value(v reflect.Value, f place, at spot) *Problem {
	t := v.Type()
	switch {
	case t == rawType || reflect.PointerTo(t).Implements(textType):
	case t.Kind() == reflect.Struct:
		return d.object(v, at)
	case t.Kind() == reflect.Slice:
		return d.list(v, at)
	}
	raw := d.raw()
	if common(v, t, raw) {
		return nil
	}
	if f.required && string(raw) == "null" && t != rawType {
		return wrongType(t, raw, at.String())
	}
	text := t.Kind() == reflect.String || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.String
	if text && !f.mended && halfCharacter(raw) {
		return problem(daybook.CodeInvalid,
			field(at.String())+"has a lone surrogate, which is no character").at(at.String())
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		text, _ := clean(e)
		return problem(daybook.CodeInvalid, field(at.String())+text).at(at.String())
	}
	return wrongType(t, raw, at.String())
}

var idType = reflect.TypeFor[daybook.ID]()

// common reads what most rows are made of: ids, documents, plain strings and whole
// numbers. What it can't read is another's.
func common(v reflect.Value, t reflect.Type, raw json.RawMessage) bool {
	switch t {
	case rawType:
		v.SetBytes(bytes.Clone(raw))
		return true
	case idType:
		if text, ok := plain(raw); ok {
			return v.Addr().Interface().(*daybook.ID).UnmarshalText(text) == nil
		}
		return false
	}
	switch t.Kind() {
	case reflect.String:
		if text, ok := plain(raw); ok && !reflect.PointerTo(t).Implements(textType) {
			v.SetString(string(text))
			return true
		}
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(string(raw), 10, t.Bits())
		if err == nil && !reflect.PointerTo(t).Implements(textType) {
			v.SetInt(n)
			return true
		}
	}
	return false
}

// field is a place's last name, before what is said of it.
func field(at string) string {
	name := at[strings.LastIndexByte(at, '/')+1:]
	if name == "#" {
		return "the body "
	}
	return name + ": "
}

// halfCharacter reports whether a string of JSON has half of a pair of \u escapes
// that only together are a character. Go's decoder puts another one in its place.
func halfCharacter(raw []byte) bool {
	unit := func(at int) rune { // that an escape names, or -1
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for at := 0; at < len(raw); at++ {
		if raw[at] != '\\' {
			continue
		}
		switch r := unit(at); {
		case !utf16.IsSurrogate(r):
			at++ // what is escaped isn't looked at
		case utf16.DecodeRune(r, unit(at+6)) == utf8.RuneError:
			return true
		default:
			at += 11
		}
	}
	return false
}

func wrongType(t reflect.Type, raw json.RawMessage, at string) *Problem {
	wants := "another value"
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[daybook.ID]():
		wants = "a UUID as a string"
	case t.Kind() == reflect.String:
		wants = "a string"
	case t.Kind() == reflect.Bool:
		wants = "true or false"
	case t.Kind() == reflect.Float64:
		wants = "a number"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		wants = "a whole number"
	case t.Kind() == reflect.Slice:
		wants = "a list"
	case t.Kind() == reflect.Struct:
		wants = "a JSON object"
	}
	text := "wants " + wants + ", got " + kindOf(raw)
	return problem(daybook.CodeInvalid, field(at)+text).at(at)
}

// kindOf says what sort of value a document is.
func kindOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "a JSON object"
	case '[':
		return "a list"
	case '"':
		return "another string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "another number"
}

func (d *decoder) object(v reflect.Value, at spot) *Problem {
	if null, p := d.open('{', v.Type(), at); null || p != nil {
		return p
	}
	places, seen := placesOf(v.Type()), uint64(0)
	for d.next() != '}' {
		name := d.name()
		f, known := places[name]
		in := spot{up: &at, name: name}
		switch {
		case !known && daybook.CheckName("", name) == nil:
			return problem(daybook.CodeInvalid, name+" is not a field here").at(in.String())
		case !known:
			return problem(daybook.CodeInvalid, "there is a field that is none here").at(at.String())
		case seen&f.bit != 0:
			return problem(daybook.CodeInvalid, name+" is given twice").at(in.String())
		}
		seen |= f.bit
		to := v.FieldByIndex(f.index)
		if p := d.value(to, f, in); p != nil {
			return p
		}
		if f.filled && to.IsZero() {
			return problem(daybook.CodeInvalid, name+": is empty; leave it out for any").at(in.String())
		}
	}
	d.pos++
	return nil
}

func (d *decoder) list(v reflect.Value, at spot) *Problem {
	if null, p := d.open('[', v.Type(), at); null || p != nil {
		return p
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list isn't none
	for n := 0; d.next() != ']'; n++ {
		if n == daybook.BatchMax {
			return problem(daybook.CodeTooLarge,
				field(at.String())+"at most "+strconv.Itoa(daybook.BatchMax)+" in one list, got more").at(at.String())
		}
		v.Grow(1)
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		if p := d.value(v.Index(n), place{}, spot{up: &at, n: n}); p != nil {
			return p
		}
	}
	d.pos++
	return nil
}

// open reads the first byte of an object or list. Null is none.
func (d *decoder) open(wants byte, t reflect.Type, at spot) (null bool, p *Problem) {
	switch got := d.next(); {
	case got == wants:
		d.pos++
		return false, nil
	case got == 'n' && at.up != nil:
		d.raw()
		return true, nil
	default:
		return false, wrongType(t, []byte{got}, at.String())
	}
}

// place is where a field of a body stands. A filled one may be left out and not
// be given empty: of a filter that would mean any, which nobody means who writes
// "queue":"" or null, but a program whose variable isn't set. A required one is
// there and isn't null. Mended ones are texts that the book takes whatever is in
// them.
type place struct {
	index                    []int
	filled, required, mended bool
	bit                      uint64 // of its own among the type's fields, of which none has more than 64
}

// places remembers where the fields of each type of body stand: a batch has
// thousands of rows of one type.
var places sync.Map

func placesOf(t reflect.Type) map[string]place {
	if known, ok := places.Load(t); ok {
		return known.(map[string]place)
	}
	found := map[string]place{}
	for n, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			found[name] = place{f.Index, f.Tag.Get("filled") == "true", !strings.Contains(options, "omit"),
				f.Tag.Get("mended") == "true", 1 << n}
		}
	}
	places.Store(t, found)
	return found
}
