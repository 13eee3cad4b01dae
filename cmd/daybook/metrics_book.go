package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookdev/daybook"
)

// What is shown of the book as a whole, by name.
var (
	descUp    = describe("book_up", "1 while the database answers.")
	descPass  = describe("reconcile_age_seconds", "How long ago any process began a pass of the reconciler.")
	descCheck = describe("check_age_seconds", "How long ago the last check of the book began, by whomever.")
	descFound = describe("check_violations", "Violations that the last check of the book found.")
	descRose  = describe("incarnation", "How often the book may have lost commits (a failover, a restore).")
	descLag   = describe("book_behind", "1 when somebody showed a generation that the book doesn't know: it lost commits.")
)

var bookDescs = []*prometheus.Desc{descUp, descPass, descCheck, descFound, descRose, descLag, descQueues}

// bookState is what the book knows of itself. Ages are seconds, less than 0 where
// it never happened.
type bookState struct {
	pass, check float64
	found       int64
	incarnation int64
	behind      bool
	queues      int
}

// readState reads it, on one snapshot.
func readState(ctx context.Context, book *daybook.Book) (s bookState, err error) {
	err = book.Store().Read(ctx, "reading the book's own settings", func(v daybook.View) (bad error) {
		now := v.Now()
		read := func(name string) string {
			text, err := v.Setting(ctx, name)
			bad = errors.Join(bad, err)
			return text
		}
		s.pass = ageOf(now, read(daybook.SettingPass))
		at, found, _ := strings.Cut(read(daybook.SettingFound), " ")
		s.check = ageOf(now, at)
		s.found, _ = strconv.ParseInt(found, 10, 64)
		s.incarnation, _ = strconv.ParseInt(read(daybook.SettingIncarnation), 10, 64)
		s.behind = read(daybook.SettingBookBehind) != ""
		return bad
	})
	return s, err
}

// ageOf is how long ago a time was that the book noted.
func ageOf(now daybook.Time, text string) float64 {
	at, err := daybook.ParseTime("noted", text)
	if err != nil {
		return -1
	}
	return max(0, now.Sub(at).Seconds())
}

func (s bookState) collect(to chan<- prometheus.Metric) {
	if s.pass >= 0 {
		gauge(to, descPass, s.pass)
	}
	if s.check >= 0 {
		gauge(to, descCheck, s.check)
		gauge(to, descFound, float64(s.found))
	}
	gauge(to, descRose, float64(s.incarnation))
	gauge(to, descLag, truth(s.behind))
	gauge(to, descQueues, float64(s.queues))
}
