package apifuzz

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Marker stands where a request's sender could put a secret: no refusal and no
// log line may have it.
const Marker = "s3cr3t-marker"

// artist draws values.
type artist struct {
	*rand.Rand
	doc *document
	ids []string // of things that there may be
	// owned is a claim that all of a call is about; nil is none
	owned *Claim
}

// chance is true once in n.
func (a artist) chance(n int) bool { return a.IntN(n) == 0 }

func pick[T any](a artist, from []T) T { return from[a.IntN(len(from))] }

// uuid is of something that there is, mostly.
func (a artist) uuid() string {
	if a.chance(4) {
		return fmt.Sprintf("01900000-0000-7000-8000-%012x", a.Uint64N(1<<40))
	}
	return pick(a, a.ids)
}

// valid draws a value that the schema allows. What waits for work does so
// briefly.
func (a artist) valid(s *schema, name string) any {
	s = a.doc.of(s)
	if value := a.own(name); value != nil {
		return value
	}
	switch {
	case s == nil || len(s.Type) == 0:
		return a.anything()
	case len(s.Enum) > 0:
		return pick(a, s.Enum)
	case s.takes("string"):
		return a.text(s, name)
	case s.takes("boolean"):
		return a.chance(2)
	case s.takes("integer"), s.takes("number"):
		return a.number(s, name)
	case s.takes("array"):
		list := []any{}
		for range max(1+a.IntN(3), least(s.MinItems)) {
			list = append(list, a.valid(s.Items, name))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) || a.chance(4) {
			object[name] = a.valid(s.Properties[name], name)
		}
	}
	return object
}

// own is the field of the call's claim that has this name, if there is one.
func (a artist) own(name string) any {
	switch {
	case a.owned == nil:
	case name == "id":
		return a.owned.Job
	case name == "name" && a.owned.Effect != "":
		return a.owned.Effect
	case name == "session":
		return a.owned.Session
	case name == "generation":
		return json.Number(strconv.FormatInt(a.owned.Generation, 10))
	}
	return nil
}

func least(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// anything is a document whose form is up to users.
func (a artist) anything() any {
	return pick(a, []any{map[string]any{"to": Marker, "n": json.Number("9007199254740993")}, []any{}, "", Marker,
		json.Number("1.0"), true, map[string]any{}})
}

// texts are what patterns and names are tried with.
var texts = []string{"mail", "mail", "welcome", "pay", "charge", "a.b_c-d:1"}

func (a artist) text(s *schema, name string) string {
	switch {
	case s.Format == "uuid":
		return a.uuid()
	case s.Format == "date-time":
		return fmt.Sprintf("2026-%02d-%02dT12:00:00.%06dZ", 1+a.IntN(12), 1+a.IntN(28), a.IntN(1e6))
	}
	text := pick(a, texts)
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
		panic("no text is known for the pattern " + s.Pattern + " of " + name)
	}
	if s.Pattern == "" && a.chance(3) {
		text = Marker + strconv.Itoa(a.IntN(100))
	}
	return text
}

func (a artist) number(s *schema, name string) json.Number {
	low, high := 0.0, 3.0
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if high = max(high, low+3); s.Maximum != nil {
		high = min(high, *s.Maximum)
	}
	n := int64(low) + a.Int64N(int64(high-low)+1)
	if strings.HasPrefix(name, "wait") {
		n = 0
	}
	if s.takes("integer") {
		return json.Number(strconv.FormatInt(n, 10))
	}
	return json.Number(strconv.FormatFloat(min(max(float64(n)/8, low), high), 'f', -1, 64))
}

// other draws a value of a type that the schema doesn't allow.
func (a artist) other(s *schema) any {
	all := []any{true, json.Number("7"), json.Number("1.5"), Marker, []any{Marker}, map[string]any{Marker: Marker}}
	fit := slices.DeleteFunc(all, func(v any) bool {
		kind := kindOf(v)
		return slices.Contains(s.Type, kind) || kind == "integer" && s.takes("number")
	})
	return pick(a, fit)
}

// outside draws a value of the right type that the schema doesn't allow; nil is
// none.
func (a artist) outside(s *schema) any {
	var all []any
	if s.Minimum != nil {
		all = append(all, json.Number(strconv.FormatFloat(*s.Minimum-1, 'f', -1, 64)), json.Number("-1e300"))
	}
	if s.Maximum != nil {
		all = append(all, json.Number(strconv.FormatFloat(*s.Maximum+1, 'f', -1, 64)), json.Number("1e300"))
	}
	if s.MaxLength != nil {
		all = append(all, strings.Repeat("x", *s.MaxLength+1))
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		all = append(all, "")
	}
	if s.Pattern != "" {
		all = append(all, Marker+" ü", "a b", "../"+Marker, strings.Repeat("x", 300), "a\x00b")
	}
	switch {
	case s.Format == "uuid":
		all = append(all, Marker, "01900000-0000-7000-8000-00000000000", "{01900000-0000-7000-8000-000000000001}")
	case s.Format == "date-time":
		all = append(all, Marker, "2026-12-24", "2026-12-24T18:00:00", "2026-02-30T00:00:00Z", "10000-01-01T00:00:00Z")
	case len(s.Enum) > 0:
		all = append(all, Marker, "Succeeded")
	}
	if s.MinItems != nil && *s.MinItems > 0 {
		all = append(all, []any{})
	}
	if s.takes("integer") {
		all = slices.DeleteFunc(all, func(v any) bool { return kindOf(v) == "number" })
	}
	if len(all) == 0 {
		return nil
	}
	return pick(a, all)
}
