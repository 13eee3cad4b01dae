//go:build unix

package main

import (
	"bytes"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/drill"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// heldDrill is one in which everything held.
func heldDrill() drill.Result {
	return drill.Result{Seed: 3, Injected: map[string]int{"begin": 2}, RecoverySeconds: 1.5,
		Effects: []drill.Row{{Policy: daybook.PolicyAsk, Gap: "begin", Fault: "kill", Runs: 2, Happened: 2}}}
}

// What was found decides the exit status, and how to do it again is said.
func TestDrillVerdictIsTheExitStatus(t *testing.T) {
	f := drillFlags{seed: 3, gaps: []string{"begin", "pause"}, times: 2, minutes: 0.5, effects: true}
	const again = "daybook drill --seed 3 --effects --gap begin --gap pause --minutes 0.5 --times 2"
	for _, tt := range []struct {
		name string
		edit func(*drill.Result)
		want int
		says string
	}{
		{"held", func(*drill.Result) {}, statusDone, "held: "},
		{"violated", func(r *drill.Result) { r.Violations, r.Void = 1, 1 }, statusViolation, again},
		{"void", func(r *drill.Result) { r.Void = 2 }, statusFailed, "VOID: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := heldDrill()
			tt.edit(&r)
			for _, output := range []string{outputTable, outputJSON} {
				var out bytes.Buffer
				a := &app{stdout: &out, stderr: &out, flags: globals{output: output}}
				err := a.showDrill(r, f, nil)
				if got := statusOf(err); got != tt.want {
					t.Errorf("-o %s: got exit %d, want %d", output, got, tt.want)
				}
				said := out.String()
				if err != nil {
					said += err.Error()
				}
				if output == outputTable && !strings.Contains(said, tt.says) {
					t.Errorf("got %q, want it to say %q", said, tt.says)
				}
				if output == outputJSON {
					var got map[string]any
					oneJSONLine(t, out.String(), &got)
					if got["replay"] != again || got["recovery_seconds_max"] != 1.5 || got["void"] == nil {
						t.Errorf("got %v", got)
					}
				}
			}
		})
	}
}

// A drill runs on a book of its own beside the one that is named, and leaves
// nothing behind.
func TestDrillRuns(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.start("drill", "--effects", "--gap", "reply", "--seed", "4", "--lanes", "4", "-o", "json")
	p.ends(statusDone)
	var got drill.Result
	oneJSONLine(t, p.out.String(), &got)
	if got.Injected["reply"] != 8 || got.Violations+got.Void != 0 || got.Seed != 4 {
		t.Errorf("got %+v, want each of 8 faults", got)
	}
	c.nothingOfDrills(t)
}

func TestDrillRefusesFlags(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"--gap", "nowhere"}, {"--times", "0"}, {"--times", "-1"}, {"--minutes", "0"},
		{"--minutes", "-1"}, {"--minutes", "NaN"}, {"--minutes", "1e9"}, {"--lanes", "0"}, {"--lanes", "1000"},
		{"--seed", "-1"}, {"extra"}, {"--process"}, {"--times", "2"}, {"--effects", "--gap", "sigterm"},
		{"--own-server", "--restart-cmd", "true"}, {"--effects", "--svg", "x"}, {"--gap="}, {"--restart-cmd", " "},
		{"--own-server", "--db", "sqlite:x.db"}, {"--restart-cmd", "true"}, {"--svg", "no/such/folder/x.svg"}} {
		c.want(statusUsage, append([]string{"drill"}, args...)...)
	}
}

// What a drill can't be made with is told before anything is made, and nothing
// stays of it: a bell that takes no rings, and faults that can't be made here.
func TestDrillRefusesPlaces(t *testing.T) {
	onEach(t, func(t *testing.T, c *cli) {
		elsewhere := "file-full"
		if !c.postgres() {
			elsewhere = "connections-killed"
		}
		c.want(statusRefused, "drill", "--gap", elsewhere)
		c.want(statusUnavailable, "drill", "--bell", "redis://127.0.0.1:1", "--gap", "claim")
		c.want(statusUnavailable, "drill", "--bell", "postgres://nobody@127.0.0.1:1/x", "--gap", "claim")
		c.nothingOfDrills(t)
	})
}

