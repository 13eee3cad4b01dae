package httpapi

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io"
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
	d := decoder{json.NewDecoder(bytes.NewReader(doc))}
	if p := d.value(reflect.ValueOf(to).Elem(), place{}, "#"); p != nil {
		return p
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem(daybook.CodeMalformed, "the body has something behind its JSON document")
	}
	return nil
}

type decoder struct{ *json.Decoder }

// broken is a body that is no JSON.
func (d decoder) broken() *Problem {
	return problem(daybook.CodeMalformed,
		"the body is not JSON, at byte "+strconv.FormatInt(d.InputOffset(), 10)+" or behind it")
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value reads one value, which stands in a field unless f is empty.
func (d decoder) value(v reflect.Value, f place, at string) *Problem {
	t := v.Type()
	switch {
	case t == rawType || reflect.PointerTo(t).Implements(textType):
	case t.Kind() == reflect.Struct:
		return d.object(v, at)
	case t.Kind() == reflect.Slice:
		return d.list(v, at)
	}
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return d.broken()
	}
	if f.required && string(raw) == "null" && t != rawType {
		return wrongType(t, raw, at)
	}
	text := t.Kind() == reflect.String || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.String
	if text && !f.mended && halfCharacter(raw) {
		return problem(daybook.CodeInvalid, field(at)+"has a lone surrogate, which is no character").at(at)
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		text, _ := clean(e)
		return problem(daybook.CodeInvalid, field(at)+text).at(at)
	}
	return wrongType(t, raw, at)
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

func (d decoder) object(v reflect.Value, at string) *Problem {
	if null, p := d.open('{', v.Type(), at); null || p != nil {
		return p
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return d.broken()
		}
		f, known := placesOf(v.Type())[name]
		switch {
		case !known && daybook.CheckName("", name) == nil:
			return problem(daybook.CodeInvalid, name+" is not a field here").at(at + "/" + name)
		case !known:
			return problem(daybook.CodeInvalid, "there is a field that is none here").at(at)
		case seen[name]:
			return problem(daybook.CodeInvalid, name+" is given twice").at(at + "/" + name)
		}
		seen[name] = true
		to := v.FieldByIndex(f.index)
		if p := d.value(to, f, at+"/"+name); p != nil {
			return p
		}
		if f.filled && to.IsZero() {
			return problem(daybook.CodeInvalid, name+": is empty; leave it out for any").at(at + "/" + name)
		}
	}
	return d.shut()
}

func (d decoder) list(v reflect.Value, at string) *Problem {
	if null, p := d.open('[', v.Type(), at); null || p != nil {
		return p
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list isn't none
	for n := 0; d.More(); n++ {
		if n == daybook.BatchMax {
			return problem(daybook.CodeTooLarge,
				field(at)+"at most "+strconv.Itoa(daybook.BatchMax)+" in one list, got more").at(at)
		}
		v.Grow(1)
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		if p := d.value(v.Index(n), place{}, at+"/"+strconv.Itoa(n)); p != nil {
			return p
		}
	}
	return d.shut()
}

// open reads the first token of an object or list. Null is none.
func (d decoder) open(wants json.Delim, t reflect.Type, at string) (null bool, p *Problem) {
	token, err := d.Token()
	if err != nil {
		return false, d.broken()
	}
	got := "0"
	switch token := token.(type) {
	case nil:
		if at != "#" {
			return true, nil
		}
		got = "n"
	case json.Delim:
		if token == wants {
			return false, nil
		}
		got = token.String()
	case string:
		got = `"`
	case bool:
		got = "t"
	}
	return false, wrongType(t, []byte(got), at)
}

func (d decoder) shut() *Problem {
	if _, err := d.Token(); err != nil {
		return d.broken()
	}
	return nil
}

// place is where a field of a body stands. A filled one may be left out and not
// be given empty: of a filter that would mean any, which nobody means who writes
// "queue":"" or null, but a program whose variable isn't set. A required one is
// there and isn't null. Mended ones are texts that the book takes whatever is in
// them.
type place struct {
	index                    []int
	filled, required, mended bool
}

// places remembers where the fields of each type of body stand: a batch has
// thousands of rows of one type.
var places sync.Map

func placesOf(t reflect.Type) map[string]place {
	if known, ok := places.Load(t); ok {
		return known.(map[string]place)
	}
	found := map[string]place{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			found[name] = place{f.Index, f.Tag.Get("filled") == "true", !strings.Contains(options, "omit"),
				f.Tag.Get("mended") == "true"}
		}
	}
	places.Store(t, found)
	return found
}
