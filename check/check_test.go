package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/sqlite"
)

var ada = daybook.By{Actor: "ada", Reason: "a test"}

// clock is a book's clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

// filled is a scratch book with a job in every state.
func filled(t *testing.T) (*daybook.Book, *clock) {
	t.Helper()
	c := &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	if err := check.Fill(t.Context(), book); err != nil {
		t.Fatal(err)
	}
	return book, c
}

func run(t *testing.T, book *daybook.Book, o check.Options) check.Report {
	t.Helper()
	report, err := check.Run(t.Context(), book, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// fired lists the invariants that don't hold.
func fired(r check.Report) (names []string) {
	for _, i := range r.Invariants {
		if i.Rows > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

func TestRunReportsAHealthyBook(t *testing.T) {
	book, _ := filled(t)
	for _, c := range []struct {
		name string
		full bool // asked for
		all  bool // walked
	}{
		{"the first check walks all", false, true},
		{"the second doesn't", false, false},
		{"full does", true, true},
	} {
		walked := map[string]int64{}
		r := run(t, book, check.Options{Full: c.full, Seen: func(name string, n int64) { walked[name] = n }})
		if r.Violations != 0 || len(fired(r)) != 0 {
			t.Errorf("%s: got violations of %v", c.name, fired(r))
		}
		if r.Full != c.all || len(r.Invariants) != len(daybook.Invariants) {
			t.Errorf("%s: got full %v and %d invariants", c.name, r.Full, len(r.Invariants))
		}
		for i, got := range r.Invariants {
			if want := daybook.Invariants[i]; got.Name != want.Name || got.Sentence != want.Sentence {
				t.Errorf("%s: got %+v, want %s", c.name, got, want.Name)
			}
			if got.Walked != walked[got.Name] {
				t.Errorf("%s: %s walked %d rows and told of %d", c.name, got.Name, got.Walked, walked[got.Name])
			}
		}
		if walked["one-place"] < 12 {
			t.Errorf("%s: walked %d jobs, want every story", c.name, walked["one-place"])
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	book, _ := filled(t)
	if err := sqlite.Break(t.Context(), book, "held-claim"); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Violations int
		Invariants []struct {
			Name, Sentence string
			Rows           int
			Found          []struct{ Invariant, Subject, Detail string }
		}
	}
	var line bytes.Buffer
	if err := daybook.EncodeJSON(&line, run(t, book, check.Options{})); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Violations != 1 {
		t.Errorf("got %d violations, want 1", doc.Violations)
	}
	for _, i := range doc.Invariants {
		want := 0
		if i.Name == "held-claim" {
			want = 1
		}
		if i.Rows != want || len(i.Found) != want || i.Sentence == "" {
			t.Errorf("got %+v, want %d rows", i, want)
		}
	}
}

// What ended before the last clean check is left out of the next, unless it is
// full. A check that found something doesn't count as one.
func TestRunLooksAtWhatEndedSince(t *testing.T) {
	book, clock := filled(t)
	if r := run(t, book, check.Options{}); r.Violations != 0 {
		t.Fatalf("got %v before", fired(r))
	}
	if err := sqlite.Break(t.Context(), book, "effect-doubled"); err != nil { // on a job that succeeded
		t.Fatal(err)
	}
	for range 2 {
		if r := run(t, book, check.Options{}); r.Violations != 1 {
			t.Fatalf("soon after: got %v, want effect-doubled", fired(r))
		}
	}
	clock.advance(time.Hour)
	for range 2 { // the checks that found something didn't move the mark
		if r := run(t, book, check.Options{}); r.Violations != 1 {
			t.Fatalf("an hour later: got %v, want effect-doubled", fired(r))
		}
	}
	noted, err := book.Setting(t.Context(), daybook.SettingChecked)
	if err != nil {
		t.Fatal(err)
	}
	now := daybook.At(clock.now()).String()
	if _, err := book.SaveSetting(t.Context(), daybook.SettingChecked, noted, now); err != nil {
		t.Fatal(err)
	}
	if r := run(t, book, check.Options{}); r.Violations != 0 || r.Full {
		t.Errorf("after a later clean check: got %v, want nothing", fired(r))
	}
	if r := run(t, book, check.Options{Full: true}); r.Violations != 1 {
		t.Errorf("full: got %v, want effect-doubled", fired(r))
	}
}

// healed is a real store in which somebody repairs what the first look found
// just before the second.
type healed struct {
	daybook.Store
	daybook.Inspector
	looks func(again bool)
}

func (h healed) Inspect(ctx context.Context, in daybook.Inspection) (daybook.Inspected, error) {
	h.looks(len(in.Only) > 0)
	return h.Inspector.Inspect(ctx, in)
}

func TestRunReportsOnlyWhatASecondLookConfirms(t *testing.T) {
	for _, c := range []struct {
		name string
		heal bool
		want int
	}{{"repaired in between", true, 0}, {"still wrong", false, 1}} {
		book, _ := filled(t)
		if err := sqlite.Break(t.Context(), book, "place-agrees"); err != nil {
			t.Fatal(err)
		}
		page, err := book.Jobs(t.Context(), daybook.Filter{Queue: "waiting"})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page, err)
		}
		again := 0
		watched := daybook.New(healed{book.Store(), book.Store().(daybook.Inspector), func(second bool) {
			if !second {
				return
			}
			if again++; c.heal { // the job moves, and its wrong row goes
				if _, err := book.Cancel(t.Context(), page.Items[0].ID, ada, false); err != nil {
					t.Error(err)
				}
			}
		}}, daybook.Options{})
		if r := run(t, watched, check.Options{}); r.Violations != c.want {
			t.Errorf("%s: got %d violations, want %d", c.name, r.Violations, c.want)
		}
		if again != 1 {
			t.Errorf("%s: got %d second looks, want 1", c.name, again)
		}
	}
}

// A row that stands in two parts of a walk counts once: a job that is set aside
// is live, and ended since.
func TestRunCountsARowOnce(t *testing.T) {
	book, _ := filled(t)
	run(t, book, check.Options{})
	if err := sqlite.Break(t.Context(), book, "aside-reason"); err != nil {
		t.Fatal(err)
	}
	r := run(t, book, check.Options{})
	if r.Full || r.Violations != 1 {
		t.Errorf("got %d violations of %v, want 1 of aside-reason", r.Violations, fired(r))
	}
	for _, i := range r.Invariants {
		if len(i.Found) != i.Rows {
			t.Errorf("%s: got %d rows, and names %v", i.Name, i.Rows, i.Found)
		}
	}
}

// blind is a real store without the power to check itself.
type blind struct{ daybook.Store }

func TestRunRefusesAStoreThatCantBeChecked(t *testing.T) {
	book, _ := filled(t)
	_, err := check.Run(t.Context(), daybook.New(blind{book.Store()}, daybook.Options{}), check.Options{})
	if daybook.CodeOf(err) != daybook.CodeRefused {
		t.Errorf("got %v, want refused", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	book, _ := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := check.Run(ctx, book, check.Options{Seen: func(string, int64) { cancel() }})
	if err == nil {
		t.Error("got no error from a check that was cancelled")
	}
}

// More broken rows than a report names are still counted.
func TestRunBoundsWhatItNames(t *testing.T) {
	book, err := scratch(t)()
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	const jobs = 5250 // in three chunks
	requests := make([]daybook.Request, jobs)
	for i := range requests {
		requests[i] = daybook.Request{Queue: "q", Kind: "k"}
	}
	if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	got, err := book.Claim(t.Context(), daybook.ClaimRequest{Queues: []string{"q"}, Limit: jobs})
	if err != nil || len(got.Jobs) != jobs {
		t.Fatalf("claimed %d, %v", len(got.Jobs), err)
	}
	if err := sqlite.Break(t.Context(), book, "paused-claim"); err != nil { // an hour before all of these claims
		t.Fatal(err)
	}
	r := run(t, book, check.Options{})
	for _, i := range r.Invariants {
		if i.Name != "paused-claim" {
			continue
		}
		if i.Rows != jobs || len(i.Found) != 100 {
			t.Errorf("got %d rows and %d named, want %d and 100", i.Rows, len(i.Found), jobs)
		}
	}
	if r.Violations != jobs {
		t.Errorf("got %d violations, want %d", r.Violations, jobs)
	}
}
