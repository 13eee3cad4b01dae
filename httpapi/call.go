package httpapi

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// route is one call of the API.
type route struct {
	method, path string
	id           string // a name for programs: operationId
	summary      string
	scope        daybook.TokenScope // "" asks for no token
	query        []param
	header       []param
	in, out      reflect.Type // nil is none
	media        string       // of an answer that isn't JSON
	bodyMax      int64
	optional     bool // the body may be left out
	slow         bool // may take longer than other calls
	away         bool // answers while the database is away: tokens as they were last seen open it then
	example      string
	answer       string // an example of it
	also         []int  // statuses of success beside the first
	do           func(c *call) (any, error)
}

// param is one parameter of the query, or a header.
type param struct {
	name, about string
	kind        string // string, integer, boolean, or idKind
	words       []string
}

// idKind is of parameters that are an id.
const idKind = "id"

// none is the body of an answer that has none.
type none struct{}

// get makes a route that only looks.
func get[Out any](path, id, summary string, do func(c *call) (Out, error)) route {
	return route{method: http.MethodGet, path: path, id: id, summary: summary, scope: daybook.ScopeRead,
		out: reflect.TypeFor[Out](), do: func(c *call) (any, error) { return do(c) }}
}

// bodySmall bounds bodies that hold no document of a user's.
const bodySmall = 64 << 10

// post makes a route that changes something.
func post[In, Out any](scope daybook.TokenScope, path, id, summary string,
	do func(c *call, in In) (Out, error)) route {
	r := route{method: http.MethodPost, path: path, id: id, summary: summary, scope: scope, bodyMax: bodySmall,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}
	if r.out == reflect.TypeFor[none]() {
		r.out = nil
	}
	r.do = func(c *call) (any, error) {
		var in In
		if len(c.body) > 0 {
			if p := decode(c.body, &in); p != nil {
				return nil, p
			}
		}
		out, err := do(c, in)
		if err != nil || r.out == nil {
			return nil, err
		}
		return out, nil
	}
	return r
}

func (r route) most(bytes int64) route    { r.bodyMax = bytes; return r }
func (r route) mayLackBody() route        { r.optional = true; return r }
func (r route) takesLong() route          { r.slow = true; return r }
func (r route) asks(query ...param) route { r.query = query; return r }

// shows gives the route its examples: a body, if it has one, and an answer.
func (r route) shows(body, answer string) route { r.example, r.answer = body, answer; return r }

// call is one call under way.
type call struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	route  route
	token  string // the token's name; "" without one
	actor  string
	sight  daybook.Sight
	body   []byte
	status int
	done   bool // the answer was written
}

// slowMax is how long a call that is known to take long may take.
const slowMax = 10 * time.Minute

func (c *call) ctx() context.Context { return c.r.Context() }

// by is who does it, for the record.
func (c *call) by(reason string) (daybook.By, error) { return c.byIf(true, reason) }

// byIf is by where a reason is needed; else it may be left out. One that can't be
// is refused before anything is looked for.
func (c *call) byIf(needed bool, reason string) (daybook.By, error) {
	if needed && reason == "" {
		return daybook.By{}, daybook.Invalid("reason", "is missing; say why, for the record")
	}
	by := daybook.By{Actor: c.actor, Reason: reason}
	return by, daybook.CheckBy(by)
}

// id reads an id out of the path.
func (c *call) id(name string) (daybook.ID, error) {
	id, err := daybook.ParseID(c.r.PathValue(name))
	if err != nil {
		return id, problem(daybook.CodeInvalid, "the path wants a UUID as "+name).parameter(name)
	}
	return id, nil
}

// name reads a name out of the path.
func (c *call) name(parameter string) (string, error) {
	name := c.r.PathValue(parameter)
	if err := daybook.CheckName(parameter, name); err != nil {
		p := problemOf(err, "")
		p.Errors = []FieldError{{Parameter: parameter, Detail: p.Detail}}
		return "", p
	}
	return name, nil
}

