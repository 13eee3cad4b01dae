package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/daybookdev/daybook/console"
	"github.com/daybookdev/daybook/store/sqlite"
)

// A program that signs people in itself mounts the console below a path of its
// own.
func Example() {
	ctx := context.Background()
	book, err := sqlite.Open(ctx, sqlite.Memory, sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer book.Close()
	pages := console.New(book, console.Options{
		Base: "/admin/jobs",
		Who: func(r *http.Request) (console.Viewer, bool) {
			name, _, ok := r.BasicAuth() // whatever the program has
			return console.Viewer{Name: name, Operate: name == "ada"}, ok
		},
	})
	defer pages.Close()
	mux := http.NewServeMux()
	mux.Handle("/admin/jobs/", pages)

	r := httptest.NewRequest("GET", "/admin/jobs/queues", nil)
	r.SetBasicAuth("ada", "secret")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
