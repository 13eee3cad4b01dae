package console

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// browserWanted reports whether tests in a real browser are asked for. Asked for and
// missing is a failure.
func browserWanted(t *testing.T) bool {
	if os.Getenv("DAYBOOK_TEST_BROWSER") == "" {
		t.Log("no browser is asked for; DAYBOOK_TEST_BROWSER=1 runs this test")
		return false
	}
	return true
}

// chrome is the one browser of this process; each test has a tab of its own.
var chrome struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startChrome() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		chrome.err = fmt.Errorf("no Chromium here; Debian: apt-get install -y chromium")
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	chrome.ctx, chrome.stop = ctx, func() { cancel(); free() }
	chrome.err = chromedp.Do(ctx)
}

// browsed ends the browser behind the tests.
type browsed struct{ *testing.M }

// Run runs the tests.
func (b browsed) Run() int {
	status := b.M.Run()
	if chrome.stop != nil {
		chrome.stop()
	}
	return status
}

// tab is one tab of the browser, on a stage.
type tab struct {
	*stage
	ctx     context.Context
	dialogs atomic.Int32
}

func (s *stage) tab(width, height int64) *tab {
	s.Helper()
	chrome.once.Do(startChrome)
	s.ok(chrome.err)
	ctx, cancel := chromedp.NewContext(chrome.ctx)
	s.Cleanup(cancel)
	b := &tab{stage: s, ctx: ctx}
	s.ok(chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
	s.ok(chromedp.Listen(ctx, func(event any) {
		if _, ok := event.(*cdp.EventJavascriptDialogOpening); ok {
			b.dialogs.Add(1)
		}
	}))
	return b
}

// scheme is what the system of the browser's person prefers.
func (b *tab) scheme(name string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	b.ok(err)
}

func (b *tab) open(path string) {
	b.Helper()
	b.ok(chromedp.Do(b.ctx, chromedp.Navigate(b.url+path)))
}

// js asks the page. The page's own policy doesn't hold for who debugs it.
func js[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression[:min(len(expression), 80)], err)
	}
	return v
}

// has reports whether an element that a selector finds says a text. A page that
// goes away while it is asked says nothing.
func (b *tab) has(css, text string) bool {
	says, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`[...document.querySelectorAll(%q)]
		.some(e => e.innerText.replace(/\s+/g, " ").includes(%q))`, css, text)))
	return err == nil && says
}

// sees waits until it has.
func (b *tab) sees(css, text string) {
	b.Helper()
	defer func() {
		if b.Failed() {
			b.Log(js[string](b, "location.href + '\\n' + (document.body ? document.body.innerText : 'no page')"))
		}
	}()
	b.until(func() bool { return b.has(css, text) })
}

// click clicks on what a selector finds that says a text, as a finger would.
func (b *tab) click(css, text string) {
	b.Helper()
	b.sees(css, text)
	at := js[[]float64](b, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].find(e => e.innerText.replace(/\s+/g, " ").includes(%q));
		e.scrollIntoView({block: "center"});
		const r = e.getClientRects()[0];
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, css, text))
	b.ok(chromedp.Do(b.ctx, chromedp.MouseClickXY(at[0], at[1])))
}

// types puts a text into a field.
func (b *tab) types(css, text string) {
	b.Helper()
	b.until(func() bool { return js[bool](b, fmt.Sprintf(`!!document.querySelector(%q)`, css)) })
	b.ok(chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS(css), text)))
}

// shortcut presses keys that the page's script knows, when it is there.
func (b *tab) shortcut(keys ...string) {
	b.Helper()
	b.sees("[data-live-state]", "live")
	b.press(keys...)
}

// press presses keys on whatever has the focus.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.ok(chromedp.Do(b.ctx, chromedp.KeyEvent(key)))
	}
}

// focus presses Tab until something has the focus that says a text, or is named so.
func (b *tab) focus(text string) {
	b.Helper()
	seen := []string{}
	for range 150 {
		now := js[string](b, `(() => { const e = document.activeElement;
			return (e.innerText || "").replace(/\s+/g, " ") + " " +
				(e.labels ? [...e.labels].map(l => l.innerText).join(" ") : ""); })()`)
		if strings.Contains(now, text) && now != "" && len(now) < 400 {
			return
		}
		seen = append(seen, strings.TrimSpace(now[:min(len(now), 40)]))
		b.press(kb.Tab)
	}
	b.Fatalf("Tab never came to %q: %q", text, seen)
}

