package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// The values of --output.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputLines = "jsonl"
)

// cellMax bounds a cell of a table, in runes, so that one long value doesn't
// push the rest off the screen; the last column may be lastMax long.
const cellMax, lastMax = 48, 160

// table is what people read: rows under headings.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// write prints the table with its columns aligned. Everything in it may come
// from strangers, so every cell is made safe and cut.
func (t *table) write(w io.Writer) error {
	rows := t.rows
	if len(t.head) > 0 {
		rows = append([][]string{t.head}, rows...)
	}
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			most := cellMax
			if i == len(row)-1 {
				most = lastMax
			}
			row[i] = cut(safe(cell), most)
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cut shortens text to a number of runes, and marks it.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// safe shows what can't be printed as an escape: a control character could
// forge a line or steer the terminal, and a bidirectional mark could turn the
// text around.
func safe(s string) string { return escape(s, false) }

// safeLine is safe for a line of a log, where a tab is harmless.
func safeLine(s string) string { return escape(s, true) }

func escape(s string, tabs bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && !unicode.IsPrint(r) && !(tabs && r == '\t'):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r >= utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// json reports whether programs read the output.
func (a *app) json() bool { return a.flags.output != outputTable }

// show prints one answer: JSON on one line, or what draw says.
func (a *app) show(whole any, draw func(t *table)) error {
	if a.json() {
		return daybook.EncodeJSON(a.stdout, whole)
	}
	t := &table{}
	draw(t)
	return t.write(a.stdout)
}

// showList prints a list: whole as one line of JSON, each item as a line of
// its own, or a table with a row for each.
func showList[T any](a *app, whole any, items []T, head []string, row func(t *table, item T)) error {
	if a.flags.output == outputLines {
		for _, item := range items {
			if err := daybook.EncodeJSON(a.stdout, item); err != nil {
				return err
			}
		}
		return nil
	}
	return a.show(whole, func(t *table) {
		t.head = head
		for _, item := range items {
			row(t, item)
		}
	})
}

// orEmpty keeps an empty list from being written as null.
func orEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// note tells a person something beside the answer, on standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "daybook: %s\n", safe(hidePasswords(fmt.Sprintf(format, args...))))
}

// more says how to read on, where a table ends before the list does.
func (a *app) more(cursor string) {
	if cursor != "" && !a.json() {
		a.note("there are more; go on with --cursor %s", cursor)
	}
}

// dash shows that a cell is empty on purpose.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// count writes a number of things in words: "1 job", "2 jobs".
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(int64(n), 10) + " " + thing + "s"
}
