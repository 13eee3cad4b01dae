package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

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
