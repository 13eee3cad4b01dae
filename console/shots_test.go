package console

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// shotMax bounds a picture, in bytes: they are part of the repository.
const shotMax = 150 << 10

// TestShots makes the pictures of docs/console.md in the folder that it is told:
// make shots.
func TestShots(t *testing.T) {
	to := os.Getenv("DAYBOOK_SHOTS")
	if to == "" {
		return
	}
	whole := os.Getenv("DAYBOOK_SHOTS_WHOLE") != "" // the whole page, and every one, to look at
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	s.playCutover("legacy")
	s.evening(330)
	c := s.play()
	_, err := s.book.TakePass(t.Context(), time.Second)
	s.ok(err)
	s.console.check.change(func(run *checkRun) {
		*run = checkRun{Going: true, By: "ada", Reason: "after the power cut", Begun: time.Now()}
	})
	s.console.runCheck(false)
	b := s.tab(1280, 800)
	for _, p := range []struct {
		name, path string
		kept       bool
	}{{"overview", "/", true}, {"job", "/job/" + c.fenced.String(), true}, {"aside", "/aside", true},
		{"gaps", "/gaps", true},
		{"cutover", "/cutover/legacy", true}, {"cutovers", "/cutovers", false},
		{"settle", "/job/" + c.open.String() + "/settle/bank", true},
		{"jobs", "/jobs?state=set_aside", false}, {"job-open", "/job/" + c.open.String(), false},
		{"effects", "/effects", false}, {"queues", "/queues", false}, {"workers", "/workers", false},
		{"bells", "/bells", false}, {"check", "/check", false}, {"keys", "/keys", false}, {"login", "/login", false},
		{"batch", "/batch?move=revive&state=set_aside&reason=failures", false}} {
		if !p.kept && !whole {
			continue
		}
		for _, theme := range []string{"light", "dark"} {
			for _, size := range []struct {
				name string
				w, h int64
			}{{"desktop", 1280, 800}, {"phone", 390, 844}} {
				b.scheme(theme)
				s.ok(chromedp.Do(b.ctx, chromedp.EmulateViewport(size.w, size.h)))
				b.open(p.path)
				take := chromedp.CaptureScreenshot()
				if whole {
					take = chromedp.FullScreenshot(100)
				}
				picture, err := chromedp.Run(b.ctx, take)
				s.ok(err)
				name := p.name + "-" + size.name + "-" + theme + ".png"
				if len(picture) > shotMax && !whole {
					t.Errorf("%s has %d bytes, at most %d", name, len(picture), shotMax)
				}
				s.ok(os.WriteFile(filepath.Join(to, name), picture, 0o644))
			}
		}
	}
}
