package tidy

import (
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/daybookdev/daybook"

// mayImport says which of our own packages a package may import; "root" is the
// domain. Only cmd and drill see everything. A package that isn't here fails:
// give it a line.
var mayImport = map[string][]string{
	"root":            {},
	"reconcile":       {"root"},
	"check":           {"root"},
	"relay":           {"root"},
	"worker":          {"root", "reconcile", "relay"},
	"worker/webhook":  {"root"},
	"httpapi":         {"root", "cutover"},
	"client":          {"root"},
	"telemetry":       {"root"},
	"console":         {"root", "cutover"},
	"store/sqlite":    {"root", "bell/local"}, // its default bell
	"store/postgres":  {"root", "bell/postgres", "internal/nocancel"},
	"store/storetest": {"root", "check", "reconcile", "relay"},
	"bell/local":      {"root"},
	"bell/belltest":   {"root"},
	"bell/postgres":   {"root", "internal/nocancel", "internal/ring"},
	"bell/redis":      {"root", "internal/ring"},
	"bell/nats":       {"root", "internal/ring"},
	"bell/rabbitmq":   {"root", "internal/ring"},
	"cutover":         {"root"},
	"cutover/asynq":   {"root", "cutover", "internal/oldredis"},
	"cutover/sidekiq": {"root", "cutover", "internal/oldredis"},
	"cutover/bullmq":  {"root", "cutover", "internal/oldredis"},
	"cutover/rq":      {"root", "cutover", "internal/oldredis"},
	"daybooktest":     {"root", "bell/local", "check", "reconcile", "store/sqlite", "worker"},
	"demo": {"root", "bell/local", "check", "examples/webhooks", "internal/procs", "reconcile",
		"store/sqlite", "worker"},
	"cutover/sourcetest":       {"root", "cutover", "internal/oldredis"},
	"internal/oldredis":        {"root"},
	"internal/oldqueue":        {"root"},
	"examples/webhooks":        {},
	"examples/effects":         {"root", "examples/effects/outside", "store/sqlite", "worker"},
	"examples/effects/outside": {},
	"internal/tidy":            {"root"},
	"internal/mutate":          {"internal/pgtest"}, // finds out whether there is a server
	"internal/drillmatrix":     {"internal/brokertest", "internal/pgtest"},
	"internal/simulate":        {"root", "bell/local", "check", "reconcile", "relay", "store/sqlite", "worker"},
	"internal/pgtest":          {"internal/testserver"},
	"internal/procs":           {"root"}, // says why not
	"internal/proxy":           {},
	"internal/brokertest":      {"internal/testserver"},
	"internal/testserver":      {},
	"internal/apifuzz":         {},
	"internal/everyanswer":     {},
	"internal/ring":            {"root"},
	"internal/nocancel":        {},
}

// inTests may be imported by any package's tests.
var inTests = []string{"root", "bell/belltest", "bell/local", "check", "cutover/sourcetest", "daybooktest",
	"examples/webhooks", "httpapi", "internal/apifuzz", "internal/brokertest", "internal/everyanswer",
	"internal/pgtest", "internal/proxy", "reconcile", "relay", "store/sqlite", "store/postgres", "store/storetest",
	"worker"}

// seesAll lists who wires everything together.
var seesAll = []string{"cmd/daybook", "cutover/e2e", "drill", "internal/belldrill", "internal/bellpeer"}

// notInRoot is what rules have no use for: they do no I/O.
var notInRoot = []string{"database/sql", "net", "os", "syscall", "io/fs", "path/filepath", "unsafe", "C"}

// shared are third-party packages that several of ours have: a store and a bell
// of the same server, a bell and the old systems that live there.
var shared = []string{"github.com/jackc/pgx/v5/pgconn", "github.com/redis/go-redis/v9",
	"github.com/redis/go-redis/v9/maintnotifications"}

func TestImports(t *testing.T) {
	owner := map[string]string{} // third-party package → the package that imports it
	for _, f := range files(t, ".go") {
		if strings.HasPrefix(f.path, "bench/") || strings.HasPrefix(f.path, "internal/oldworkers/") {
			continue // modules of their own: peers side by side, old systems' own programs
		}
		from := f.dir()
		if from == "" {
			from = "root"
		}
		for _, imported := range importsOf(t, f) {
			ours, own := strings.CutPrefix(imported, module)
			ours = strings.TrimPrefix(ours, "/")
			if ours == "" {
				ours = "root"
			}
			switch {
			case own && ours != from:
				checkOwn(t, f, from, ours)
			case own:
			case !strings.Contains(strings.Split(imported, "/")[0], "."):
				if from == "root" && !f.isTest() && within(imported, notInRoot) {
					t.Errorf("%s imports %s: the root package does no I/O", f.path, imported)
				}
			case from == "root" && !f.isTest():
				t.Errorf("%s imports %s: the root package imports the standard library only", f.path, imported)
			case !f.isTest() && !slices.Contains(shared, imported) && !strings.HasPrefix(from, "examples/"):
				if other, ok := owner[imported]; ok && other != from {
					t.Errorf("%s imports %s, which %s imports too: a third-party package lives in one of ours",
						f.path, imported, other)
				}
				owner[imported] = from
			}
		}
	}
}

func importsOf(t *testing.T, f file) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range parsed.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// within reports whether path is one of the roots or below one.
func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

func checkOwn(t *testing.T, f file, from, to string) {
	t.Helper()
	if slices.Contains(seesAll, from) || f.isTest() && slices.Contains(inTests, to) {
		return
	}
	rule, known := mayImport[from]
	if strings.HasPrefix(from, "examples/") && !known { // an example is a user's program
		rule, known = []string{"root", "examples/webhooks", "store/sqlite", "store/postgres", "worker", "bell/local"}, true
	}
	switch {
	case !known:
		t.Errorf("%s: package %s has no line in the import rules; give it one", f.path, from)
	case !slices.Contains(rule, to):
		t.Errorf("%s imports %s; package %s may import %v only", f.path, to, from, rule)
	}
}

// TestNoHiddenRegistration: what a program uses, it says.
func TestNoHiddenRegistration(t *testing.T) {
	for _, f := range files(t, ".go") {
		for n, line := range f.lines() {
			if strings.HasPrefix(line, "func init()") {
				t.Errorf("%s:%d: no init; let the caller say it", f.path, n+1)
			}
		}
	}
}
