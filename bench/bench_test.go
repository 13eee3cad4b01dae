package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's binary be a peer's program, as the bench itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == peerCommand {
		if err := runPeer(context.Background(), os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args         string
		jobs, rounds int
		mode         string
	}{
		{"", 200_000, 3, "postgres"},
		{"-postgres -quick", 50_000, 2, "postgres"},
		{"-quick -jobs 1000 -rounds 5", 1000, 5, "postgres"},
		{"-sqlite", 100_000, 3, "sqlite"},
		{"-sqlite -quick", 20_000, 3, "sqlite"},
		{"-drivers -quick -rounds 1", 20_000, 1, "drivers"},
	} {
		got, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		mode := map[string]bool{"postgres": got.postgres, "sqlite": got.sqlite, "drivers": got.drivers}
		if got.jobs != c.jobs || got.rounds != c.rounds || !mode[c.mode] {
			t.Errorf("%q: %d jobs, %d rounds, modes %v", c.args, got.jobs, got.rounds, mode)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-sqlite -postgres": "choose one of -postgres, -pressure, -bells, -review, -http, -longpoll, -sqlite and -drivers",
		"-o yaml":           `-o wants table or json, got "yaml"`,
		"-jobs 10":          "-rounds wants at least 1 and -jobs at least 1000",
		"-rounds -1":        "-rounds wants at least 1 and -jobs at least 1000",
		"sqlite":            `there are flags only, no "sqlite"`,
		"-only (":           "-only: error parsing regexp: missing closing ): `(`",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", args, err, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

// A ratio is that of rounds, not of medians: here a slow round hit both.
func TestCompareTakesTheRatioOfEachRound(t *testing.T) {
	table := &table{}
	for _, v := range [][2]float64{{10, 100}, {1, 2}, {20, 50}} {
		table.add("enqueue", perSecond, "daybook", v[0])
		table.add("enqueue", perSecond, "raw", v[1])
	}
	table.compare("daybook", "raw")
	if got, want := table.row("enqueue", perSecond).Ratio["daybook/raw"], 0.4; got != want {
		t.Errorf("ratio = %v, want %v", got, want)
	}
}

// A ratio that no row has is no column.
func TestCompareWithoutValues(t *testing.T) {
	table := &table{}
	table.add("enqueue", perSecond, "raw", 1)
	table.compare("daybook", "raw")
	if len(table.ratios) != 0 {
		t.Errorf("columns of ratios: %v", table.ratios)
	}
}

// A peer that fails is noted once and costs nobody else a number; the raw limit
// and Daybook may not fail.
func TestPeersMayFail(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context, *stopwatch, string) error { return broken }
	reads := func(_ context.Context, s *stopwatch, place string) error {
		if place != "here" {
			return fmt.Errorf("place %q", place)
		}
		s.add(s.row, perSecond, 7)
		s.add(s.row, perJob, 0) // unknown here
		return nil
	}
	left := 0
	in := func(context.Context, trial) (string, func(), error) { return "here", func() { left++ }, nil }
	c := config{rounds: 3, only: regexp.MustCompile("work"), log: io.Discard}
	table := &table{}
	trials := []trial{{"work", "gue", fails}, {"work", "raw", reads}, {"latency", "raw", fails}}
	if err := table.measure(t.Context(), c, in, trials); err != nil {
		t.Fatal(err)
	}
	if r := table.row("work", perSecond); len(r.Values["raw"]) != 3 || len(r.Values["gue"]) != 0 {
		t.Errorf("values: %v", r.Values)
	}
	if want := []string{`gue is left out of "work": broken`}; !slices.Equal(table.Notes, want) {
		t.Errorf("notes: %q, want %q", table.Notes, want)
	}
	if left != 4 || len(table.Rows) != 1 {
		t.Errorf("%d places were left, want 4; %d rows, want 1", left, len(table.Rows))
	}
	err := table.measure(t.Context(), c, in, []trial{{"work", "daybook", fails}})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// A handler can begin before the call that enqueued its job has returned.
func TestLatencyIsNeverNegative(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	m := newMeter(2)
	m.asked, m.sent, m.begun = []time.Time{at(0), at(0)}, []time.Time{at(2), at(1)}, []time.Time{at(1), at(4)}
	if got, want := m.since(m.sent), []time.Duration{0, 3e6}; !slices.Equal(got, want) {
		t.Errorf("since sent: %v, want %v", got, want)
	}
	if got, want := m.since(m.asked), []time.Duration{1e6, 4e6}; !slices.Equal(got, want) {
		t.Errorf("since asked: %v, want %v", got, want)
	}
}

func TestPlot(t *testing.T) {
	table := &table{}
	for _, v := range []float64{10, 40, 20} {
		table.add("work & rest", perSecond, "daybook", v)
		table.add("work & rest", perSecond, "river", v/2)
	}
	table.add("latency", millis, "river", 1)
	table.row("nothing", millis)
	var bars, lines, texts int
	decoder := xml.NewDecoder(strings.NewReader(plot(table)))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "rect":
				bars++
			case "path":
				lines++
			case "text":
				texts++
			}
		}
	}
	if bars != 4 || lines != 3 || texts != 2+2*3 { // one rect is the ground
		t.Errorf("%d bars, %d lines, %d texts", bars, lines, texts)
	}
	if got := plot(table); strings.Contains(got, "nothing") || !strings.Contains(got, ">20.0</text>") {
		t.Errorf("the plot has an empty row, or no median:\n%s", got)
	}
}

