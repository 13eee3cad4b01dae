// Package deploy has no code: it holds the dashboard and the alerts to what the
// program shows and the documentation says.
package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metric finds names of ours in PromQL, and their label matchers.
var metric = regexp.MustCompile(`\b(daybook_[a-z_]+)(\{[^}]*\})?`)

// label finds a matcher's label.
var label = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)

// given are labels that Prometheus, or who sets it up, gives every series.
var given = []string{"book", "instance", "le"}

// known are the metrics of the program's own list, with their labels.
func known(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for line := range strings.Lines(read(t, "../cmd/daybook/testdata/metrics.txt")) {
		cells := strings.Split(line, " | ")
		if name, ok := strings.CutPrefix(cells[0], "| `"); ok {
			name = strings.TrimSuffix(name, "`")
			labels := strings.FieldsFunc(cells[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
			list[name] = labels
			if cells[1] == "histogram" {
				list[name+"_bucket"], list[name+"_sum"], list[name+"_count"] = labels, labels, labels
			}
		}
	}
	if len(list) < 30 {
		t.Fatalf("the list has %d metrics", len(list))
	}
	return list
}

// holds holds an expression to the list, and notes what it uses.
func holds(t *testing.T, where, expr string, list map[string][]string, used map[string]bool) {
	t.Helper()
	found := metric.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: %q names no metric of Daybook", where, expr)
	}
	for _, m := range found {
		labels, ok := list[m[1]]
		if !ok {
			t.Errorf("%s: nobody shows %s", where, m[1])
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) && !slices.Contains(given, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
		used[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")] = true
	}
}

// dashboard is what Grafana needs of a dashboard to load it.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Time          struct{ From, To string }
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Datasource  struct{ Type, UID string }
		FieldConfig struct {
			Defaults struct{ Unit string }
		}
		Targets []struct {
			RefID, Expr, LegendFormat string
			Datasource                struct{ Type, UID string }
		}
	}
}

func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/daybook.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title != "Daybook" || d.UID != "daybook" || d.SchemaVersion < 36 || d.Time.From == "" || d.Time.To == "" {
		t.Errorf("the head is %q, %q, %d, %v", d.Title, d.UID, d.SchemaVersion, d.Time)
	}
	list, used := known(t), map[string]bool{}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		if variables[v.Name] = true; v.Type == "query" {
			holds(t, "variable "+v.Name, v.Definition, list, used)
		}
	}
	if !variables["datasource"] || !variables["book"] || !variables["queue"] {
		t.Errorf("variables: %v", variables)
	}
	ids := map[int]bool{}
	filled := map[[2]int]string{} // cells of the grid
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q has no id of its own, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.H < 1 || g.W < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q stands at %v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, taken := filled[[2]int{x, y}]; taken {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				filled[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || p.FieldConfig.Defaults.Unit == "" ||
			len(p.Targets) == 0 {
			t.Errorf("panel %q lacks a data source, a unit or a target", p.Title)
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource != p.Datasource {
				t.Errorf("panel %q: target %q has no name, or another source", p.Title, target.Expr)
			}
			holds(t, "panel "+p.Title, target.Expr, list, used)
		}
	}
	for name := range list {
		if !used[name] && !regexp.MustCompile(`_(bucket|sum|count)$`).MatchString(name) {
			t.Errorf("the dashboard doesn't show %s", name)
		}
	}
}

// alert is one rule, as far as it is looked at here; promtool reads the rest.
type alert struct{ name, expr, severity, summary, page string }

// alerts reads the rules without a parser of YAML: they are ours.
func alerts(t *testing.T) (all []alert) {
	t.Helper()
	for _, block := range strings.Split(read(t, "prometheus/alerts.yml"), "      - alert: ")[1:] {
		field := func(pattern string) string {
			m := regexp.MustCompile(`(?s)\n\s+` + pattern).FindStringSubmatch(block)
			if m == nil {
				return ""
			}
			return m[1]
		}
		name, _, _ := strings.Cut(block, "\n")
		all = append(all, alert{name: name, expr: field(`expr: (.*?)\n        (?:for|labels):`),
			severity: field(`labels: \{severity: (\w+)\}`), summary: field(`summary: "([^"]*)"`),
			page: field(`runbook_url: (\S+)`)})
	}
	if len(all) < 20 {
		t.Fatalf("read %d alerts", len(all))
	}
	return all
}

// TestAlerts: each alert is made of what is shown, says what to do, leads to a
// section of the documentation, and has a test that it fires and one that it
// doesn't.
func TestAlerts(t *testing.T) {
	list, tests, page := known(t), read(t, "prometheus/alerts_test.yml"), read(t, "../docs/observability.md")
	for _, a := range alerts(t) {
		holds(t, a.name, a.expr, list, map[string]bool{})
		if a.severity != "page" && a.severity != "ticket" {
			t.Errorf("%s has severity %q", a.name, a.severity)
		}
		if len(a.summary) < 40 {
			t.Errorf("%s doesn't say what to do: %q", a.name, a.summary)
		}
		const base = "https://github.com/daybookdev/daybook/blob/main/docs/observability.md#"
		if a.page != base+strings.ToLower(a.name) || !strings.Contains(page, "\n### "+a.name+"\n") {
			t.Errorf("%s leads to %s, where nothing is", a.name, a.page)
		}
		for _, how := range []string{" fires\n", " is silent\n"} {
			if !strings.Contains(tests, "name: "+a.name+how) {
				t.Errorf("no test that %s%s", a.name, strings.TrimSuffix(how, "\n"))
			}
		}
	}
}

// TestPromtool has Prometheus's own tool read the rules and run their tests.
func TestPromtool(t *testing.T) {
	if os.Getenv("DAYBOOK_TEST_PROMTOOL") == "" {
		return // it takes a minute, and a tool that isn't Go's
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("there is no promtool: apt-get install --no-install-recommends prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