// nothingOfDrills fails when a drill left a folder or a schema.
func (c *cli) nothingOfDrills(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), "daybook-drill-") {
			t.Errorf("%s stayed", f.Name())
		}
	}
	if !c.postgres() {
		return
	}
	schemas, err := pgtest.Psql(c.db, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'daybook\\_%'")
	if err != nil || strings.TrimSpace(schemas) != "0" {
		t.Errorf("schemas left: %s, %v", schemas, err)
	}
}

// A schema that an earlier drill left is told of with the command that removes it;
// one that somebody is connected for, and one that only looks like it, are not.
func TestDrillTellsOfEarlierOnes(t *testing.T) {
	onEach(t, func(t *testing.T, c *cli) {
		if !c.postgres() {
			folder := filepath.Join(c.dir, "daybook-drill-1")
			err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "drill.db"), nil, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			s := c.run("drill", "--gap", "connections-killed")
			if s.status != statusRefused || !strings.Contains(s.err, "daybook-drill-1") {
				t.Errorf("got %+v", s)
			}
			return
		}
		const left, used, other = "daybook_drill_0123456789ab", "daybook_drill_ba9876543210", "daybook_drill_results"
		for _, schema := range []string{left, used, other} {
			if _, err := pgtest.Psql(c.db, "CREATE SCHEMA "+schema); err != nil {
				t.Fatal(err)
			}
		}
		db, err := postgresServer{url: c.db}.connect(t.Context(), "daybook-drill-load-"+used)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := c.run("drill", "--gap", "file-full")
		if s.status != statusRefused || !strings.Contains(s.err, dropping(left)) || strings.Contains(s.err, used) ||
			strings.Contains(s.err, other) {
			t.Errorf("got %+v", s)
		}
	})
}

