package check_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/sqlite"
)

func scratch(t *testing.T) func() (*daybook.Book, error) {
	return func() (*daybook.Book, error) { return sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{}) }
}

func TestSelftestFiresEveryInvariant(t *testing.T) {
	var out bytes.Buffer
	if err := check.Selftest(t.Context(), scratch(t), sqlite.Break, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := len(lines), len(daybook.Invariants)+1; got != want {
		t.Fatalf("got %d lines, want %d:\n%s", got, want, out.String())
	}
	for i, invariant := range daybook.Invariants {
		fields := strings.Fields(lines[i+1])
		want := "1" // row that was broken
		if invariant.Name == "origin-once" {
			want = "2" // share one origin
		}
		if fields[0] != "ok" || fields[1] != invariant.Name || fields[2] != want {
			t.Errorf("got %q, want ok, %s and %s", lines[i+1], invariant.Name, want)
		}
	}
}

func TestSelftestTellsOfASilentInvariant(t *testing.T) {
	var out bytes.Buffer
	but := func(ctx context.Context, book *daybook.Book, invariant string) error {
		if invariant == "held-claim" {
			return nil // nothing is broken, so nothing fires
		}
		return sqlite.Break(ctx, book, invariant)
	}
	err := check.Selftest(t.Context(), scratch(t), but, &out)
	if err == nil || !strings.Contains(err.Error(), "1 of ") || !strings.Contains(err.Error(), "held-claim") {
		t.Errorf("got %v, want an error that names held-claim alone", err)
	}
	if !strings.Contains(out.String(), "SILENT  held-claim") {
		t.Errorf("the table doesn't show it:\n%s", out.String())
	}
}

func TestSelftestRefusesABookBrokenBefore(t *testing.T) {
	open := func() (*daybook.Book, error) {
		book, err := scratch(t)()
		if err == nil {
			_, err = book.Enqueue(t.Context(), daybook.Request{Queue: "before", Kind: "k"})
		}
		if err == nil {
			err = sqlite.Break(t.Context(), book, "args-json")
		}
		return book, err
	}
	err := check.Selftest(t.Context(), open, sqlite.Break, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "args-json") {
		t.Errorf("got %v, want an error that names args-json", err)
	}
}
