package python

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The two programs run as they stand: every account gets its mail, asked for
// once or twice, and what has no address is set aside.
func TestPythonWorker(t *testing.T) {
	url := pgtest.Database(t)
	daybook(t, url, "schema", "up")
	python := interpreter(t)
	said := run(t, url, python, "enqueue.py", "ada@example.org", "eve@example.org", "nobody", "ada@example.org")
	words := strings.Fields(said)
	if len(words) != 12 || words[1] != "new" || words[10] != "again" || words[0] != words[9] {
		t.Fatalf("enqueue.py says\n%s", said)
	}
	run(t, url, python, "worker.py", "--drain")
	want := `ada@example.org|succeeded||{"mailed": 1}|
eve@example.org|succeeded||{"mailed": 1}|
nobody|set_aside|permanent||Permanent: no address: nobody`
	got, err := pgtest.Psql(url, "SELECT args ->> 'to', state, reason, result, last_error FROM daybook.jobs ORDER BY 1")
	if err != nil || got != want {
		t.Errorf("the jobs are, %v\n%s\nwant\n%s", err, got, want)
	}
	if n, err := pgtest.Psql(url, "SELECT count(*) FROM account WHERE mailed_at IS NOT NULL"); err != nil || n != "2" {
		t.Errorf("%s accounts were mailed, %v", n, err)
	}
	daybook(t, url, "check", "--full")
}

// A worker that was replaced while it ran leaves its word as evidence.
func TestPythonWorkerFenced(t *testing.T) {
	url := pgtest.Database(t)
	daybook(t, url, "schema", "up")
	python := interpreter(t)
	run(t, url, python, "enqueue.py", "ada@example.org")
	run(t, url, python, "-c", `
import os, psycopg2, worker
db = psycopg2.connect(os.environ["DATABASE_URL"])
(session, job, generation, _, args, _), = worker.call(db, "claim('{welcome}', 'python', 1)", ())
worker.call(db, "release(%s, %s, %s)", (job, generation, session))
worker.run(db, (job, generation, session), args)
`)
	said, err := pgtest.Psql(url, "SELECT operation, generation FROM daybook.refusal")
	if err != nil || said != "complete|1" {
		t.Errorf("the evidence is %q, %v", said, err)
	}
	if n, err := pgtest.Psql(url, "SELECT count(*) FROM account WHERE mailed_at IS NOT NULL"); err != nil || n != "0" {
		t.Errorf("%s accounts were mailed, %v", n, err)
	}
}

// interpreter finds a Python that has psycopg2. Debian's is not always the
// first in the PATH.
func interpreter(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import psycopg2").Run() == nil {
			return name
		}
	}
	t.Fatal("no python3 has psycopg2: `apt-get install -y python3-psycopg2`, or as your system has it")
	return ""
}

func run(t *testing.T, url string, program ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "PYTHONDONTWRITEBYTECODE=1")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program[1], err, complaints.String())
	}
	return string(out)
}

// daybook runs the command against the database.
func daybook(t *testing.T, url string, args ...string) {
	t.Helper()
	run := exec.Command("go", append([]string{"run", "../../cmd/daybook", "--db", url}, args...)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("daybook %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
