package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// table holds every number of a run and prints it.
type table struct {
	Machine machine  `json:"machine"`
	Rounds  int      `json:"rounds"`
	Jobs    int      `json:"jobs"`
	Systems []string `json:"systems"`
	Rows    []*row   `json:"rows"`
	Builds  []*build `json:"builds,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	ratios  [][2]string
	out     map[string]bool // row and system of peers that failed
}

type machine struct {
	OS             string  `json:"os"`
	CPUs           int     `json:"cpus"`
	Go             string  `json:"go"`
	Dir            string  `json:"dir"`
	SyncsPerSecond float64 `json:"syncs_per_second"`
}

// row is one measurement of several systems.
type row struct {
	Name   string               `json:"name"`
	Unit   string               `json:"unit"`
	Values map[string][]float64 `json:"values"` // by system, one a round
	Median map[string]float64   `json:"median"`
	Ratio  map[string]float64   `json:"ratio,omitempty"` // like "daybook/raw"
}

func newTable(c config, dir string) *table {
	return &table{Rounds: c.rounds, Jobs: c.jobs, Machine: machine{OS: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Go: runtime.Version(), Dir: os.TempDir(), SyncsPerSecond: syncsPerSecond(dir)}}
}

// row finds a row or begins it.
func (t *table) row(name, unit string) *row {
	for _, r := range t.Rows {
		if r.Name == name && r.Unit == unit {
			return r
		}
	}
	r := &row{name, unit, map[string][]float64{}, map[string]float64{}, map[string]float64{}}
	t.Rows = append(t.Rows, r)
	return r
}

func (t *table) add(name, unit, system string, value float64) {
	r := t.row(name, unit)
	r.Values[system] = append(r.Values[system], value)
	r.Median[system] = median(r.Values[system])
	if !slices.Contains(t.Systems, system) {
		t.Systems = append(t.Systems, system)
	}
}

// fail leaves a peer out of the rows of a trial, with the reason.
func (t *table) fail(tr trial, err error) {
	if t.out == nil {
		t.out = map[string]bool{}
	}
	t.out[tr.row+"\x00"+tr.system] = true
	t.Notes = append(t.Notes, fmt.Sprintf("%s is left out of %q: %v", tr.system, tr.row, err))
}

func (t *table) failed(tr trial) bool { return t.out[tr.row+"\x00"+tr.system] }

// compare adds a column of ratios: the median of what each round's two numbers
// give.
func (t *table) compare(system, other string) {
	found := false
	for _, r := range t.Rows {
		a, b := r.Values[system], r.Values[other]
		var each []float64
		for i := range min(len(a), len(b)) {
			each = append(each, a[i]/b[i])
		}
		if len(each) > 0 {
			r.Ratio[system+"/"+other] = median(each)
			found = true
		}
	}
	if found {
		t.ratios = append(t.ratios, [2]string{system, other})
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// finish prints the table and plots it, if that was asked for.
func (t *table) finish(c config, out io.Writer) error {
	if c.plot != "" {
		if err := os.WriteFile(c.plot, []byte(plot(t)), 0o644); err != nil {
			return err
		}
	}
	return t.print(out, c.output)
}

// print writes the table for people, or everything as one line of JSON.
func (t *table) print(out io.Writer, format string) error {
	t.Rows = slices.DeleteFunc(t.Rows, func(r *row) bool { return len(r.Values) == 0 })
	if format == "json" {
		return json.NewEncoder(out).Encode(t)
	}
	m := t.Machine
	fmt.Fprintf(out, "%s, %d processors, %s; %.0f synced writes/s; median of %d rounds, %d jobs\n\n", m.OS,
		m.CPUs, m.Go, m.SyncsPerSecond, t.Rounds, t.Jobs)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.Debug)
	for _, unit := range t.units() {
		t.printUnit(w, unit)
	}
	t.printBuilds(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range t.Notes {
		fmt.Fprintln(out, n)
	}
	return nil
}

// units are those of all rows, in their order.
func (t *table) units() (units []string) {
	for _, r := range t.Rows {
		if !slices.Contains(units, r.Unit) {
			units = append(units, r.Unit)
		}
	}
	return units
}

func (t *table) printUnit(w io.Writer, unit string) {
	head := append([]string{unit}, t.Systems...)
	for _, r := range t.ratios {
		head = append(head, r[0]+"/"+r[1])
	}
	fmt.Fprintln(w, strings.Join(head, "\t")+"\t")
	for _, r := range t.Rows {
		if r.Unit != unit {
			continue
		}
		cells := []string{r.Name}
		for _, s := range t.Systems {
			cells = append(cells, number(r.Median[s]))
		}
		for _, pair := range t.ratios {
			cells = append(cells, number(r.Ratio[pair[0]+"/"+pair[1]]))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	fmt.Fprintln(w)
}

func (t *table) printBuilds(w io.Writer) {
	if len(t.Builds) == 0 {
		return
	}
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintln(w, "driver\tversion\tSQLite\tneeds a C compiler\tbuild, s\tbinary, MB\tbuilds for Windows\t")
	for _, b := range t.Builds {
		cells := []string{b.Driver, b.Version, b.SQLite, yes[b.C], number(b.Seconds),
			number(float64(b.Bytes) / 1e6), yes[b.Windows], b.Failed}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	fmt.Fprintln(w)
}

// number shows three digits that count, and nothing for nothing.
func number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 999.5:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
