package httpapi

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// The codes that only the network has, beside the book's own.
const (
	codeUnauthorized     daybook.Code = "unauthorized"
	codeForbidden        daybook.Code = "forbidden"
	codeMethodNotAllowed daybook.Code = "method_not_allowed"
	codeUnsupportedMedia daybook.Code = "unsupported_media_type"
	codeRateLimited      daybook.Code = "rate_limited"
)

// statusOf is the HTTP status of each code, and a title for people.
var statusOf = map[daybook.Code]struct {
	status int
	title  string
}{
	daybook.CodeMalformed:        {http.StatusBadRequest, "The request can't be read"},
	codeUnauthorized:             {http.StatusUnauthorized, "A token is wanted"},
	codeForbidden:                {http.StatusForbidden, "Not allowed"},
	daybook.CodeNotFound:         {http.StatusNotFound, "Not found"},
	codeMethodNotAllowed:         {http.StatusMethodNotAllowed, "Method not allowed"},
	daybook.CodeFenced:           {http.StatusConflict, "Not the owner any more"},
	daybook.CodeRefused:          {http.StatusConflict, "Refused by the state it is in"},
	daybook.CodeEffectOpen:       {http.StatusConflict, "An effect is open"},
	daybook.CodeEffectNameReused: {http.StatusConflict, "An effect's name was used twice"},
	daybook.CodeBusy:             {http.StatusConflict, "Somebody else holds it just now"},
	daybook.CodeTooLarge:         {http.StatusRequestEntityTooLarge, "Too large"},
	codeUnsupportedMedia:         {http.StatusUnsupportedMediaType, "JSON is wanted"},
	daybook.CodeInvalid:          {http.StatusUnprocessableEntity, "Invalid input"},
	daybook.CodeKeyConflict:      {http.StatusUnprocessableEntity, "The key belongs to another request"},
	codeRateLimited:              {http.StatusTooManyRequests, "Too many requests"},
	daybook.CodeUnavailable:      {http.StatusServiceUnavailable, "Not available just now"},
	daybook.CodeInternal:         {http.StatusInternalServerError, "An error of the server"},
}

// Problem is every error as the API answers it: RFC 9457, with a code for
// programs. Values of the request are never repeated in it.
type Problem struct {
	Type   string             `json:"type" doc:"names the sort of problem"`
	Title  string             `json:"title" doc:"the sort of problem in words"`
	Status int                `json:"status" doc:"the HTTP status"`
	Detail string             `json:"detail" doc:"what happened and what to do"`
	Code   daybook.Code       `json:"code" doc:"what went wrong, for programs"`
	Errors []FieldError       `json:"errors,omitempty" doc:"which part of the request is to blame"`
	Lost   []daybook.ClaimRef `json:"lost,omitempty" doc:"of started: claims that the session doesn't own any more"`

	header http.Header
}

// FieldError names one part of the request.
type FieldError struct {
	Pointer   string `json:"pointer,omitempty" doc:"JSON pointer into the body"`
	Parameter string `json:"parameter,omitempty" doc:"parameter of the path, the query, or header"`
	Detail    string `json:"detail" doc:"what is wrong with it"`
}

func (p *Problem) Error() string { return p.Detail }

// problem makes a problem of a code.
func problem(code daybook.Code, detail string) *Problem {
	known, ok := statusOf[code]
	if !ok {
		code, known = daybook.CodeInternal, statusOf[daybook.CodeInternal]
	}
	return &Problem{Type: "urn:daybook:problem:" + string(code), Title: known.title, Status: known.status,
		Detail: detail, Code: code}
}

// at blames a place in the body.
func (p *Problem) at(pointer string) *Problem {
	p.Errors = []FieldError{{Pointer: pointer, Detail: p.Detail}}
	return p
}

// parameter blames a parameter.
func (p *Problem) parameter(name string) *Problem {
	p.Errors = []FieldError{{Parameter: name, Detail: p.Detail}}
	return p
}

// with adds a header to the answer.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// wireNames are fields of the book that have another name, or place, in bodies.
var wireNames = map[string]string{"in": "in_seconds", "retry_in": "retry_in_seconds", "lease": "lease_seconds",
	"timeout": "timeout_seconds", "window": "window_seconds", "quiet": "quiet_seconds", "effect": "name"}

var (
	gotValue = regexp.MustCompile(`,? ?got "(?:[^"\\]|\\.)*"(?:… \(\d+ bytes\))?`)
	atPlace  = regexp.MustCompile(`^at "((?:[^"\\]|\\.)*)"…?: `)
	noSuch   = regexp.MustCompile(`\bno ([a-z ]+) "(?:[^"\\]|\\.)*"(?:… \(\d+ bytes\))?`)
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(?:… \(\d+ bytes\))? ?`)
)

// problemOf puts an error of the book into a problem. under is where in the body
// the book's fields stand, like "/3" in a batch.
func problemOf(err error, under string) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if n := daybook.BatchIndex(err); n >= 0 {
		under += "/" + strconv.Itoa(n)
	}
	e, _ := errors.AsType[*daybook.Error](err)
	if known := statusOf[codeOf(e)].status; known == 0 || known == http.StatusInternalServerError {
		return problem(daybook.CodeInternal, "something went wrong that is the server's fault; its log says what")
	}
	text, place := clean(e)
	if e.Field == "" {
		return problem(e.Code, text)
	}
	field := e.Field
	if name := wireNames[field]; name != "" {
		field = name
	}
	if strings.HasPrefix(field, `"`) { // a name that is none, from the request
		return problem(e.Code, text).at("#" + under)
	}
	p := problem(e.Code, field+": "+text)
	p.Errors = []FieldError{{Pointer: "#" + under + "/" + field + place, Detail: text}}
	if field == "body" {
		p.Errors[0].Pointer = "#" + under + place
	}
	return p
}

// codeOf is an error's code, if it is one of the book's.
func codeOf(e *daybook.Error) daybook.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

// clean takes what was given out of an error's text: the request's sender knows
// it, and others, like a log on the way, shouldn't. Numbers may stay. A place
// inside a document is returned apart.
func clean(e *daybook.Error) (text, place string) {
	text = e.Text
	if text == "" {
		text = string(e.Code)
	}
	switch e.Code {
	case daybook.CodeNotFound:
		return noSuch.ReplaceAllString(text, "no such $1"), ""
	case daybook.CodeInvalid, daybook.CodeMalformed, daybook.CodeTooLarge, daybook.CodeKeyConflict:
	default:
		return text, ""
	}
	if m := atPlace.FindStringSubmatch(text); m != nil {
		if unquoted, err := strconv.Unquote(`"` + m[1] + `"`); err == nil {
			place, text = unquoted, text[len(m[0]):]
		}
	}
	text = gotValue.ReplaceAllString(text, "")
	text = strings.TrimSpace(quoted.ReplaceAllString(text, ""))
	return text, place
}

// drainMax is how much of a body that is refused is read before the answer, so
// that its sender comes to reading it.
const drainMax = 8 << 20

// refuse answers with a problem.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	noted(w, p)
	if r.Body != nil && r.Header.Get("Expect") == "" { // who expects a word first hasn't sent it
		_, _ = io.CopyN(io.Discard, r.Body, drainMax)
	}
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", "1")
		}
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="daybook"`)
	}
	s.send(w, r, p.Status, "application/problem+json", p)
}
