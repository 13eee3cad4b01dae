package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/postgres"
)

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		args string
		want weights
		jobs int
	}{
		{"-pressure", fullWeights, 200_000},
		{"-pressure -quick", quickWeights, 50_000},
		{"-pressure -quick -snapshot 1 -finished 2 -queues 3 -idle 4 -waiting 5 -scheduled 6 -peers -jobs 1000",
			weights{1, 2, 3, 4, 5, 6, true}, 1000},
	} {
		got, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil || got.weights != c.want || got.jobs != c.jobs || !got.pressure || got.postgres {
			t.Errorf("%q: %+v, %d jobs, error %v; want %+v", c.args, got.weights, got.jobs, err, c.want)
		}
	}
	if _, err := parse([]string{"-pressure", "-queues", "-1"}, io.Discard); err == nil {
		t.Error("-queues -1 is taken")
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		rate, slower float64
		want         string
	}{
		{0.8, 2, "holds: 0.80 of the rate (wanted 0.8), p99 of claims 2.00 times (at most 2)"},
		{0.7, 1, "MISSED: 0.70 of the rate"},
		{1, 2.5, "MISSED: 1.00 of the rate (wanted 0.8), p99 of claims 2.50 times"},
	} {
		table := &table{}
		for unit, ratio := range map[string]float64{perSecond: c.rate, claimWorst: c.slower} {
			table.add("queues", unit, "daybook", ratio)
			table.add("queues", unit, "daybook"+without, 1)
		}
		table.compare("daybook", "daybook"+without)
		table.judge(pressure{name: "queues", least: 0.8})
		if got := table.Notes[0]; !strings.HasPrefix(got, "queues: "+c.want) {
			t.Errorf("judged %q, want %q", got, c.want)
		}
	}
}

// What the server loads by itself is a book like any other: the checker finds
// nothing in it, and retention and worker find their way.
func TestLoadedBooksAreClean(t *testing.T) {
	ctx := t.Context()
	c := config{log: io.Discard}
	server, err := startPostgres(ctx, c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	place, _, err := server.room(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &scales{lab: &lab{config: c, server: server}, under: side{place: place}}
	o := postgres.Options{Book: daybook.Options{Log: quiet()}}
	if _, err := postgres.Up(ctx, place, o, nil); err != nil {
		t.Fatal(err)
	}
	for _, put := range []put{finish(3000), pileUp(2000, 1000)} {
		if _, err := put(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	book, err := postgres.Open(ctx, place, o)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	report, err := check.Run(ctx, book, check.Options{Full: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Rows > 0 {
			t.Errorf("%s: %d rows, such as %v", i.Name, i.Rows, i.Found[0])
		}
	}
	var counts daybook.Counts
	err = book.Store().Read(ctx, "counting", func(v daybook.View) error {
		queues, err := v.Queues(ctx, true)
		if err == nil && len(queues) == 1 {
			counts = queues[0].Counts
		}
		return err
	})
	if err != nil || counts.Succeeded != 3000 || counts.Waiting != 3000 || counts.Accepted != 6000 {
		t.Errorf("counts = %+v, error %v", counts, err)
	}
}

// A small run of all pressures: every row is there on both sides.
func TestPressureRun(t *testing.T) {
	var out bytes.Buffer
	args := strings.Fields("-pressure -quick -jobs 1000 -rounds 1 -snapshot 1000 -finished 3000 -queues 50 -idle 20 " +
		"-waiting 3000 -scheduled 1000 -peers -o json")
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got table
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	w := weights{1000, 3000, 50, 20, 3000, 1000, true}
	for _, p := range w.pressures() {
		system, units := "daybook", []string{perSecond, claimMedian, claimWorst, claimFirst}
		if p.river {
			system, units = "river", []string{perSecond}
		}
		for _, unit := range units {
			r := got.row(p.name, unit)
			if r.Median[system] <= 0 || r.Median[system+without] <= 0 || r.Ratio[system+"/"+system+without] <= 0 {
				t.Errorf("%s, %s: %v, ratio %v", p.name, unit, r.Median, r.Ratio)
			}
		}
		if !p.river && !strings.Contains(strings.Join(got.Notes, "\n"), p.name+": ") {
			t.Errorf("%s isn't judged: %q", p.name, got.Notes)
		}
	}
}
