package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookdev/daybook"
)

// describe is the API's description of itself, made once.
type describe struct {
	spec []byte // OpenAPI 3.1
	page []byte // for people
	csp  string // of the page: its own style, by its hash, and nothing else
}

// uuid stands for a daybook.ID in schemas.
type uuid string

// Schema is what OpenAPI says of an id.
func (uuid) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "uuid"}
}

// bookNames are types of the book whose names types of this package have too.
var bookNames = map[string]string{"Problem": "AttemptError", "Backlog": "QueueBacklog", "BulkAnswer": "BulkCounts"}

// schemaName is what OpenAPI calls a type.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := bookNames[t.Name()]; name != "" && t.PkgPath() == reflect.TypeFor[daybook.Job]().PkgPath() {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

func (s *Server) describeItself() error {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	registry.RegisterTypeAlias(reflect.TypeFor[daybook.ID](), reflect.TypeFor[uuid]())
	registry.RegisterTypeAlias(reflect.TypeFor[daybook.Time](), reflect.TypeFor[time.Time]())
	version := s.opts.Version
	if version == "" {
		version = "unknown"
	}
	api := &huma.OpenAPI{OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Daybook", Version: version, Description: about},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", Description: "made by daybook token create"}}},
	}
	problem := registry.Schema(reflect.TypeFor[Problem](), true, "Problem")
	codes := registry.Map()["Problem"].Properties["code"]
	for _, code := range slices.Sorted(maps.Keys(statusOf)) {
		codes.Enum = append(codes.Enum, string(code))
	}
	for _, r := range s.routes {
		op, err := r.operation(registry, problem)
		if err != nil {
			return err
		}
		api.AddOperation(op)
	}
	spec, err := json.Marshal(api)
	if err != nil {
		return err
	}
	s.spec = spec
	return s.makePage(registry)
}

// about begins the description.
const about = "A durable job system. Times are RFC 3339 in UTC; args, results and progress are JSON documents, whose " +
	"numbers and key order are kept. Of kinds that the server keeps sensitive args, results, progress and error texts " +
	"are left out for tokens without the scope sensitive, and hidden says so. " +
	"Errors are problems of RFC 9457 with a code. Lists go on with limit and cursor. " +
	"An Idempotency-Key is the job's request key: the same key with the same queue, kind and args (compared in a " +
	"canonical form) answers with the same job until 30 days after it ended, and other input is refused with " +
	"key_conflict."

// operation describes one route.
func (r route) operation(registry huma.Registry, problem *huma.Schema) (*huma.Operation, error) {
	op := &huma.Operation{Method: r.method, Path: r.path, OperationID: r.id, Summary: r.summary,
		Tags: []string{r.tag()}, Parameters: r.parameters(), Responses: map[string]*huma.Response{}}
	if r.scope != "" {
		op.Security = []map[string][]string{{"token": {string(r.scope)}}}
		op.Description = "Wants a token with scope " + string(r.scope) + "."
	}
	if r.in != nil && r.in != reflect.TypeFor[none]() {
		body, err := media(registry, r.in, r.id+"Body", r.example)
		if err != nil {
			return nil, err
		}
		op.RequestBody = &huma.RequestBody{Required: !r.optional, Content: map[string]*huma.MediaType{
			"application/json": body}, Extensions: map[string]any{"x-max-bytes": r.bodyMax}}
	}
	good := &huma.Response{Description: "as asked"}
	status := "200"
	switch {
	case r.media != "":
		good.Content = map[string]*huma.MediaType{r.media: {Schema: &huma.Schema{Type: huma.TypeString}}}
	case r.out == nil:
		status = "204"
	default:
		body, err := media(registry, r.out, r.id+"Answer", r.answer)
		if err != nil {
			return nil, err
		}
		good.Content = map[string]*huma.MediaType{"application/json": body}
	}
	op.Responses[status] = good
	for _, also := range r.also {
		op.Responses[strconv.Itoa(also)] = good
	}
	op.Responses["default"] = &huma.Response{Description: "a problem", Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: problem}}}
	return op, nil
}

// media describes a body, with its example.
func media(registry huma.Registry, t reflect.Type, hint, example string) (*huma.MediaType, error) {
	m := &huma.MediaType{Schema: &huma.Schema{}}
	if t.Kind() != reflect.Interface && t != reflect.TypeFor[json.RawMessage]() {
		m.Schema = registry.Schema(t, true, hint)
	}
	if example == "" {
		return m, nil
	}
	return m, json.Unmarshal([]byte(example), &m.Example)
}

// tag groups calls, by what stands behind /v1.
func (r route) tag() string {
	parts := strings.Split(r.path, "/")
	if len(parts) > 2 && parts[1] == "v1" {
		return parts[2]
	}
	return "server"
}

