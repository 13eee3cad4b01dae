package main

import (
	"context"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// A server whose file can't grow says that it isn't ready, and is again once
// there is room; in between it doesn't try for each who asks.
func TestReadyWithoutRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full.db")
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	limited := func(c driver.Connector) driver.Connector { return limitedFile{c, 1} } // as many as there are
	book, err := sqlite.Open(t.Context(), path, sqlite.Options{Wrap: limited})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	full := &readiness{db: &sqliteDatabase{}, book: book}
	found := full.check(t.Context())
	if daybook.CodeOf(found) != daybook.CodeUnavailable || !strings.Contains(found.Error(), "no room is left") {
		t.Fatalf("got %v, want that no room is left", found)
	}
	roomy, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer roomy.Close()
	full.book = roomy
	if again := full.check(t.Context()); again == nil || again.Error() != found.Error() {
		t.Errorf("got %v, want what was found a moment ago", again)
	}
	full.looked = time.Now().Add(-roomEvery)
	if err := full.check(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if left, err := roomy.Setting(t.Context(), probe); err != nil || left != "" {
		t.Errorf("the look left %q behind, %v", left, err)
	}
	// Who asks and leaves doesn't decide for the others.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	full.looked = time.Time{}
	if err := full.room(gone); err != nil {
		t.Errorf("somebody left: %v", err)
	}
}