// payer works the queue pay off: it calls the bank unless the ledger says that it
// was called.
func (s *stage) payer(queue string) {
	s.Helper()
	w := worker.New(s.book, worker.Config{Queues: []string{queue}, Name: "payer", Poll: 50 * time.Millisecond,
		Lease: time.Minute})
	w.HandleRaw("", func(ctx context.Context, j daybook.Job) daybook.Outcome {
		return daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: json.RawMessage(`"paid"`)}
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// The walk of the night: what needs a person, why, is a retry safe, settle what is
// open, and watch the job succeed; revive another one; pause a queue.
func TestBrowserWalk(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	s.play()
	b := s.tab(1280, 800)
	b.open("/")
	b.sees(".needs", "19 jobs set aside")
	b.click(".need a", "See why")
	b.sees("h1", "Set aside")
	b.click(".group a", "charge")
	b.sees(".why", "Not safe to retry: effect bank was begun and nobody knows whether it happened")
	b.click("a.act", "Settle bank")
	b.sees("h1", "Settle effect bank")
	b.click("label", "It happened.")
	b.types("#result", `{"receipt": 4711}`)
	b.types("#reason", "seen in the account")
	b.click("button", "Settle it")
	b.sees(".said", "Settled")
	b.sees("h1", "waiting")
	s.payer("pay")
	b.sees("h1", "succeeded") // the page follows; nobody loads it
	b.sees(".timeline .person", "seen in the account")
	b.sees(".timeline", "by worker payer")
	b.open("/aside?reason=permanent")
	b.click(".group a", "Revive these")
	b.sees(".known-facts", "4 jobs with this error now")
	b.types("#reason", "the template is there")
	b.click("button", "Revive what is safe")
	b.sees(".calm", "4 jobs done")
	b.open("/queues")
	b.click("a.act", "Pause… mail")
	b.types("#reason", "the relay is down")
	b.click("button", "Pause the queue")
	b.sees("table", "the relay is down")
	s.playCutover("legacy")
	b.open("/")
	b.click("nav a", "Cutovers")
	b.click("table a", "legacy")
	b.sees(".claimants .may", "Nobody may claim")
	b.click(".opens a", "jid-0")
	b.sees(".timeline", "it was killed")
	if n := b.dialogs.Load(); n > 0 {
		t.Errorf("%d dialogs", n)
	}
}

// The same with the keyboard alone.
func TestBrowserKeyboard(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	c := s.play()
	b := s.tab(1280, 800)
	b.open("/")
	b.press(kb.Tab)
	if !b.has(":focus", "Skip to the page") {
		t.Error("the first Tab doesn't offer to skip to the page")
	}
	b.shortcut("g", "e")
	b.sees("h1", "Effects")
	b.focus("Settle…")
	b.press(kb.Enter)
	b.sees("h1", "Settle effect bank")
	b.focus("It happened.")
	b.press(" ")
	b.focus("Reason")
	b.press("looked", kb.Enter)
	b.sees(".said", "Settled")
	b.shortcut("g", "q")
	b.sees("h1", "Queues")
	b.focus("Resume… exports")
	b.press(kb.Enter)
	b.sees("h1", "Resume queue exports")
	b.focus("Reason")
	b.press("space again", kb.Enter)
	b.sees(".said", "Resumed")
	b.shortcut("/")
	b.until(func() bool { return js[bool](b, `document.activeElement.id === "find"`) })
	b.press(kb.Backspace, c.failed.String(), kb.Enter) // these keys, other than a person's, are typed all the same
	b.sees(".id", c.failed.String())
	b.shortcut("?")
	b.sees("h1", "Keys and words")
	ring := js[string](b, `(() => { document.querySelector("nav a").focus({focusVisible: true});
		return getComputedStyle(document.activeElement).outlineStyle; })()`)
	if ring != "solid" {
		t.Errorf("the focus has a ring of %s", ring)
	}
}

// The same without JavaScript.
func TestBrowserWithoutScript(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	c := s.play()
	b := s.tab(1280, 800)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	s.ok(err)
	b.open("/aside")
	b.click(".group a", "charge")
	b.click("a.act", "Settle bank")
	b.click("label", "It didn’t happen.")
	b.types("#reason", "not in the account")
	b.click("button", "Settle it")
	b.sees("h1", "waiting")
	s.payer("pay")
	s.until(func() bool {
		b.open("/job/" + c.open.String())
		return b.has("h1", "succeeded")
	})
	b.open("/queues")
	b.click("a.act", "Pause… mail")
	b.types("#reason", "the relay is down")
	b.click("button", "Pause the queue")
	b.sees("table", "the relay is down")
	b.click("button", "Set") // the theme has a button then
	b.sees("h1", "Queues")
}

// On a phone nothing is wider than the screen, and the walk works by touch.
func TestBrowserPhone(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	c := s.play()
	ids := s.hostileBook()
	s.playCutover("legacy")
	b := s.tab(390, 844)
	for _, path := range append(c.paths(), "/cutover/legacy", "/job/"+ids[0].String(), "/job/"+ids[1].String(), "/login") {
		b.open(path)
		if wide := js[int](b, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d pixels wide: %s", path, wide, js[string](b, `[...document.querySelectorAll("body *")]
				.filter(e => e.getBoundingClientRect().right > 391 && !e.closest("nav, .drawing"))
				.slice(0, 4).map(e => e.tagName + "." + e.getAttribute("class")).join(" ")`))
		}
	}
	b.open("/effects")
	b.click("a.act", "Settle…")
	b.click("label", "It happened.")
	b.types("#reason", "seen on the way home")
	b.click("button", "Settle it")
	b.sees(".said", "Settled")
}

// Script in any field runs nowhere, also where a page follows the book.
func TestBrowserHostile(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	ids := s.hostileBook()
	b := s.tab(1280, 800)
	for _, path := range hostilePaths(ids) {
		b.open(path)
		found := js[string](b, `[...document.querySelectorAll("img, script:not([src]), iframe, [onerror], [style]")]
			.map(e => e.outerHTML).join()`)
		scripts := js[int](b, `document.scripts.length`)
		if found != "" || scripts > 1 {
			t.Errorf("%s has %s and %d scripts", path, found, scripts)
		}
	}
	b.open("/job/" + ids[3].String()) // a live one: what the stream brings is inert too
	b.sees("h1", "running")
	_, err := s.book.Cancel(t.Context(), ids[3], daybook.By{Actor: hostile, Reason: hostile}, true)
	s.ok(err)
	b.sees("h1", "cancelled")
	b.sees(".timeline", "<img src=x onerror=alert(1)>")
	if found := js[int](b, `document.querySelectorAll("img, [onerror]").length`); found > 0 || b.dialogs.Load() > 0 {
		t.Errorf("%d elements and %d dialogs came by the stream", found, b.dialogs.Load())
	}
}

// violation is what axe found.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// axe finds nothing serious on any page, in both themes.
func TestBrowserAxe(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	out, err := exec.CommandContext(t.Context(), "./axe.sh").Output()
	if err != nil {
		t.Fatalf("axe-core isn't here: run console/axe.sh, it says why: %v", err)
	}
	script, err := os.ReadFile(filepath.Clean(strings.TrimSpace(string(out))))
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	c := s.play()
	b := s.tab(1280, 800)
	s.playCutover("legacy")
	job := "/job/" + c.open.String()
	for _, path := range []string{"/", "/jobs", "/jobs?state=set_aside", job, "/job/" + c.fenced.String(), "/aside",
		"/effects", "/queues", "/workers", "/bells", "/check", "/gaps", "/keys", job + "/settle/bank", job + "/cancel",
		"/queue/mail/pause", "/batch?move=revive&state=set_aside", "/login", "/nothing",
		"/cutovers", "/cutover/legacy"} {
		for _, theme := range []string{"light", "dark"} {
			b.scheme(theme)
			b.open(path)
			js[chromedp.Void](b, string(script)+"; undefined")
			found := js[[]violation](b, `axe.run().then(r => r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help,
				Nodes: v.nodes.slice(0, 3).map(n => ({HTML: n.html + " " + n.failureSummary}))})))`)
			for _, v := range found {
				if v.Impact == "serious" || v.Impact == "critical" {
					t.Errorf("%s in %s: %s: %s: %v", path, theme, v.Impact, v.Help, v.Nodes)
				} else {
					t.Logf("%s in %s: %s: %s: %v", path, theme, v.Impact, v.Help, v.Nodes)
				}
			}
		}
	}
}
