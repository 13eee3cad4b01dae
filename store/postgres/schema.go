package postgres

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// SchemaDefault is the schema that a book is kept in.
const SchemaDefault = "daybook"

// schema is a schema's name. Statements are written with the word daybook; in
// another schema it is replaced.
type schema string

var (
	ourName  = regexp.MustCompile(`\bdaybook\.`)
	replaced sync.Map // schema and query → query
)

// in puts a statement into the schema.
func (s schema) in(query string) string {
	if s == SchemaDefault {
		return query
	}
	type key struct {
		s     schema
		query string
	}
	if known, ok := replaced.Load(key{s, query}); ok {
		return known.(string)
	}
	put := strings.ReplaceAll(s.quoted(), "$", "$$") + "."
	text := ourName.ReplaceAllString(query, put)
	replaced.Store(key{s, query}, text)
	return text
}

func (s schema) quoted() string { return pgx.Identifier{string(s)}.Sanitize() }

// checkSchema holds a schema's name to PostgreSQL's limit.
func checkSchema(name string) error {
	switch {
	case name == "" || len(name) > 63 || strings.ContainsRune(name, 0):
		return daybook.Invalid("schema", "wants 1–63 bytes, got %d", len(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		return daybook.Invalid("schema", "can't have a line's end or another control character in it, got %q", name)
	case strings.HasPrefix(name, "pg_"):
		return daybook.Invalid("schema", "can't begin with pg_: PostgreSQL keeps such names for itself; choose another")
	case strings.Contains(name, "$$"):
		return daybook.Invalid("schema", "can't have $$ in it: the functions' text is between such")
	}
	return nil
}