func (r route) parameters() (list []*huma.Param) {
	for part := range strings.SplitSeq(r.path, "/") {
		name, found := strings.CutPrefix(part, "{")
		if !found {
			continue
		}
		schema := &huma.Schema{Type: huma.TypeString, Format: "uuid"}
		switch name = strings.TrimSuffix(name, "}"); {
		case strings.HasPrefix(r.path, "/v1/workers/"):
			schema = &huma.Schema{Type: huma.TypeString} // what their hosts are called
		case name == "name" || name == "queue":
			schema = &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9._:-]{1,128}$"}
		}
		list = append(list, &huma.Param{Name: name, In: "path", Required: true, Schema: schema})
	}
	for _, p := range r.query {
		list = append(list, p.describe("query"))
	}
	for _, p := range r.header {
		list = append(list, p.describe("header"))
	}
	return list
}

func (p param) describe(in string) *huma.Param {
	schema := &huma.Schema{Type: p.kind}
	switch {
	case p.kind == idKind:
		schema = &huma.Schema{Type: huma.TypeString, Format: "uuid"}
	case p.name == limitParam.name:
		least, most := 1.0, float64(daybook.ListMax)
		schema.Minimum, schema.Maximum = &least, &most
	}
	for _, w := range p.words {
		schema.Enum = append(schema.Enum, w)
	}
	return &huma.Param{Name: p.name, In: in, Description: p.about, Schema: schema}
}

func (s *Server) openapi(c *call) (any, error) {
	c.done = true
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(s.spec)))
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(s.spec)
	}
	return nil, nil
}

func (s *Server) docs(c *call) (any, error) {
	c.done = true
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.Header().Set("Content-Security-Policy", s.csp)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(s.page)))
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(s.page)
	}
	return nil, nil
}

// pageStyle is all of the page's looks: readable in light and dark, and on paper.
const pageStyle = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:0 auto;padding:1rem}code,pre{font:14px/1.45 ui-monospace,monospace}
pre{overflow:auto;padding:.6rem;border:1px solid #8886;border-radius:4px}
summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;min-width:3.2rem}
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}`

var page = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Daybook: HTTP API</title><style>{{.Style}}</style></head><body>
<h1>Daybook: HTTP API</h1><p>{{.About}}</p>
<p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
<nav>{{range .Groups}}<a href="#{{.Name}}">{{.Name}}</a> {{end}}</nav>
{{range .Groups}}<h2 id="{{.Name}}">{{.Name}}</h2>
{{range .Calls}}<details id="{{.ID}}"><summary><b>{{.Method}}</b> <code>{{.Path}}</code> {{.Summary}}</summary>
{{if .Scope}}<p>Wants a token with scope <code>{{.Scope}}</code>.</p>{{end}}
{{if .Params}}<table>{{range .Params}}<tr><td><code>{{.Name}}</code></td><td>{{.In}}</td><td>{{.About}}</td></tr>
{{end}}</table>{{end}}
{{if .Fields}}<table>{{range .Fields}}<tr><td><code>{{.Name}}</code></td><td>{{.In}}</td><td>{{.About}}</td></tr>
{{end}}</table>{{end}}
{{if .Body}}<p>Body:</p><pre>{{.Body}}</pre>{{end}}{{if .Answer}}<p>Answer:</p><pre>{{.Answer}}</pre>{{end}}
</details>
{{end}}{{end}}</body></html>
`))

type pageGroup struct {
	Name  string
	Calls []pageCall
}

type pageCall struct {
	ID, Method, Path, Summary, Scope, Body, Answer string
	Params, Fields                                 []pageField
}

type pageField struct{ Name, In, About string }

// makePage draws the page from the routes.
func (s *Server) makePage(registry huma.Registry) error {
	var groups []pageGroup
	for _, r := range s.routes {
		i := slices.IndexFunc(groups, func(g pageGroup) bool { return g.Name == r.tag() })
		if i < 0 {
			i, groups = len(groups), append(groups, pageGroup{Name: r.tag()})
		}
		call := pageCall{ID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Scope: string(r.scope),
			Body: pretty(r.example), Answer: pretty(r.answer), Fields: fieldsOf(registry, r.in)}
		for _, p := range r.parameters() {
			call.Params = append(call.Params, pageField{p.Name, p.In, p.Description})
		}
		groups[i].Calls = append(groups[i].Calls, call)
	}
	hash := sha256.Sum256([]byte(pageStyle))
	s.csp = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; frame-ancestors 'none'"
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{"Style": template.CSS(pageStyle), "About": about, "Groups": groups})
	s.page = b.Bytes()
	return err
}

// fieldsOf lists a body's fields as its type says them.
func fieldsOf(registry huma.Registry, t reflect.Type) (list []pageField) {
	if t == nil {
		return nil
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	schema := registry.Schema(t, false, "")
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			list = append(list, fieldsOf(registry, f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		in := "optional"
		if slices.Contains(schema.Required, name) {
			in = "required"
		}
		// A field hides one of its name that an embedded type has.
		list = slices.DeleteFunc(list, func(hidden pageField) bool { return hidden.Name == name })
		list = append(list, pageField{name, in, f.Tag.Get("doc")})
	}
	return list
}

// pretty lays an example out.
func pretty(doc string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(doc), "", "  ") != nil {
		return doc
	}
	return b.String()
}
