package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestWritesBeginImmediate: a write transaction holds the file's write lock
// before it reads anything. One that read first and wrote later would fail at
// once when another process wrote in between, whatever the time-out (L49,
// gitmoot/gitmoot #2028), or decide from what is no longer true.
func TestWritesBeginImmediate(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "book.db")
	book, err := Open(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s := book.Store().(*Store)
	other, err := connect(ctx, connector{s.dsn(false, "deferred", time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	err = s.Write(ctx, "looking", func(daybook.Tx) error {
		if _, err := other.exec("BEGIN IMMEDIATE"); !isBusy(err) {
			t.Errorf("another connection took the write lock inside a write: %v", err)
			other.exec("ROLLBACK")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.exec("BEGIN IMMEDIATE"); err != nil {
		t.Errorf("the lock is held after the write: %v", err)
	}
	other.exec("ROLLBACK")
}
