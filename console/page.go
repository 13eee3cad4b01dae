package console

import (
	"bytes"
	"context"
	"embed"
	"encoding/hex"
	"hash/fnv"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// page is one page. To add one: a line in pageTable, a template of its name under
// pages, and a function that loads what it shows.
type page struct {
	name  string // its template, pages/NAME.html
	title string
	path  string   // pattern under the base
	nav   bool     // it stands in the navigation
	key   string   // behind g: its shortcut
	live  []string // templates in it that follow the book
	load  func(c *Console, a *ask) (any, error)
}

// pageTable lists the pages, in the order of the navigation.
func pageTable() []*page {
	return []*page{
		{name: "overview", title: "Overview", path: "/{$}", nav: true, key: "o", live: []string{"now", "charts", "queues"},
			load: (*Console).loadOverview},
		{name: "jobs", title: "Jobs", path: "/jobs", nav: true, key: "j", live: []string{"rows"}, load: (*Console).loadJobs},
		{name: "aside", title: "Set aside", path: "/aside", nav: true, key: "a", live: []string{"groups"},
			load: (*Console).loadAside},
		{name: "effects", title: "Effects", path: "/effects", nav: true, key: "e", live: []string{"rows"},
			load: (*Console).loadEffects},
		{name: "queues", title: "Queues", path: "/queues", nav: true, key: "q", live: []string{"rows"},
			load: (*Console).loadQueues},
		{name: "workers", title: "Workers", path: "/workers", nav: true, key: "w", live: []string{"rows"},
			load: (*Console).loadWorkers},
		{name: "bells", title: "Bells", path: "/bells", nav: true, key: "b", live: []string{"rows"},
			load: (*Console).loadBells},
		{name: "cutovers", title: "Cutovers", path: "/cutovers", nav: true, key: "u", live: []string{"rows"},
			load: (*Console).loadCutovers},
		{name: "check", title: "Check", path: "/check", nav: true, key: "c",
			live: []string{"result", "rows"},
			load: (*Console).loadCheck},
		{name: "gaps", title: "Gaps", path: "/gaps", nav: true, key: "g", live: []string{"rows"}, load: (*Console).loadGaps},
		{name: "job", title: "Job", path: "/job/{id}", live: []string{"facts", "story"}, load: (*Console).loadJob},
		{name: "cutover", title: "Cutover", path: "/cutover/{name}", live: []string{"board", "items"},
			load: (*Console).loadCutover},
		{name: "batch", title: "Batch", path: "/batch/{n}", live: []string{"rows"}, load: (*Console).loadBatch},
		{name: "keys", title: "Keys and words", path: "/keys", load: (*Console).loadKeys},
	}
}

// ask is one request for a page, by somebody who may see it.
type ask struct {
	ctx   context.Context
	w     http.ResponseWriter
	r     *http.Request
	page  *page
	query url.Values
	who   Viewer
	visit visit
}

// view is what a template sees.
type view struct {
	Page    *page
	Title   string
	Pages   []*page
	Who     Viewer
	Form    string // the session's form key
	Theme   string // "", light or dark
	Stream  string // what the page follows; "" isn't live
	Here    string // path and query, to come back to
	Logged  bool   // there is a session to end
	Version string
	Book    string // where it is
	Data    any
}

// Name, PageTitle, Path and Key are for templates.
func (p *page) Name() string { return p.name }

// PageTitle is the page's title.
func (p *page) PageTitle() string { return p.title }

// Path is the page's path under the base.
func (p *page) Path() string { return strings.TrimSuffix(p.path, "{$}") }

// Key is the page's shortcut.
func (p *page) Key() string { return p.key }

// InNav reports whether the page stands in the navigation.
func (p *page) InNav() bool { return p.nav }

// viewOf makes what a template sees of a request.
func (c *Console) viewOf(a *ask, data any) view {
	v := view{Page: a.page, Title: a.page.title, Pages: c.pages, Who: a.who, Data: data, Version: c.opts.Version,
		Book:   c.opts.Book,
		Logged: a.visit.Token != "" && c.opts.Who == nil, Here: a.r.URL.RequestURI()}
	if v.Form = ""; a.visit.Nonce != "" {
		v.Form = c.door.formKey(a.visit)
	}
	if len(a.page.live) > 0 {
		at := a.r.URL.Path
		if encoded := a.query.Encode(); encoded != "" {
			at += "?" + encoded
		}
		v.Stream = c.base + "/live?at=" + url.QueryEscape(at)
	}
	if cookie, err := a.r.Cookie(themeCookie); err == nil && (cookie.Value == "dark" || cookie.Value == "light") {
		v.Theme = cookie.Value
	}
	if t, ok := data.(interface{ title() string }); ok {
		v.Title = t.title()
	}
	return v
}

// templates are the pages' templates by name, each with the layout and the parts.
type templates map[string]*template.Template

func (c *Console) parse() templates {
	made := templates{}
	entries, err := fs.ReadDir(pageFiles, "pages")
	if err != nil {
		panic(err) // the program was built without its pages
	}
	for _, e := range entries {
		name, _ := strings.CutSuffix(e.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		made[name] = template.Must(template.New(name).Funcs(c.funcs()).ParseFS(pageFiles, "pages/layout.html",
			"pages/parts.html", "pages/"+e.Name()))
	}
	return made
}

// part renders one named template of a page.
func (t templates) part(p *page, name string, v view) (string, error) {
	var b bytes.Buffer
	err := t[p.name].ExecuteTemplate(&b, name, v)
	return b.String(), err
}

// show renders a page whole, so that it can't end in the middle.
func (c *Console) show(a *ask, status int, data any) error {
	var b bytes.Buffer
	if err := c.made[a.page.name].ExecuteTemplate(&b, "layout", c.viewOf(a, data)); err != nil {
		return err
	}
	a.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.w.WriteHeader(status)
	if a.r.Method != http.MethodHead {
		_, _ = a.w.Write(b.Bytes())
	}
	return nil
}

// bare is a page outside of the table.
func bare(name, title string) *page { return &page{name: name, title: title} }

// problem is what the page of an error shows.
type problem struct {
	Status int
	Text   string
}

func (p problem) title() string { return http.StatusText(p.Status) }

// fail answers with an error's page.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == http.StatusInternalServerError {
		c.log.Error("a page failed", "path", r.URL.Path, "error", sayable(err))
		c.log.Debug("why a page failed", "error", err)
	}
	a := &ask{ctx: r.Context(), w: w, r: r, page: bare("problem", "Problem")}
	if who, visit, _, refused := c.door.known(r); refused == nil {
		a.who, a.visit = who, visit
	}
	text := sayable(err)
	if status == http.StatusInternalServerError && text == "" {
		text = "the console failed; its log says where"
	}
	if err := c.show(a, status, problem{status, text}); err != nil {
		http.Error(w, "the console failed", http.StatusInternalServerError)
	}
}

