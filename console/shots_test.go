package console

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// chromium starts a browser of its own for a test; a missing one fails the test.
func chromium(t *testing.T, width, height int64) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium here; Debian: apt-get install -y chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.WindowSize(int(width), int(height)))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, free := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(free)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// scheme is what the system of the browser's person prefers.
func scheme(ctx context.Context, name string) error {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	return err
}

// TestShots makes the pictures of docs/console.md when it is told to.
func TestShots(t *testing.T) {
	to := os.Getenv("DAYBOOK_SHOTS")
	if to == "" {
		return
	}
	s := newStage(t)
	s.evening()
	c := s.play()
	ctx := chromium(t, 1280, 800)
	for _, p := range []struct{ name, path string }{{"overview", "/"}, {"jobs", "/jobs?state=set_aside"},
		{"job", "/job/" + c.open.String()}, {"job-fenced", "/job/" + c.fenced.String()}, {"aside", "/aside"},
		{"effects", "/effects"}, {"queues", "/queues"}, {"workers", "/workers"}, {"bells", "/bells"}, {"check", "/check"},
		{"gaps", "/gaps"}, {"settle", "/job/" + c.open.String() + "/settle/bank"}, {"keys", "/keys"},
		{"batch", "/batch?move=revive&state=set_aside&reason=failures"}} {
		for _, light := range []string{"light", "dark"} {
			for _, size := range []struct {
				name string
				w, h int64
			}{{"desktop", 1280, 800}, {"phone", 390, 844}} {
				s.ok(scheme(ctx, light))
				s.ok(chromedp.Do(ctx, chromedp.EmulateViewport(size.w, size.h), chromedp.Navigate(s.url+p.path)))
				picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				s.ok(err)
				s.ok(os.WriteFile(filepath.Join(to, p.name+"-"+size.name+"-"+light+".png"), picture, 0o644))
			}
		}
	}
}
