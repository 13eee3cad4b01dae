package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	functionMax = 70  // lines: a screen
	tableMax    = 120 // lines of a test function, which is mostly a table
	lineMax     = 120 // columns
)

// longFunctions is the ratchet: functions that are longer than allowed, with
// their length. They may only shrink, and leave the list when they fit.
var longFunctions = map[string]int{}

func TestFunctionLength(t *testing.T) {
	seen := map[string]bool{}
	each(t, func(f file, set *token.FileSet, parsed *ast.File) {
		most := functionMax
		if isTest(f) {
			most = tableMax
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.dir() + "." + fn.Name.Name
			lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
			allowed, listed := longFunctions[name]
			switch {
			case lines <= most && listed:
				t.Errorf("%s fits now with %d lines; take it off the list", name, lines)
			case lines > most && lines > allowed:
				t.Errorf("%s: %s has %d lines, at most %d", f.path, fn.Name.Name, lines, max(most, allowed))
			}
			seen[name] = true
		}
	})
	for name := range longFunctions {
		if !seen[name] {
			t.Errorf("%s is gone; take it off the list", name)
		}
	}
}

// longLines is the ratchet of line length: files with longer lines, and how
// many there may be. -rewrite lowers the counts to what is left.
const longLines = "testdata/long-lines.txt"

func TestLineLength(t *testing.T) {
	allowed := readCounts(t)
	left := map[string]int{}
	for _, f := range files(t, ".go", ".sql") {
		var long []int
		for n, line := range f.lines() {
			if utf8.RuneCountInString(line) > lineMax {
				long = append(long, n+1)
			}
		}
		most := allowed[f.path]
		if len(long) > most {
			t.Errorf("%s: lines %v are longer than %d columns; at most %d may be", f.path, long, lineMax, most)
		}
		if n := min(len(long), most); n > 0 {
			left[f.path] = n
		}
	}
	if *rewrite {
		var b strings.Builder
		for _, path := range slices.Sorted(maps.Keys(left)) {
			fmt.Fprintln(&b, path, left[path])
		}
		if err := os.WriteFile(longLines, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readCounts(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(longLines)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		path, count, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(count); err == nil {
			counts[path] = n
		}
	}
	return counts
}

// TestPackagesAreDocumented: each package says what it is, and each exported
// name what it does.
func TestPackagesAreDocumented(t *testing.T) {
	said := map[string]bool{}
	each(t, func(f file, _ *token.FileSet, parsed *ast.File) {
		if f.isTest() {
			return
		}
		dir := f.dir()
		said[dir] = said[dir] || parsed.Doc != nil && len(strings.Fields(parsed.Doc.Text())) > 5
		if parsed.Name.Name == "main" || strings.HasPrefix(dir, "internal/") {
			return
		}
		for _, d := range parsed.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no comment", f.path, name)
			}
		}
	})
	for dir, ok := range said {
		if !ok {
			t.Errorf("package %s has no comment that says what it is", dir)
		}
	}
}

// undocumented lists the exported names of a declaration that nothing is said
// about. A group's comment speaks for the names in it.
func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !wellKnown(d.Name.Name) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Names[0].Name)
				}
			}
		}
	}
	return names
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}

// wellKnown methods mean what they mean everywhere in Go.
func wellKnown(name string) bool {
	return name == "Error" || name == "Unwrap" || name == "String" || name == "Is"
}

func each(t *testing.T, do func(file, *token.FileSet, *ast.File)) {
	t.Helper()
	for _, f := range files(t, ".go") {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		do(f, set, parsed)
	}
}