// checkQuery holds the query to what the route takes.
func (c *call) checkQuery() *Problem {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil { // Query leaves out what it can't read: a filter less, and an answer about everything
		return problem(daybook.CodeMalformed,
			"the query can't be read; parameters stand between &, with % and two hex digits for what is no letter")
	}
	for name, values := range query {
		i := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		switch {
		case i < 0 && daybook.CheckName("", name) == nil:
			return problem(daybook.CodeInvalid, name+" is not a parameter of this call").parameter(name)
		case i < 0:
			return problem(daybook.CodeInvalid, "the query has a parameter that this call doesn't take")
		case len(values) > 1:
			return problem(daybook.CodeInvalid, name+" is given twice").parameter(name)
		}
		p := c.route.query[i]
		wrong := ""
		switch value := values[0]; {
		case p.kind == "integer":
			if n, err := strconv.Atoi(value); err != nil || n < 1 {
				wrong = "wants a whole number from 1"
			}
		case p.kind == "boolean" && value != "true" && value != "false":
			wrong = "wants true or false"
		case p.words != nil && !slices.Contains(p.words, value):
			wrong = "wants one of " + strings.Join(p.words, ", ")
		case value == "" && name != cursorParam.name: // a first page's cursor is empty
			wrong = "is empty; leave it out for any"
		}
		if wrong != "" {
			return problem(daybook.CodeInvalid, name+" "+wrong).parameter(name)
		}
	}
	return nil
}

// asked is a parameter of the query, "" when it isn't given.
func (c *call) asked(name string) string { return c.r.URL.Query().Get(name) }

// page reads limit and cursor.
func (c *call) page() (limit int, cursor string, err error) {
	limit = daybook.ListDefault
	if text := c.asked("limit"); text != "" {
		if limit, _ = strconv.Atoi(text); limit < 1 || limit > daybook.ListMax {
			return 0, "", problem(daybook.CodeInvalid,
				"limit wants 1…"+strconv.Itoa(daybook.ListMax)).parameter("limit")
		}
	}
	return limit, c.asked("cursor"), nil
}

// takeBody reads the call's body, as far as the route allows.
func (s *Server) takeBody(c *call) (release func(), p *Problem) {
	release = func() {}
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	switch {
	case err != nil || media != "application/json":
		return release, problem(codeUnsupportedMedia, "the body must be sent as Content-Type: application/json").
			with("Accept", "application/json")
	case c.r.Header.Get("Content-Encoding") != "":
		return release, problem(codeUnsupportedMedia, "the body must be sent as it is, without a Content-Encoding")
	}
	most := c.route.bodyMax
	tooLarge := problem(daybook.CodeTooLarge, "the body may have "+strconv.FormatInt(most, 10)+" bytes").at("#")
	if c.r.ContentLength > most {
		return release, tooLarge
	}
	if most > 4<<20 && (c.r.ContentLength < 0 || c.r.ContentLength > 1<<20) {
		if p := s.room(c); p != nil {
			return release, p
		}
		release = func() { <-s.large }
	}
	c.body, err = io.ReadAll(io.LimitReader(c.r.Body, most+1))
	switch {
	case err != nil:
		return release, problem(daybook.CodeMalformed, "the body ended too early, or came too slowly")
	case int64(len(c.body)) > most:
		return release, tooLarge
	case len(c.body) == 0 && !c.route.optional:
		return release, problem(daybook.CodeMalformed, "the body is missing; it wants a JSON document").at("#")
	}
	return release, nil
}

// room waits until one more large body may be held.
func (s *Server) room(c *call) *Problem {
	wait := time.NewTimer(10 * time.Second)
	defer wait.Stop()
	select {
	case s.large <- struct{}{}:
		return nil
	case <-c.ctx().Done():
	case <-wait.C:
	}
	return problem(daybook.CodeUnavailable, "too many large bodies at once; try again, or send smaller ones")
}

// faultPlace is where the fault that is being recovered happened, as far as it
// is in this module.
func faultPlace() string {
	var at [32]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(3, at[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "daybook") && !strings.Contains(f.Function, ".caught") {
			return f.Function + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

// seconds is a duration of a body; nil is none.
func seconds(field string, s *float64) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	return daybook.Seconds(field, *s)
}
