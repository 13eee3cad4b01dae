package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// funcs are what templates may call. Everything that returns template.HTML is
// made of this package's own text and of numbers.
func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"url":      c.url,
		"asset":    c.asset,
		"num":      num,
		"n":        count[int64],
		"ni":       count[int],
		"stamp":    stamp,
		"column":   column,
		"clock":    clock,
		"lasted":   lasted,
		"ago":      ago,
		"left":     func(t, now daybook.Time) string { return lasted(t.Sub(now)) },
		"moment":   momentIcon,
		"seconds":  func(s float64) string { return lasted(time.Duration(s * float64(time.Second))) },
		"state":    stateMark,
		"outcome":  outcomeMark,
		"effect":   effectMark,
		"icon":     icon,
		"safe":     safe,
		"cut":      cut,
		"tail":     tail,
		"words":    words,
		"size":     size,
		"short":    func(id daybook.ID) string { return id.String()[:8] + "…" + id.String()[30:] },
		"add":      func(a, b int) int { return a + b },
		"add64":    func(a, b int64) int64 { return a + b },
		"mayclaim": mayClaim,
		"cutover":  cutoverOf,
		"neg":      func(n int) int { return -n },
		"one":      func(all bool) string { return "1"[:btoi(all)] },
	}
}

// url makes a path of the console: a path, then names and values of its query.
// Empty values are left out.
func (c *Console) url(path string, pairs ...any) string {
	text := make([]string, len(pairs))
	for i, p := range pairs {
		text[i] = fmt.Sprint(p)
	}
	to := c.base + path
	if q := query(text...); q != "" {
		to += "?" + q
	}
	return to
}

// query encodes names and values, without empty ones.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}

// asset is the address of a file, with a mark of what is in it.
func (c *Console) asset(name string) (string, error) {
	text, err := assetFiles.ReadFile("assets/" + name)
	return c.base + "/assets/" + name + "?v=" + markOf(text), err
}

// num writes a number with its thousands apart.
func num(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// count writes a number of things in words: "1 job", "2,000 jobs".
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return num(n) + " " + thing + "s"
}

// stamp is a time as a person reads it, with its zone and all of it behind; "" is
// a dash.
func stamp(t daybook.Time) template.HTML { return timeAs(t, "2006-01-02 15:04:05 UTC") }

// column is a stamp under a heading that says the zone.
func column(t daybook.Time) template.HTML { return timeAs(t, "2006-01-02 15:04:05") }

// clock is only the time of the day, for what happened a moment ago.
func clock(t daybook.Time) template.HTML { return timeAs(t, "15:04:05 UTC") }

func timeAs(t daybook.Time, layout string) template.HTML {
	if t == 0 {
		return `<span class="none">–</span>`
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s, UTC">%s</time>`, t, t, t.Std().Format(layout)))
}

// ago is how long before now a time is, or after it.
func ago(t, now daybook.Time) string {
	switch {
	case t == 0:
		return "–"
	case t > now:
		return "in " + lasted(t.Sub(now))
	}
	return lasted(now.Sub(t))
}

// lasted is a duration in at most two units, as people say it.
func lasted(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	}
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) && d%u.of >= units[i+1].of {
			text += fmt.Sprintf(" %d %s", d%u.of/units[i+1].of, units[i+1].name)
		}
		return text
	}
	return ""
}

