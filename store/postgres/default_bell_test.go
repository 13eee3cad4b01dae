package postgres

import (
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestDefaultBell: what one process enqueues wakes a listener of another, with
// nothing said about a bell.
func TestDefaultBell(t *testing.T) {
	url, name := pgtest.SharedURL(t), bookName("")
	o := Options{Schema: name, Book: daybook.Options{Log: quiet()}}
	_, err := Up(t.Context(), url, o, nil)
	ok(t, err)
	t.Cleanup(func() { drop(t, url, name) })
	var books [2]*daybook.Book
	for i := range books {
		books[i], err = Open(t.Context(), url, o)
		ok(t, err)
		defer books[i].Close()
	}
	rings, err := books[1].Bell().Listen(t.Context(), []string{"mail"})
	ok(t, err)
	<-rings // it can be heard
	_, err = books[0].Enqueue(t.Context(), daybook.Request{Queue: "mail", Kind: "k"})
	ok(t, err)
	if r := <-rings; r.Queue != "mail" {
		t.Errorf("heard %q", r.Queue)
	}
	ok(t, books[1].Close())
	if _, open := <-rings; open {
		t.Error("the bell rings after its book was closed")
	}
}
