package brokertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/internal/testserver"
)

// RabbitMQ is a private node: its own data, log, cookie and port mapper.
type RabbitMQ struct {
	*Server
	bin    string
	mapper int // the port of its epmd
}

const rabbitInstall = "apt-get install -y rabbitmq-server"

// rabbitDirs are where distributions keep the scripts that take any user and
// any folder, unlike those on PATH.
var rabbitDirs = []string{"/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/sbin"}

// rabbitScript becomes the node, with a port mapper beside it that ends when the
// node has. A folder's first start makes its settings.
const rabbitScript = `
printf '[].\n' > plugins
epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & mapper=$!
(while kill -0 $$; do sleep 1; done; kill $mapper) 2>/dev/null &
exec "$0"
`

// StartRabbitMQ starts a node for a test, which stops it when it ends. That
// takes some five seconds.
func StartRabbitMQ(t testing.TB) *RabbitMQ {
	t.Helper()
	r, err := OpenRabbitMQ()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// OpenRabbitMQ starts a node and waits until it takes connections. Stop it in
// the end.
func OpenRabbitMQ() (*RabbitMQ, error) {
	bin, err := rabbitBin()
	if err != nil {
		return nil, err
	}
	dist, err := testserver.FreePort()
	if err != nil {
		return nil, err
	}
	mapper, err := testserver.FreePort()
	if err != nil {
		return nil, err
	}
	s, err := Open(Program{
		Name: "sh", Install: rabbitInstall,
		Args: func(port int, dir string) []string {
			settings := strings.Join(append(rabbitEnv(dir, mapper), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
				"RABBITMQ_NODE_PORT="+strconv.Itoa(port), "RABBITMQ_DIST_PORT="+strconv.Itoa(dist),
				"RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_LOGS=-",
				"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "plugins"),
				"RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "none"),
				"RUNNING_UNDER_SYSTEMD=true"), " ") // the script then becomes the node
			return []string{"-c", "export " + settings + rabbitScript, filepath.Join(bin, "rabbitmq-server")}
		},
		Ready: func(port int) bool {
			answer, err := ask(port, "AMQP\x00\x00\x09\x01")
			return err == nil && strings.Contains(answer, "RabbitMQ")
		},
	})
	if err != nil {
		return nil, err
	}
	return &RabbitMQ{Server: s, bin: bin, mapper: mapper}, nil
}

// rabbitBin is the folder with the scripts.
func rabbitBin() (string, error) {
	for _, dir := range rabbitDirs {
		if _, err := os.Stat(filepath.Join(dir, "rabbitmq-server")); err == nil {
			return dir, nil
		}
	}
	path, err := find(Program{Name: "rabbitmq-server", Install: rabbitInstall})
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// rabbitEnv is how a node and those who speak with it find each other. The
// cookie lies in the home folder.
func rabbitEnv(dir string, mapper int) []string {
	return []string{"HOME=" + dir, "RABBITMQ_NODENAME=daybook@localhost", "RABBITMQ_CONF_ENV_FILE=" + os.DevNull,
		"ERL_EPMD_PORT=" + strconv.Itoa(mapper), "ERL_EPMD_ADDRESS=127.0.0.1"}
}

// URL is where to connect to, to the virtual host "/".
func (r *RabbitMQ) URL() string { return "amqp://guest:guest@" + r.Addr() }

// Wipe kills the node, removes its data, and starts it again.
func (r *RabbitMQ) Wipe() error {
	return errors.Join(r.Kill(), os.RemoveAll(filepath.Join(r.Dir(), "data")), r.StartAgain())
}

// Ctl runs rabbitmqctl on the node and returns its answer. It takes a second or
// two.
func (r *RabbitMQ) Ctl(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(r.bin, "rabbitmqctl"), append([]string{"-q", "-n", "daybook@localhost"}, args...)...)
	cmd.Env = append(os.Environ(), rabbitEnv(r.Dir(), r.mapper)...)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("brokertest: rabbitmqctl %s: %w\n%s%s", strings.Join(args, " "), err, out, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Connections counts the clients that are connected now.
func (r *RabbitMQ) Connections() (int, error) {
	answer, err := r.Ctl("eval", "length(rabbit_networking:connections()).")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(answer)
	if err != nil {
		return 0, fmt.Errorf("brokertest: rabbitmqctl counts %q connections", answer)
	}
	return n, nil
}
