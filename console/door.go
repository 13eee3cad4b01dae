package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// door decides who comes in. A session is a signed cookie: it names a token and
// when it ends, and lets nobody in whose token is gone.
type door struct {
	console *Console
	key     [32]byte // of this process: a restart asks everybody for their token again

	mu     sync.Mutex
	tokens daybook.Tokens
	read   time.Time
}

const (
	// sessionMax is how long a login lasts.
	sessionMax = 12 * time.Hour
	// tokensEvery is how long the book's tokens are believed.
	tokensEvery = 2 * time.Second
)

// visit is one browser's session.
type visit struct {
	Token   string       `json:"t,omitempty"` // its name; "" is nobody's
	Made    daybook.Time `json:"m,omitempty"` // when that token was made: another of its name is another
	Nonce   string       `json:"n"`
	Expires int64        `json:"e"` // Unix seconds
}

func (d *door) cookieName() string {
	return "daybook_" + hex.EncodeToString(d.mac("name", "")[:4]) // cookies don't tell ports apart
}

func (d *door) mac(what, of string) []byte {
	h := hmac.New(sha256.New, d.key[:])
	h.Write([]byte(what + ":" + of))
	return h.Sum(nil)
}

// visitOf reads the session of a request; a missing, forged or old one is false.
func (d *door) visitOf(r *http.Request) (v visit, ok bool) {
	cookie, err := r.Cookie(d.cookieName())
	if err != nil {
		return v, false
	}
	body, sum, _ := strings.Cut(cookie.Value, ".")
	given, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !hmac.Equal(given, d.mac("visit", body)) {
		return v, false
	}
	doc, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || json.Unmarshal(doc, &v) != nil || time.Now().Unix() >= v.Expires {
		return visit{}, false
	}
	return v, true
}

// begin gives the browser a session, of a token or of nobody.
func (d *door) begin(w http.ResponseWriter, r *http.Request, token daybook.Token) visit {
	var nonce [16]byte
	rand.Read(nonce[:])
	v := visit{Token: token.Name, Made: token.CreatedAt, Nonce: hex.EncodeToString(nonce[:]),
		Expires: time.Now().Add(sessionMax).Unix()}
	doc, _ := json.Marshal(v)
	body := base64.RawURLEncoding.EncodeToString(doc)
	d.cookie(w, r, body+"."+base64.RawURLEncoding.EncodeToString(d.mac("visit", body)), sessionMax)
	return v
}

func (d *door) cookie(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	seconds := int(age.Seconds())
	if value == "" {
		seconds = -1
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Value: value, Path: d.console.base + "/", MaxAge: seconds,
		HttpOnly: true, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
		SameSite: http.SameSiteStrictMode})
}

// formKey is what every form of a session must bring along.
func (d *door) formKey(v visit) string {
	return base64.RawURLEncoding.EncodeToString(d.mac("form", v.Nonce))
}

// enter says who asks. An error is for nobody who may see anything.
func (d *door) enter(w http.ResponseWriter, r *http.Request) (who Viewer, v visit, err error) {
	who, v, known, err := d.known(r)
	if err == nil && !known && v.Nonce == "" {
		v = d.begin(w, r, daybook.Token{})
	}
	return who, v, err
}

// known is enter without a session for who has none yet.
func (d *door) known(r *http.Request) (who Viewer, v visit, known bool, err error) {
	v, known = d.visitOf(r)
	if d.console.opts.Who != nil {
		if who, ok := d.console.opts.Who(r); ok {
			return who, v, known, nil
		}
		return who, v, known, daybook.Fail(codeUnauthorized, "sign in first")
	}
	tokens, err := d.current(r.Context())
	if err != nil {
		return who, v, known, err
	}
	if d.console.opts.Loopback && len(tokens.List()) == 0 {
		if !thisMachine(r.Host) {
			return who, v, known, daybook.Fail(codeForbidden, "without a token the console is there for localhost only")
		}
		return Viewer{Name: "local", Operate: true}, v, known, nil
	}
	for _, t := range tokens.List() {
		if known && v.Token != "" && t.Name == v.Token && t.CreatedAt == v.Made && t.Live(tokens.At) {
			return viewerOf(t), v, known, mayRead(t)
		}
	}
	return who, v, known, daybook.Fail(codeUnauthorized, "log in with a token")
}

func viewerOf(t daybook.Token) Viewer {
	return Viewer{Name: t.Name, Operate: t.Allows(daybook.ScopeOperate), Sensitive: t.Allows(daybook.ScopeSensitive)}
}

func mayRead(t daybook.Token) error {
	if t.Allows(daybook.ScopeRead) || t.Allows(daybook.ScopeOperate) {
		return nil
	}
	return daybook.Fail(codeForbidden, "this token has no scope read; the console wants one that has")
}

// current are the book's tokens as of a moment ago.
func (d *door) current(ctx context.Context) (daybook.Tokens, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.read.IsZero() && time.Since(d.read) < tokensEvery {
		return d.tokens, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	asked := time.Now()
	tokens, err := d.console.book.Tokens(ctx)
	if err == nil {
		d.tokens, d.read = tokens, asked
	}
	return tokens, err
}

// sameSite refuses a change that another site's page sent, whoever's session it
// brings: by where the browser says it is from, and by the session's form key.
func (d *door) sameSite(r *http.Request, v visit) error {
	refused := daybook.Fail(codeForbidden, "this form is not of this session, or from another site; "+
		"load the page again and repeat it there")
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return refused
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return refused
		}
	}
	if !hmac.Equal([]byte(r.PostFormValue("form")), []byte(d.formKey(v))) || v.Nonce == "" {
		return refused
	}
	return nil
}

// thisMachine reports whether a Host header names this machine: a page that made
// its own name point here (DNS rebinding) doesn't.
func thisMachine(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
