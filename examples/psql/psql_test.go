package psql

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The walk-through runs as it stands and shows what it says.
func TestWalkthrough(t *testing.T) {
	url := pgtest.Database(t)
	daybook(t, url, "schema", "up")
	program, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal("there is no psql: `apt-get install -y postgresql-client`, or as your system has it")
	}
	var complaints strings.Builder
	run := exec.Command(program, url, "--no-psqlrc", "--quiet", "--file", "walkthrough.sql")
	run.Stderr = &complaints
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, complaints.String())
	}
	if n := strings.Count(complaints.String(), "ERROR:"); n != 1 {
		t.Errorf("%d errors, want the one of the fenced owner:\n%s", n, complaints.String())
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "==") {
			got = append(got, line)
		}
	}
	want := []string{
		"waiting|welcome|ada@example.org",
		"t|t",
		"running|psql|1",
		"t|{}",
		"succeeded",
		`succeeded|{"mailed": 1}`,
		"succeeded",
		"OB001",
		"waiting",
		"set_aside",
		"set_aside|permanent|2|no such address",
		"1|failed|the mail server is away",
		"2|failed|no such address",
		"follow-up|0|1|0|0",
		"welcome|0|0|0|1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nall of it:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), out)
	}
	daybook(t, url, "check", "--full")
}

// daybook runs the command against the database.
func daybook(t *testing.T, url string, args ...string) {
	t.Helper()
	run := exec.Command("go", append([]string{"run", "../../cmd/daybook", "--db", url}, args...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("daybook %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
