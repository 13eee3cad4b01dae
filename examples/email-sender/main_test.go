package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// Each person is welcomed once, however often the program runs.
func TestWelcomeOnce(t *testing.T) {
	dir := t.TempDir()
	path, post := filepath.Join(dir, "mail.db"), postOffice{filepath.Join(dir, "outbox")}
	for range 2 {
		if err := run(t.Context(), path, post, []string{"ada@example.org", "eve@example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := mails(t, post); len(got) != 2 || !strings.Contains(strings.Join(got, ""), "To: ada@example.org\r\n") {
		t.Errorf("got mails %q, want one for each", got)
	}
	jobs := jobsOf(t, path)
	for _, j := range jobs {
		if j.State != daybook.Succeeded || j.Generation != 1 {
			t.Errorf("job %s is %s at generation %d, want succeeded at the first", j.ID, j.State, j.Generation)
		}
	}
	if len(jobs) != 2 {
		t.Errorf("got %d jobs, want 2", len(jobs))
	}
}

// A mail handed over twice, as after a crash, goes out once.
func TestSameKeySameMail(t *testing.T) {
	post := postOffice{t.TempDir()}
	for _, key := range []string{"k1", "k1", "k2"} {
		if err := post.Send(t.Context(), "ada@example.org", key); err != nil {
			t.Fatal(err)
		}
	}
	if got := mails(t, post); len(got) != 2 {
		t.Errorf("got %d mails, want one per key", len(got))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := post.Send(ended, "ada@example.org", "k3"); err == nil || len(mails(t, post)) != 2 {
		t.Errorf("a mail went out after the claim's context had ended: %v", err)
	}
}

func mails(t *testing.T, post postOffice) (texts []string) {
	t.Helper()
	entries, err := os.ReadDir(post.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(post.dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func jobsOf(t *testing.T, path string) []daybook.Job {
	t.Helper()
	book, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	page, err := book.Jobs(t.Context(), daybook.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}
