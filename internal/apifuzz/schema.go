package apifuzz

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// schema is a JSON Schema, as far as the description uses it.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       types              `json:"type"`
	Format     string             `json:"format"`
	Pattern    string             `json:"pattern"`
	Enum       []any              `json:"enum"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	MinLength  *int               `json:"minLength"`
	MaxLength  *int               `json:"maxLength"`
	MinItems   *int               `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional json.RawMessage    `json:"additionalProperties"`
}

// types are one name or a list of them.
type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*t = types{""}
		return json.Unmarshal(text, &(*t)[0])
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// of follows references.
func (d *document) of(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	return s
}

// resolvable reports references that lead nowhere.
func (d *document) resolvable(s *schema) error {
	if s == nil {
		return nil
	}
	if d.of(s) == nil {
		return fmt.Errorf("there is no schema %s", s.Ref)
	}
	for _, p := range s.Properties {
		if err := d.resolvable(p); err != nil {
			return err
		}
	}
	return d.resolvable(s.Items)
}

// closed reports whether an object may have no other fields than the named.
func (s *schema) closed() bool { return string(s.Additional) == "false" }

func (s *schema) takes(kind string) bool { return len(s.Type) == 0 || slices.Contains(s.Type, kind) }

// broken says where a value, decoded with numbers as they stand, isn't what the
// schema wants; "" is nowhere.
func (d *document) broken(s *schema, value any, at string) string {
	if s = d.of(s); s == nil {
		return ""
	}
	kind := kindOf(value)
	if !s.takes(kind) && !(kind == "integer" && s.takes("number")) {
		return fmt.Sprintf("%s is of type %s, want %s", at, kind, s.Type)
	}
	if len(s.Enum) > 0 && value != nil && !slices.Contains(s.Enum, value) {
		return fmt.Sprintf("%s is %v, want one of %v", at, value, s.Enum)
	}
	switch value := value.(type) {
	case string:
		return s.brokenText(value, at)
	case json.Number:
		return s.brokenNumber(value, at)
	case []any:
		if s.MinItems != nil && len(value) < *s.MinItems || s.MaxItems != nil && len(value) > *s.MaxItems {
			return fmt.Sprintf("%s has %d rows", at, len(value))
		}
		for n, row := range value {
			if wrong := d.broken(s.Items, row, at+"/"+strconv.Itoa(n)); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		return d.brokenObject(s, value, at)
	}
	return ""
}

func (d *document) brokenObject(s *schema, value map[string]any, at string) string {
	for _, name := range s.Required {
		if _, ok := value[name]; !ok {
			return at + " lacks " + name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		property, known := s.Properties[name]
		if !known && s.closed() {
			return at + " has " + name + ", which isn't described"
		}
		if !known && len(s.Additional) > 0 && s.Additional[0] == '{' {
			property = &schema{}
			if err := json.Unmarshal(s.Additional, property); err != nil {
				return at + ": " + err.Error()
			}
		}
		if wrong := d.broken(property, value[name], at+"/"+name); wrong != "" {
			return wrong
		}
	}
	return ""
}

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (s *schema) brokenText(value, at string) string {
	n := utf8.RuneCountInString(value)
	switch {
	case s.MinLength != nil && n < *s.MinLength, s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Sprintf("%s has %d characters", at, n)
	case s.Format == "uuid" && !uuidText.MatchString(value):
		return at + " is no UUID"
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(value):
		return at + " doesn't match " + s.Pattern
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339Nano, value); err != nil {
			return at + " is no time"
		}
	}
	return ""
}

func (s *schema) brokenNumber(value json.Number, at string) string {
	f, err := value.Float64()
	if err == nil && (s.Minimum != nil && f < *s.Minimum || s.Maximum != nil && f > *s.Maximum) {
		return fmt.Sprintf("%s is %s, which is out of range", at, value)
	}
	return ""
}

// kindOf is a value's type in the words of JSON Schema.
func kindOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if strings.ContainsAny(value.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return fmt.Sprintf("%T", value)
}