// A drill that can be made again is, where it was made: the place is in the line
// if it was given there and has no secret.
func TestReplayNamesThePlace(t *testing.T) {
	for _, tt := range []struct {
		flags globals
		want  string
	}{
		{globals{db: "postgres://you@h/x?a=1&b=2", dbGiven: true}, " --db 'postgres://you@h/x?a=1&b=2'"},
		{globals{db: "postgres://you:secret@h/x", dbGiven: true}, ""},
		{globals{db: "sqlite:x.db", bell: "redis://h", bellGiven: true}, " --bell redis://h"},
	} {
		a := &app{flags: tt.flags}
		if got, want := a.replay(drillFlags{seed: 7, lanes: 3, restart: "it's"}),
			`daybook drill --seed 7 --lanes 3 --restart-cmd 'it'\''s'`+tt.want; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What a user may have in connections is the least of what the server, the user
// and the database have room for.
func TestRoomIsTheLeast(t *testing.T) {
	onEach(t, func(t *testing.T, c *cli) {
		if !c.postgres() {
			return
		}
		defer pgtest.Psql(c.db, "DROP ROLE drill_poor")
		for _, limit := range []string{"ROLE drill_poor", "DATABASE \"" + serverOf(c.db).database + "\""} {
			if strings.HasPrefix(limit, "ROLE") {
				if _, err := pgtest.Psql(c.db, "CREATE ROLE drill_poor LOGIN"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := pgtest.Psql(c.db, "ALTER "+limit+" CONNECTION LIMIT 3"); err != nil {
				t.Fatal(err)
			}
			poor, err := url.Parse(c.db)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(limit, "ROLE") {
				poor.User = url.User("drill_poor")
			}
			got, err := postgresServer{url: poor.String()}.room(t.Context())
			if err != nil || got > 2 { // one asks
				t.Errorf("%s: got %d, %v; want at most 2", limit, got, err)
			}
			if _, err := pgtest.Psql(c.db, "ALTER "+limit+" CONNECTION LIMIT -1"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := (postgresServer{url: c.db}).room(t.Context()); err != nil || got <= 2 {
			t.Errorf("without a limit: got %d, %v", got, err)
		}
	})
}

func TestDrillList(t *testing.T) {
	c := newCLI(t)
	var got struct {
		Gaps   []struct{ Name, Between string }
		Faults []drill.Listed
	}
	oneJSONLine(t, c.ok("drill", "--list", "-o", "json"), &got)
	if len(got.Gaps) != len(daybook.Gaps) || got.Gaps[0].Between == "" || len(got.Faults) != len(drill.Names()) {
		t.Errorf("got %+v", got)
	}
	if out := c.ok("drill", "--list"); !strings.Contains(out, "cancel-complete") {
		t.Errorf("got %q", out)
	}
}

// A drill of everything runs on each store, draws its picture and leaves nothing
// behind.
func TestDrillOfFaults(t *testing.T) {
	onEach(t, func(t *testing.T, c *cli) {
		gaps := []string{"publish", "late-owner", "settle-complete", "clock-behind", "file-full"}
		if c.postgres() {
			gaps = []string{"accept", "cancel-claim", "commit-lost-before", "commit-lost-after", "bell-half-open",
				"connections-killed", "connections-cut", "idle-connections"}
		}
		if sourcetest.Wanted() {
			gaps = append(gaps, "cutover-imported", "cutover-late-taken", "cutover-marked")
		}
		args := []string{"drill", "--seed", "4", "-o", "json", "--svg", "drill.svg"}
		for _, gap := range gaps {
			args = append(args, "--gap", gap)
		}
		p := c.start(args...)
		p.ends(statusDone)
		var got drill.Report
		oneJSONLine(t, p.out.String(), &got)
		if got.Violations+got.Void+got.Missing != 0 || got.Accepted == 0 || !strings.Contains(got.Replay, "--seed 4") {
			t.Errorf("got %+v", got)
		}
		for _, gap := range gaps {
			if got.Injected[gap] == 0 {
				t.Errorf("%s was not made", gap)
			}
		}
		c.nothingOfDrills(t)
		picture, err := os.ReadFile(filepath.Join(c.dir, "drill.svg"))
		if err != nil || !strings.Contains(string(picture), "</svg>") {
			t.Errorf("the picture: %v", err)
		}
	})
}

// What was found decides the exit status of a drill of everything too.
func TestFaultsAreTheExitStatus(t *testing.T) {
	for _, tt := range []struct {
		report drill.Report
		want   int
	}{
		{drill.Report{Injected: map[string]int{"claim": 1}}, statusDone},
		{drill.Report{Injected: map[string]int{"claim": 1}, Violations: 1, Void: 1}, statusViolation},
		{drill.Report{Injected: map[string]int{"claim": 1}, Void: 1}, statusFailed},
		{drill.Report{}, statusFailed},
	} {
		for _, output := range []string{outputTable, outputJSON} {
			var out bytes.Buffer
			a := &app{stdout: &out, stderr: &out, flags: globals{output: output}}
			if got := statusOf(a.showFaults(tt.report, drillFlags{})); got != tt.want || out.Len() == 0 {
				t.Errorf("-o %s %+v: got exit %d, want %d", output, tt.report, got, tt.want)
			}
		}
	}
}

// A route leads to a proxy, and names its connections.
func TestDrillRoutes(t *testing.T) {
	for _, tt := range []struct{ from, to, application, want string }{
		{"postgres://u:p@db/x?sslmode=verify-full", "127.0.0.1:9", "me",
			"postgres://u:p@127.0.0.1:9/x?application_name=me&sslmode=verify-ca"},
		{"redis://r:1/0", "", "", "redis://r:1/0"},
		{"local:", "127.0.0.1:9", "me", "local:"},
	} {
		if got := routed(tt.from, tt.to, tt.application); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	for of, want := range map[string]string{"postgres://h/x": "h:5432", "amqp://u@h:9": "h:9", "rediss://h": "",
		"postgres://a,b/x": "", "local:": "", "postgres:///x?host=/tmp": ""} {
		if got := hostOf(of); got != want {
			t.Errorf("the address of %s: got %q, want %q", of, got, want)
		}
	}
}

func TestDrillTellsAFailedWrite(t *testing.T) {
	for _, output := range []string{outputTable, outputJSON} {
		a := &app{stdout: closedWriter{}, stderr: closedWriter{}, flags: globals{output: output}}
		if err := a.showDrill(heldDrill(), drillFlags{}, nil); !errors.Is(err, errClosed) {
			t.Errorf("-o %s: got %v, want %v", output, err, errClosed)
		}
	}
}
