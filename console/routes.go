package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// themeCookie keeps the choice between light and dark. It says nothing else, so
// scripts may read it.
const themeCookie = "daybook_theme"

// formMax bounds a form, in bytes: a result is the largest field.
const formMax = 2*daybook.ResultMax + 64<<10

// method is what answers a method of a path.
type method func(a *ask) error

// routes fills the mux. Each path lists its methods; HEAD goes where GET goes.
func (c *Console) routes() {
	for _, p := range c.pages {
		c.at(p.path, c.serve(p), nil)
	}
	c.at("/live", c.stream, nil)
	c.at("/job/{id}/{move}", c.askMove, c.doMove)
	c.at("/job/{id}/settle/{effect}", c.askSettle, c.doSettle)
	c.at("/queue/{queue}/{move}", c.askQueue, c.doQueue)
	c.at("/quiet", c.askQuiet, c.doQuiet)
	c.at("/batch", c.askBatch, c.doBatch)
	c.at("/check/run", nil, c.doCheck)
	c.at("/theme", nil, c.doTheme)
	c.at("/logout", nil, c.doLogout)
	c.mux.HandleFunc("/login", c.login)
	c.mux.HandleFunc("/assets/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			c.refuseMethod(w, r, "GET, HEAD")
			return
		}
		c.assets(w, r)
	})
}

// at answers a path: get and its HEAD to whoever may see, post to whoever may
// decide, from a form of their session.
func (c *Console) at(path string, get, post method) {
	var allowed []string
	if get != nil {
		allowed = append(allowed, http.MethodGet, http.MethodHead)
	}
	if post != nil {
		allowed = append(allowed, http.MethodPost)
	}
	c.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		do := get
		switch {
		case r.Method == http.MethodPost && post != nil:
			do = post
		case get == nil || r.Method != http.MethodGet && r.Method != http.MethodHead:
			c.refuseMethod(w, r, strings.Join(allowed, ", "))
			return
		}
		c.answer(w, r, do)
	})
}

func (c *Console) refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	c.fail(w, r, daybook.Fail(codeMethod, "this page takes %s", allowed))
}

// answer lets a request in and carries it out.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, do method) {
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, formMax)
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, daybook.Fail(daybook.CodeTooLarge, "the form can't be read, or is too large"))
			return
		}
	}
	who, visit, err := c.door.enter(w, r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	ctx := r.Context()
	if r.URL.Path != "/live" {
		bounded, cancel := context.WithTimeout(ctx, pageMax)
		defer cancel()
		ctx = bounded
	}
	a := &ask{ctx: ctx, w: w, r: r, query: r.URL.Query(), who: who, visit: visit}
	if r.Method == http.MethodPost {
		err = c.door.sameSite(r, visit)
		if err == nil && !who.Operate && r.URL.Path != "/theme" && r.URL.Path != "/logout" {
			err = daybook.Fail(codeForbidden, "only a token with scope operate may decide; this one may look")
		}
	}
	if err == nil {
		err = do(a)
	}
	if err != nil && !c.turn(w, r, err) {
		c.fail(w, r, err)
	}
}

// refuse answers somebody who may not come in: with the way to the login, if
// there is one.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	login := statusOf(err) == http.StatusUnauthorized && c.opts.Who == nil && r.URL.Path != "/live"
	if !login || r.Method != http.MethodGet {
		c.fail(w, r, err)
		return
	}
	// A link in another site's page brings no cookie that is strict; the same link
	// from a page of ours does.
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		a := &ask{ctx: r.Context(), w: w, r: r, page: bare("again", "One moment")}
		if err := c.show(a, http.StatusOK, c.base+r.URL.RequestURI()); err != nil {
			c.fail(w, r, err)
		}
		return
	}
	to := c.base + "/login"
	if back := r.URL.RequestURI(); back != "/" {
		to += "?" + query("to", back)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// door is what the login page shows.
type loginPage struct {
	To     string
	Failed bool
}

// login takes a token and gives a session.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	a := &ask{ctx: r.Context(), w: w, r: r, page: bare("login", "Log in")}
	var known bool
	a.visit, known = c.door.visitOf(r)
	switch {
	case c.opts.Who != nil:
		c.fail(w, r, daybook.Fail(daybook.CodeNotFound, "the program around the console signs people in"))
		return
	case r.Method == http.MethodPost:
		c.doLogin(a)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		c.refuseMethod(w, r, "GET, HEAD, POST")
		return
	}
	if !known {
		a.visit = c.door.begin(w, r, daybook.Token{})
	}
	if err := c.show(a, http.StatusOK, loginPage{To: local(r.URL.Query().Get("to"))}); err != nil {
		c.fail(w, r, err)
	}
}

func (c *Console) doLogin(a *ask) {
	a.r.Body = http.MaxBytesReader(a.w, a.r.Body, 16<<10)
	if err := a.r.ParseForm(); err != nil {
		c.fail(a.w, a.r, daybook.Fail(daybook.CodeTooLarge, "the form can't be read, or is too large"))
		return
	}
	if err := c.door.sameSite(a.r, a.visit); err != nil {
		c.fail(a.w, a.r, err)
		return
	}
	tokens, err := c.door.current(a.ctx)
	if err != nil {
		c.fail(a.w, a.r, err)
		return
	}
	to := local(a.r.PostFormValue("to"))
	token, found := tokens.Find(strings.TrimSpace(a.r.PostFormValue("token")))
	if !found || mayRead(token) != nil {
		c.log.Warn("a login to the console was refused", "known", found)
		if err := c.show(a, http.StatusUnauthorized, loginPage{To: to, Failed: true}); err != nil {
			c.fail(a.w, a.r, err)
		}
		return
	}
	c.door.begin(a.w, a.r, token) // a new one: nobody who knew the old one has it
	http.Redirect(a.w, a.r, c.base+to, http.StatusSeeOther)
}

func (c *Console) doLogout(a *ask) error {
	c.door.cookie(a.w, a.r, "", 0)
	http.Redirect(a.w, a.r, c.base+"/login", http.StatusSeeOther)
	return nil
}

func (c *Console) doTheme(a *ask) error {
	theme := a.r.PostFormValue("theme")
	age := 365 * 24 * time.Hour
	if theme != "light" && theme != "dark" {
		theme, age = "", -time.Second
	}
	http.SetCookie(a.w, &http.Cookie{Name: themeCookie, Value: theme, Path: c.base + "/", MaxAge: int(age.Seconds()),
		SameSite: http.SameSiteStrictMode})
	http.Redirect(a.w, a.r, c.base+local(a.r.PostFormValue("to")), http.StatusSeeOther)
	return nil
}

// local is a path of this console, whatever was asked for.
func local(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\x00") {
		return "/"
	}
	return to
}
