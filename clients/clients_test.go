package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

// gate is what must be set for these tests: they need more than Go.
const gate = "DAYBOOK_TEST_CLIENTS"

// scratch is a folder for what is built once.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(gate) == "" {
		fmt.Println("the clients' own tests run with " + gate + "=1")
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "daybook-clients-"); err != nil {
		panic(err)
	}
	code := pgtest.Around(m).Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// binary is the command, built once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "daybook")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/daybook").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, err
})

func daybook(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// python finds an interpreter that is new enough.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import sys; sys.exit(sys.version_info < (3, 9))").Run() == nil {
			return name
		}
	}
	t.Fatal("there is no python3 of 3.9 or newer: `apt-get install -y python3`, or as your system has it")
	return ""
}

// built is the TypeScript client, built once in a copy: neither packages nor what the
// compiler makes lies in the source.
var built = sync.OnceValues(func() (string, error) {
	const install = "`apt-get install -y nodejs npm`, or as your system has it"
	old := exec.Command("node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)").Run()
	if _, err := exec.LookPath("npm"); err != nil || old != nil {
		return "", fmt.Errorf("there is no node of 20 or newer with npm: %s", install)
	}
	dir := filepath.Join(scratch, "typescript")
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "src", "test", "examples"} {
		from, to := filepath.Join("typescript", name), filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if text, err := os.ReadFile(from); err == nil {
			if err := os.WriteFile(to, text, 0o644); err != nil {
				return "", err
			}
		} else if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return "", err
		}
	}
	for _, step := range [][]string{{"npm", "ci", "--no-audit", "--no-fund"}, {"npm", "run", "build"}} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
	}
	return dir, nil
})

func typescript(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// onEach runs a test on SQLite, and on PostgreSQL where that is wanted. db is empty
// for files that the test makes itself.
func onEach(t *testing.T, test func(t *testing.T, db string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, "") })
	if pgtest.Wanted() {
		t.Run("postgres", func(t *testing.T) { test(t, pgtest.Database(t)) })
	}
}

// tests runs a client's own tests.
func tests(t *testing.T, db, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DAYBOOK_BIN="+daybook(t), "DAYBOOK_TEST_DB="+db, "PYTHONDONTWRITEBYTECODE=1",
		"DAYBOOK_SERVER=", "DAYBOOK_TOKEN=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func TestPython(t *testing.T) {
	t.Parallel() // they mostly wait
	onEach(t, func(t *testing.T, db string) {
		t.Parallel()
		tests(t, db, "python", python(t), "-W", "ignore::ResourceWarning", "-m", "unittest")
	})
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	dir := typescript(t)
	scripts, err := filepath.Glob(filepath.Join(dir, "test", "*.test.mjs"))
	if err != nil || len(scripts) < 3 {
		t.Fatalf("found the tests %v, %v", scripts, err)
	}
	onEach(t, func(t *testing.T, db string) {
		t.Parallel()
		tests(t, db, dir, "node", append([]string{"--test"}, scripts...)...)
	})
}
