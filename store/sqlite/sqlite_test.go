package sqlite_test

import (
	"cmp"
	"log/slog"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, o storetest.Options) *daybook.Book {
		book, err := sqlite.Open(t.Context(), cmp.Or(o.Path, sqlite.Memory), sqlite.Options{Now: o.Now, Wrap: o.Wrap,
			Book: daybook.Options{Hook: o.Hook, Bell: o.Bell, Log: slog.New(slog.DiscardHandler)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { book.Close() })
		return book
	})
}