// pageAt is a request for the page at a path, as the asker sees it.
func (c *Console) pageAt(a *ask, at *url.URL) (*ask, error) {
	r := a.r.Clone(a.ctx)
	r.Method, r.URL = http.MethodGet, &url.URL{Path: at.Path, RawPath: at.RawPath, RawQuery: at.RawQuery}
	r.Pattern = ""
	_, pattern := c.mux.Handler(r)
	for _, p := range c.pages {
		if p.path == pattern && len(p.live) > 0 {
			out := *a
			out.page, out.r, out.query = p, r, at.Query()
			setPathValues(r, p.path)
			return &out, nil
		}
	}
	return nil, daybook.Invalid("at", "wants the path of a page here that is live")
}

// setPathValues does what a mux does for the one kind of pattern there is here.
func setPathValues(r *http.Request, pattern string) {
	want, got := strings.Split(pattern, "/"), strings.Split(r.URL.Path, "/")
	for i, part := range want {
		if strings.HasPrefix(part, "{") && i < len(got) {
			r.SetPathValue(strings.Trim(part, "{}"), got[i])
		}
	}
}

// pageMax bounds the time of making a page.
const pageMax = 15 * time.Second

// serve answers with a page of the table.
func (c *Console) serve(p *page) func(a *ask) error {
	return func(a *ask) error {
		a.page = p
		data, err := p.load(c, a)
		if err != nil {
			return err
		}
		return c.show(a, http.StatusOK, data)
	}
}

// assets answers /assets/NAME. Their addresses have a mark of what is in them.
func (c *Console) assets(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		c.fail(w, r, daybook.Fail(daybook.CodeNotFound, "there is no such file"))
		return
	}
	types := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
		"svg": "image/svg+xml"}
	w.Header().Set("Content-Type", types[name[strings.LastIndexByte(name, '.')+1:]])
	if r.URL.Query().Get("v") == markOf(text) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(text)
	}
}

func markOf(text []byte) string {
	h := fnv.New64a()
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}
