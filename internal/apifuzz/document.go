package apifuzz

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// document is an OpenAPI description, as far as calls are made and judged by it.
type document struct {
	Version    string                           `json:"openapi"`
	Paths      map[string]map[string]*operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`

	operations []*operation // in a stable order
}

// operation is one call that there is.
type operation struct {
	ID         string                `json:"operationId"`
	Parameters []parameter           `json:"parameters"`
	Body       *body                 `json:"requestBody"`
	Responses  map[string]response   `json:"responses"`
	Security   []map[string][]string `json:"security"`

	method, path string
}

type parameter struct {
	Name   string  `json:"name"`
	In     string  `json:"in"`
	Schema *schema `json:"schema"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
	Most     int64            `json:"x-max-bytes"`
}

type response struct {
	Content map[string]media `json:"content"`
}

type media struct {
	Schema  *schema         `json:"schema"`
	Example json.RawMessage `json:"example"`
}

// read takes a description in, and refuses one that nothing can be held to.
func read(text []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("the description is not JSON: %w", err)
	}
	if !strings.HasPrefix(d.Version, "3.1.") {
		return nil, fmt.Errorf("the description is of OpenAPI %q, want 3.1", d.Version)
	}
	var wrong []error
	for path, methods := range d.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			d.operations = append(d.operations, op)
			wrong = append(wrong, op.complete())
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	for _, s := range d.Components.Schemas {
		wrong = append(wrong, d.resolvable(s))
	}
	if len(d.operations) == 0 {
		wrong = append(wrong, errors.New("the description has no calls"))
	}
	return &d, errors.Join(wrong...)
}

// complete says what an operation leaves unsaid.
func (op *operation) complete() error {
	good := 0
	for status, r := range op.Responses {
		if strings.HasPrefix(status, "2") {
			good++
		}
		if status == "default" && r.Content["application/problem+json"].Schema == nil {
			return fmt.Errorf("%s %s: its problems have no schema", op.method, op.path)
		}
	}
	switch _, problems := op.Responses["default"]; {
	case op.ID == "":
		return fmt.Errorf("%s %s has no operationId", op.method, op.path)
	case good == 0 || !problems:
		return fmt.Errorf("%s %s doesn't say what it answers", op.method, op.path)
	case op.Body != nil && (op.Body.Most <= 0 || op.Body.Content[jsonMedia].Schema == nil):
		return fmt.Errorf("%s %s doesn't say what body it takes, and how large a one", op.method, op.path)
	}
	return nil
}

// scope is what a token needs for the call, "" without a token.
func (op *operation) scope() string {
	for _, way := range op.Security {
		for _, scopes := range way {
			if len(scopes) == 1 {
				return scopes[0]
			}
			return "?"
		}
	}
	return ""
}

// in are the parameters of one place.
func (op *operation) in(place string) (list []parameter) {
	for _, p := range op.Parameters {
		if p.In == place {
			list = append(list, p)
		}
	}
	return list
}

const (
	jsonMedia    = "application/json"
	problemMedia = "application/problem+json"
)