// The peers for Node do what the others do.
func TestNodePeersDoTheSame(t *testing.T) {
	common, err := nodeFiles.ReadFile("node/common.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"bulk": fmt.Sprint(bulk), "clients": fmt.Sprint(clients),
		"warm": fmt.Sprint(warm), "rate": fmt.Sprint(latencyRate), "queue": `"` + queue + `"`, "kind": `"` + kind + `"`,
		"patience": fmt.Sprintf("%.0f_000", patience.Seconds())} {
		if !bytes.Contains(common, []byte("const "+name+" = "+value+";")) {
			t.Errorf("node/common.mjs doesn't have %s = %s", name, value)
		}
	}
	for _, p := range everybody() {
		if p.node {
			if _, err := nodeFiles.ReadFile("node/" + p.system + ".mjs"); err != nil {
				t.Error(err)
			}
			if nodeVersions()[p.system] == "" {
				t.Errorf("node/package.json has no %s", p.system)
			}
		}
	}
	lock, err := nodeFiles.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte("://")) {
		t.Error("node/package-lock.json names hosts; install with omit-lockfile-registry-resolved=true")
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  string
	}{{0, ""}, {0.456, "0.46"}, {12.34, "12.3"}, {123.4, "123"}, {999.7, "1,000"}, {1234567, "1,234,567"}} {
		if got := number(c.value); got != c.want {
			t.Errorf("number(%v) = %q, want %q", c.value, got, c.want)
		}
	}
}

// A small run of the whole thing: every row has every system that it should.
func TestSQLiteRun(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-sqlite", "-quick", "-jobs", "1000", "-rounds", "1", "-o", "json", "-dir", t.TempDir()}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got table
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, systems := range map[string][]string{
		"enqueue, batch 100":        {"raw", "raw by row", "raw+", "daybook", "river"},
		"enqueue, batch 1":          {"raw", "raw+", "daybook", "river"},
		"claim+complete, batch 100": {"raw", "raw by row", "raw+", "daybook"},
		"claim, then complete":      {"raw", "raw+", "daybook"},
		"work, no-op handler":       {"daybook", "river"},
	} {
		r := got.row(name, perSecond)
		for _, s := range systems {
			if r.Median[s] <= 0 {
				t.Errorf("%s: no rate of %s", name, s)
			}
		}
		if len(r.Ratio) == 0 {
			t.Errorf("%s: no ratio", name)
		}
	}
	if r := got.row("latency at 200/s, p95", millis); r.Median["daybook"] <= 0 || r.Median["river"] <= 0 {
		t.Errorf("latency = %v, want one of daybook and one of river", r.Median)
	}
}

// A small run of the whole thing on servers of its own. Peers that npm can't
// install here are in the notes; all others have every row.
func TestPostgresRun(t *testing.T) {
	var out bytes.Buffer
	file := t.TempDir() + "/plot.svg"
	args := []string{"-quick", "-jobs", "1000", "-rounds", "1", "-o", "json", "-plot", file}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got table
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(got.Notes, "\n")
	for _, p := range everybody() {
		if peers()[p.system] == nil && !p.node || p.node && strings.Contains(notes, p.system+" is left out: ") {
			continue
		}
		for _, want := range rowsOf(p) {
			if got.row(want[0], want[1]).Median[p.system] <= 0 {
				t.Errorf("%s: nothing of %s in %s; notes:\n%s", want[0], p.system, want[1], notes)
			}
		}
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(text, []byte("<svg ")) {
		t.Errorf("the plot is %.20q, error %v", text, err)
	}
}

// TestBellsRun: the bell of the database at the least is there, and what it costs
// is compared.
func TestBellsRun(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-bells", "-quick", "-jobs", "1000", "-rounds", "1", "-only", "enqueue|latency", "-o", "json"}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got table
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	ratio, late := got.row(crowdRow, perSecond).Ratio["postgres/"+noBell], got.row(hearRow+", p99", millis)
	if ratio <= 0 || late.Median["postgres"] <= 0 {
		t.Errorf("got %s", out.Bytes())
	}
}

// rowsOf are the rows that a system must have, with their units.
func rowsOf(p program) [][2]string {
	rows := [][2]string{{workRow, perSecond}, {workRow, perJob}}
	if !p.redis {
		rows = append(rows, [2]string{workRow, walBytes}, [2]string{wholeRow, walBytes})
	}
	if p.workOnly {
		return rows
	}
	rows = append(rows, [2]string{singleRow, perSecond})
	if !p.noBulk {
		rows = append(rows, [2]string{bulkRow, perSecond})
	}
	if !p.noHear {
		rows = append(rows, [2]string{hearRow + ", p99", millis})
	}
	return rows
}