// words turns a code into words.
func words(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") }

// safe shows what can't be seen as an escape: a mark that turns text around, a
// control character, a blank that isn't one.
func safe(v any) string {
	s := fmt.Sprint(v)
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += width
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// cut is safe text of at most so many runes, marked when it was cut.
func cut(most int, v any) string {
	s := safe(v)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// tail is the end of a safe text, of at most so many runes: of a path, the part
// that tells it from others.
func tail(most int, v any) string {
	r := []rune(safe(v))
	if len(r) <= most {
		return string(r)
	}
	return "…" + string(r[len(r)-most+1:])
}

// pretty lays JSON out without touching its numbers and strings. What isn't JSON
// stays as it is.
func pretty(doc json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, doc, "", "  ") != nil {
		return safe(string(doc))
	}
	return safe(b.String())
}

// size is a number of bytes.
func size(n int) string {
	switch {
	case n < 1<<10:
		return count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// shapes are what stands before a state: told apart by shape first, then by
// colour. Each fits a square of 16.
var shapes = map[string]string{
	"waiting":   `<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="2"/>`,
	"running":   `<path d="M4 2.5 13.5 8 4 13.5Z" fill="currentColor"/>`,
	"succeeded": `<path d="m3 8.5 3.5 3.5L13 4.5" fill="none" stroke="currentColor" stroke-width="2.4"/>`,
	"set_aside": `<path d="M8 1.5 15 14.5H1Z" fill="currentColor"/>` +
		`<path d="M8 6v4.2M8 11.6v1.4" class="cut" stroke-width="1.6"/>`,
	"cancelled": `<path d="m4 4 8 8m0-8-8 8" fill="none" stroke="currentColor" stroke-width="2.4"/>`,
	"expired": `<circle cx="8" cy="8" r="5.8" fill="none" stroke="currentColor" stroke-width="1.8"/>` +
		`<path d="M8 4.5V8l2.5 1.8" fill="none" stroke="currentColor" stroke-width="1.8"/>`,
	"moved": `<path d="M2 8h10M8.5 4 13 8l-4.5 4" fill="none" stroke="currentColor" stroke-width="2"/>`,
	"later": `<circle cx="8" cy="8" r="5.5"` +
		` fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="2.6 2"/>`,
	"held": `<rect x="3" y="7" width="10" height="7" rx="1" fill="currentColor"/>` +
		`<path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" fill="none" stroke="currentColor" stroke-width="1.8"/>`,
	"paused": `<path d="M5 3v10M11 3v10" stroke="currentColor" stroke-width="3"/>`,
	"open": `<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.8"/>` +
		`<path d="M6 6.4a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1M8 11.2v1.3" ` +
		`fill="none" stroke="currentColor" stroke-width="1.6"/>`,
	"failed":   `<path d="m3.5 3.5 9 9m0-9-9 9" fill="none" stroke="currentColor" stroke-width="2.4"/>`,
	"lost":     `<path d="M2 8h3m2 0h2m2 0h3" stroke="currentColor" stroke-width="2.4"/>`,
	"released": `<path d="M13 8H4m3.5-4L3.5 8l4 4" fill="none" stroke="currentColor" stroke-width="2"/>`,
	"asked": `<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.8"/>` +
		`<path d="M8 4.500v4.500m0 1.500v1.3" stroke="currentColor" stroke-width="1.8"/>`,
	"fenced": `<path d="M3 14V4l2-2 2 2v10M9 14V4l2-2 2 2v10M1.5 8h13"` +
		` fill="none" stroke="currentColor" stroke-width="1.4"/>`,
	"person": `<circle cx="8" cy="5" r="3" fill="currentColor"/>` +
		`<path d="M2.5 14.500c.5-4 3-5 5.5-5s5 1 5.5 5Z" fill="currentColor"/>`,
	"ok":  `<path d="m3 8.5 3.5 3.500L13 4.5" fill="none" stroke="currentColor" stroke-width="2.4"/>`,
	"dot": `<circle cx="8" cy="8" r="3" fill="currentColor"/>`,
	"bell": `<path d="M3 12h10l-1.5-2V7a3.5 3.5 0 0 0-7 0v3Zm3.5 2h3"` +
		` fill="none" stroke="currentColor" stroke-width="1.7"/>`,
	"alert": `<path d="M8 1.5 15 14.500H1Z" fill="currentColor"/>` +
		`<path d="M8 6v4.200M8 11.600v1.4" class="cut" stroke-width="1.6"/>`,
}

// icon draws a shape; what it means is said in words beside it.
func icon(name string) template.HTML {
	shape, known := shapes[name]
	if !known {
		shape = shapes["dot"]
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">` + shape +
		`</svg>`)
}

// moments are the shapes of a timeline's lines that aren't outcomes.
var moments = map[string]string{"accepted": "moved", "moved in": "moved", "imported": "moved", "claimed": "running",
	"started": "running", "effect begun": "open", "effect done": "ok", "effect absent": "cancelled",
	"effect doubled": "alert", "set aside": "set_aside", "replayed": "released"}

// momentIcon is the shape of a timeline's line.
func momentIcon(what string) template.HTML {
	if shape, known := moments[what]; known {
		return icon(shape)
	}
	return icon(what)
}

// mark is a word with its shape and colour. The class is one of ours.
func mark(class, shape, word string) template.HTML {
	return template.HTML(`<span class="mark `) + template.HTML(template.HTMLEscapeString(class)) + `">` + icon(shape) +
		template.HTML(template.HTMLEscapeString(word)) + `</span>`
}

func stateMark(s any) template.HTML {
	name := fmt.Sprint(s)
	if _, known := shapes[name]; !known {
		return mark("s-unknown", "dot", safe(name))
	}
	return mark("s-"+name, name, words(name))
}

func outcomeMark(o daybook.OutcomeKind) template.HTML {
	class := map[daybook.OutcomeKind]string{daybook.OutcomeSucceeded: "s-succeeded", daybook.OutcomeFailed: "s-failed",
		daybook.OutcomeLost: "s-lost", daybook.OutcomeReleased: "s-waiting", daybook.OutcomeCancelled: "s-cancelled",
		daybook.OutcomeAsked: "s-open"}[o]
	return mark(class, string(o), words(o))
}

func effectMark(e daybook.Effect) template.HTML {
	switch {
	case e.Doubled:
		return mark("s-set_aside", "alert", string(e.State)+", doubled")
	case e.State == daybook.EffectIsOpen:
		return mark("s-open", "open", "open")
	case e.State == daybook.EffectDone:
		return mark("s-succeeded", "succeeded", "done")
	}
	return mark("s-cancelled", "cancelled", "absent")
}
