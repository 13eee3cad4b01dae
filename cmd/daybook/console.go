package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/console"
	"github.com/daybookdev/daybook/reconcile"
)

// apiPaths are what the API answers; the rest is the console's.
var apiPaths = []string{"/v1", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics"}

// front sends calls to the API and people to the console.
func front(api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, path := range apiPaths {
			if r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") {
				api.ServeHTTP(w, r)
				return
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// repaired adds up what this process's reconciler did.
type repaired struct {
	mu  sync.Mutex
	all console.Repairs
}

func newRepaired() *repaired { return &repaired{all: console.Repairs{Since: time.Now()}} }

func (r *repaired) seen(p reconcile.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Passes++
	r.all.Ended += int64(p.Ended)
	r.all.Lost += int64(p.Lost)
	r.all.Overdue += int64(p.Overdue)
	r.all.Expired += int64(p.Expired)
	r.all.Rung += int64(p.Rung)
}

func (r *repaired) sum() console.Repairs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// consoleOptions are those of a served console. repairs is nil where the loops run
// elsewhere.
func consoleOptions(db database, book *daybook.Book, mine bool, sensitive []string, repairs *repaired) console.Options {
	o := console.Options{Loopback: mine, Sensitive: sensitive, Version: versionOf().Version, Book: db.name(),
		Check: func(ctx context.Context, full bool, seen func(int64)) (console.CheckReport, error) {
			return checkForConsole(ctx, book, full, seen)
		}}
	if repairs != nil {
		o.Repairs = repairs.sum
	}
	return o
}

// checkForConsole makes a check, and tells how far it is.
func checkForConsole(ctx context.Context, book *daybook.Book, full bool, seen func(int64)) (console.CheckReport,
	error) {
	walked := map[string]int64{}
	report, err := check.Run(ctx, book, check.Options{Full: full, Seen: func(invariant string, so int64) {
		seen(so - walked[invariant])
		walked[invariant] = so
	}})
	out := console.CheckReport{Violations: report.Violations, Full: report.Full}
	for _, r := range report.Invariants {
		out.Invariants = append(out.Invariants, console.CheckResult{Name: r.Name, Sentence: r.Sentence, Rows: r.Rows,
			Walked: r.Walked, Found: r.Found})
	}
	return out, err
}
