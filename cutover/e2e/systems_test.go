package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/asynq"
	"github.com/daybookdev/daybook/cutover/bullmq"
	"github.com/daybookdev/daybook/cutover/rq"
	"github.com/daybookdev/daybook/cutover/sidekiq"
)

// system is an old job system whose own programs run here.
type system struct {
	name string
	open func(url string) (cutover.Old, error)
	// produce is a command that reads orders; worker one that works until it is
	// told to stop. Both find the store in OLD_URL and write to RUNS. alone makes a
	// worker do one job at a time.
	produce, worker, alone []string
	env                    []string
	mapping                cutover.Mapping
	install                string // what is missing when they aren't there
	module                 string // the Go module that the program is built of
	packages               string // the folder of which npm installs what the program needs
	refusesIDs             bool   // a moved job's id can't be used again over there
	// age lets the time by which owners are known to be lost go by at once; nil
	// where tests have to wait.
	age func(ctx context.Context, c *redis.Client) error
}

// systems lists them; dir is where this package's programs are.
func systems(dir string) []system {
	programs := filepath.Join(dir, "..", "..", "internal", "oldworkers")
	return []system{asynqSystem(dir, programs), bullmqSystem("bullmq", programs), bullmqSystem("bullmq5", programs),
		rqSystem(dir), sidekiqSystem(dir)}
}

func asynqSystem(dir, programs string) system {
	program := filepath.Join(dir, "testdata", "asynq.built")
	return system{
		name: "asynq", module: filepath.Join(programs, "asynq"), refusesIDs: true,
		open: func(url string) (cutover.Old, error) {
			return asynq.Open(asynq.Options{URL: url, Queue: "mail"})
		},
		produce: []string{program, "orders"}, worker: []string{program, "serve"}, alone: []string{"-c", "1"},
		age: pastScores("asynq:{mail}:lease"),
	}
}

// bullmqSystem is BullMQ of either version, by its package's name.
func bullmqSystem(version, programs string) system {
	cache, _ := os.UserCacheDir()
	installed := filepath.Join(cache, "daybook-old-bullmq-orders")
	program := filepath.Join(installed, "orders.mjs")
	return system{
		name: version, install: "apt-get install -y nodejs npm", env: []string{"BULLMQ=" + version},
		packages: filepath.Join(programs, "bullmq"),
		open: func(url string) (cutover.Old, error) {
			return bullmq.Open(bullmq.Options{URL: url, Queue: "mail"})
		},
		produce: []string{"node", program, "orders"}, worker: []string{"node", program, "serve"},
		alone: []string{"-c", "1"},
		age: func(ctx context.Context, c *redis.Client) error {
			locks, err := c.Keys(ctx, "bull:mail:*:lock").Result()
			if err == nil && len(locks) > 0 {
				err = c.Del(ctx, locks...).Err()
			}
			return err
		},
	}
}

func rqSystem(dir string) system {
	return system{
		name: "rq", install: "apt-get install -y python3-rq",
		open: func(url string) (cutover.Old, error) {
			return rq.Open(rq.Options{URL: url, Queue: "mail", WorkerTTL: 16 * time.Second})
		},
		mapping: cutover.Mapping{Classes: map[string]cutover.Rule{"rqorders.mail": {Kind: "MailJob"}}},
		env:     []string{"PYTHONPATH=" + filepath.Join(dir, "testdata"), "PYTHONDONTWRITEBYTECODE=1"},
		produce: []string{"/usr/bin/python3", filepath.Join(dir, "testdata", "rqorders.py")},
		worker: []string{"sh", "-c", "exec /usr/bin/rq worker mail --url $OLD_URL --worker-ttl 16 --serializer " +
			"rq.serializers.JSONSerializer"},
		age: pastScores("rq:wip:mail"),
	}
}

func sidekiqSystem(dir string) system {
	program := filepath.Join(dir, "testdata", "sidekiq.rb")
	return system{
		name: "sidekiq", install: "apt-get install -y ruby-sidekiq",
		open: func(url string) (cutover.Old, error) {
			return sidekiq.Open(sidekiq.Options{URL: url, Queue: "mail"})
		},
		produce: []string{"ruby", "-W0", program},
		worker:  []string{"sidekiq", "-r", program, "-q", "mail", "-c", "3"}, alone: []string{"-c", "1"},
	}
}

// pastScores makes every time in a sorted set one that has passed.
func pastScores(key string) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, c *redis.Client) error {
		members, err := c.ZRange(ctx, key, 0, -1).Result()
		past := make([]redis.Z, len(members))
		for i, m := range members {
			past[i] = redis.Z{Score: float64(time.Now().Unix() - 1), Member: m}
		}
		if err == nil && len(past) > 0 {
			err = c.ZAddXX(ctx, key, past...).Err()
		}
		return err
	}
}

// need builds and installs what the programs want, and fails the test when
// something isn't there.
func (s system) need(t *testing.T) {
	t.Helper()
	if s.module != "" {
		build := exec.Command("go", "build", "-C", s.module, "-o", s.worker[0], ".")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", s.module, err, out)
		}
	}
	for _, program := range []string{s.produce[0], s.worker[0]} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: %s", program, s.install)
		}
	}
	if s.packages != "" {
		s.npm(t, filepath.Dir(s.worker[1]))
	}
}

// npm copies the program's folder to where packages can lie, and has npm install
// what its lock file names, unless that was done.
func (s system) npm(t *testing.T, to string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(to, 0o755))
	same := true
	for _, name := range []string{"package.json", "package-lock.json", "orders.mjs", "guide.mjs"} {
		text, err := os.ReadFile(filepath.Join(s.packages, name))
		must(err)
		was, _ := os.ReadFile(filepath.Join(to, name))
		if !slices.Equal(was, text) {
			same = same && filepath.Ext(name) == ".mjs"
			must(os.WriteFile(filepath.Join(to, name), text, 0o644))
		}
	}
	if _, err := os.Stat(filepath.Join(to, "node_modules", "bullmq5")); err == nil && same {
		return
	}
	install := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	install.Dir = to
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm can't install BullMQ in %s: %v; %s\n%s", to, err, s.install, tail(out))
	}
}
