package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// classTable is what the mapping file says of one class.
type classTable struct {
	Kind        string `toml:"kind"`
	Args        string `toml:"args"`
	OnLost      string `toml:"on-lost"`
	Safe        bool   `toml:"safe"`
	MaxFailures int    `toml:"max-failures"`
	Timeout     string `toml:"timeout"`
}

// classKeys are its keys, and what each wants.
var classKeys = []struct{ name, wants string }{{"kind", "a text"}, {"args", "a text"}, {"on-lost", "a text"},
	{"safe", "true or false"}, {"max-failures", "a whole number"}, {"timeout", `a text, such as "5m"`}}

// readMapping reads what classes of the old system are here.
func readMapping(path string) (cutover.Mapping, error) {
	m := cutover.Mapping{Classes: map[string]cutover.Rule{}}
	if path == "" {
		return m, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return m, usage("--map %s can't be read; give an existing TOML file", path)
	}
	var tables map[string]classTable
	decoder := toml.NewDecoder(strings.NewReader(string(text)))
	if err := decoder.DisallowUnknownFields().Decode(&tables); err != nil {
		return m, usage("--map %s: %s", path, mapProblem(err))
	}
	for class, t := range tables {
		r := cutover.Rule{Kind: t.Kind, Args: cutover.Shape(t.Args), OnLost: daybook.OnLost(t.OnLost), Safe: t.Safe,
			MaxFailures: t.MaxFailures}
		if t.Timeout != "" {
			timeout, err := parseDuration(t.Timeout)
			if err != nil {
				return m, usage("--map %s: the timeout of %q wants a time such as 5m, got %q", path, class, t.Timeout)
			}
			r.Timeout = cutover.Seconds(timeout)
		}
		m.Classes[class] = r
	}
	return m, m.Check()
}

// mapProblem says in our words what is wrong with a mapping file. The library's tell
// of the program's insides.
func mapProblem(err error) string {
	e, isDecode := errors.AsType[*toml.DecodeError](err)
	strict, isStrict := errors.AsType[*toml.StrictMissingError](err)
	if isStrict && len(strict.Errors) > 0 {
		e, isDecode = &strict.Errors[0], true
	}
	if !isDecode {
		return "isn't a TOML file"
	}
	line, _ := e.Position()
	key := e.Key()
	switch {
	case isStrict && len(key) > 1:
		return fmt.Sprintf("line %d: class %q can't have %q; a class has %s", line, cut(key[0], cellMax),
			cut(strings.Join(key[1:], "."), cellMax), classKeyNames())
	case !strings.Contains(e.Error(), "cannot decode"):
		return fmt.Sprintf("line %d: %s", line, strings.TrimPrefix(e.Error(), "toml: "))
	case len(key) > 1:
		wants := "another value"
		for _, k := range classKeys {
			if k.name == key[1] {
				wants = k.wants
			}
		}
		return fmt.Sprintf("line %d: %s of class %q wants %s", line, key[1], cut(key[0], cellMax), wants)
	}
	return fmt.Sprintf("line %d: %q stands outside of a class; write a table [CLASS] for each, with %s", line,
		cut(strings.Join(key, "."), cellMax), classKeyNames())
}

func classKeyNames() string {
	var names []string
	for _, k := range classKeys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}
