package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/console"
	"github.com/daybookdev/daybook/store/postgres"
)

const (
	// consoleAside are the set-aside jobs of the console's book.
	consoleAside = 1000
	// pageMost is how long a page may take at the median, in ms, and watchLeast what
	// must be left of the workers' rate while it is watched.
	pageMost, watchLeast = 300, 0.95
	watched, unwatched   = "watched", "unwatched"
	settled              = 3 * time.Second
)

// measureConsole measures how long the console's pages take on a book with a long
// history, and what watching them costs the workers.
func measureConsole(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	server, err := startPostgres(ctx, c, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	place, leave, err := server.room(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s := &scales{lab: &lab{config: c, server: server, dir: dir}}
	if err := s.migrate(ctx, &side{place: place}); err != nil {
		return err
	}
	if err := s.loadJobs(ctx, place, c.finished, finishedDays, finishedSession, finishedJobs); err != nil {
		return err
	}
	if err := s.loadJobs(ctx, place, c.jobs, waitingJobs); err != nil {
		return err
	}
	opened, err := postgres.Open(ctx, place, postgres.Options{Book: daybook.Options{Bell: local.New(), Log: quiet()}})
	if err != nil {
		return err
	}
	defer opened.Close()
	book := &reviewed{opened, place}
	if err := book.setAside(ctx, consoleAside); err != nil {
		return err
	}
	t.Notes = append(t.Notes, server.about(), fmt.Sprintf("%s finished, %s waiting and %d set-aside jobs",
		whole(c.finished), whole(c.jobs), consoleAside),
		"pages: each by a console that hasn't looked yet; watched: four live pages, and somebody who loads one every "+
			"two seconds")
	fmt.Fprintf(c.log, "loading each page %d times\n", looks)
	if err := pageTimes(ctx, opened, t); err != nil {
		return err
	}
	if err := s.watchCosts(ctx, opened, place, t); err != nil {
		return err
	}
	t.compare(watched, unwatched)
	t.judgeConsole()
	return t.finish(c, out)
}

// consolePages are those that are measured, by name. %s is a job's id.
var consolePages = []struct{ name, path string }{{"overview", "/"}, {"job list", "/jobs"},
	{"job list, waiting", "/jobs?state=waiting"}, {"job list, succeeded", "/jobs?state=succeeded"}, {"job", "/job/%s"},
	{"set aside", "/aside"}, {"effects", "/effects"}, {"queues", "/queues"}, {"workers", "/workers"},
	{"search in args", "/jobs?q=nothing-has-this"}}

// pageTimes loads each page some times, each time by a console that has not looked
// at the book before, so that nothing is remembered.
func pageTimes(ctx context.Context, book *daybook.Book, t *table) error {
	aside, err := book.Jobs(ctx, daybook.Filter{State: daybook.SetAside, Limit: looks})
	if err != nil {
		return err
	}
	for n := range looks {
		for _, p := range consolePages {
			path := p.path
			if p.name == "job" {
				path = fmt.Sprintf(path, aside.Items[n].ID)
			}
			c := console.New(book, console.Options{Loopback: true, Log: quiet()})
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			begun := time.Now()
			c.ServeHTTP(w, r)
			took := time.Since(begun)
			c.Close()
			if w.Code != http.StatusOK {
				return errors.Join(ctx.Err(), fmt.Errorf("page %s answers %d after %s", path, w.Code, took))
			}
			t.add(p.name, millis, "page", float64(took.Microseconds())/1000)
		}
	}
	return nil
}

// watchCosts works the backlog off, with and without a console that is
// watched, in turns.
func (s *scales) watchCosts(ctx context.Context, book *daybook.Book, place string, t *table) error {
	part := s.config.jobs
	for round := range s.lab.rounds {
		turns := []string{unwatched, watched}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			r, err := s.watchedTurn(ctx, book, place, turn, part)
			if err != nil {
				return fmt.Errorf("%s: %w", turn, err)
			}
			fmt.Fprintf(s.log, "round %d of %d, %s: %s jobs/s\n", round+1, s.lab.rounds, turn, number(r.PerSecond))
			t.add("work", perSecond, turn, r.PerSecond)
			if _, err := s.run(ctx, order{Step: "fill", Place: place, Jobs: part}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scales) watchedTurn(ctx context.Context, book *daybook.Book, place, turn string, jobs int) (report, error) {
	work := order{Step: "work", Place: place, Jobs: jobs, Backlog: true}
	if turn == unwatched {
		return s.run(ctx, work)
	}
	c := console.New(book, console.Options{Loopback: true, Log: quiet()})
	server := httptest.NewServer(c)
	ctx, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	for _, path := range []string{"/", "/jobs?state=waiting", "/aside", "/queues"} {
		watchers.Go(func() { watchPage(ctx, server.URL+"/live?at="+url.QueryEscape(path)) })
	}
	watchers.Go(func() { loadPages(ctx, server.URL) })
	time.Sleep(settled) // what is measured is watching, not the first look
	r, err := s.run(ctx, work)
	stop()
	watchers.Wait()
	c.Close()
	server.Close()
	return r, err
}

// watchPage follows a page until ctx ends.
func watchPage(ctx context.Context, address string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, bufio.NewReader(answer.Body))
}

// loadPages is somebody who goes from page to page.
func loadPages(ctx context.Context, address string) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			watchPage(ctx, address+[]string{"/", "/jobs", "/aside", "/workers"}[n%4])
		}
	}
}

// judgeConsole says whether the pages are fast enough, and watching cheap enough.
func (t *table) judgeConsole() {
	for _, p := range consolePages[:6] {
		verdict := "holds"
		took := t.row(p.name, millis).Median["page"]
		if took >= pageMost {
			verdict = "MISSED"
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s: %s: %.0f ms (wanted under %d)", p.name, verdict, took, pageMost))
	}
	verdict, left := "holds", t.row("work", perSecond).Ratio[watched+"/"+unwatched]
	if left < watchLeast {
		verdict = "MISSED"
	}
	t.Notes = append(t.Notes, fmt.Sprintf("watching: %s: %.3f of the rate (wanted %.2f)", verdict, left, watchLeast))
}
