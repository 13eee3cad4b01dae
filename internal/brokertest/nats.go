package brokertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/daybookdev/daybook/internal/testserver"
)

// NATS is a NATS server with JetStream, which keeps its streams on disk.
type NATS struct {
	*Server
	monitor int // the port where it speaks about itself
}

// StartNATS starts a server for a test, which stops it when it ends. More
// arguments go to nats-server.
func StartNATS(t testing.TB, args ...string) *NATS {
	t.Helper()
	n, err := OpenNATS(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// OpenNATS starts a server and waits until it takes connections. Stop it in the
// end.
func OpenNATS(args ...string) (*NATS, error) {
	monitor, err := testserver.FreePort()
	if err != nil {
		return nil, err
	}
	s, err := Open(Program{
		Name: "nats-server", Dirs: []string{"/usr/sbin", "/usr/local/bin"}, Install: "apt-get install -y nats-server",
		Args: func(port int, dir string) []string {
			return append([]string{"--addr", "127.0.0.1", "--port", strconv.Itoa(port), "--http_port",
				strconv.Itoa(monitor), "--jetstream", "--store_dir", filepath.Join(dir, "js")}, args...)
		},
	})
	if err != nil {
		return nil, err
	}
	return &NATS{Server: s, monitor: monitor}, nil
}

// URL is where to connect to.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Wipe kills the server, removes its streams, and starts it again.
func (n *NATS) Wipe() error {
	return errors.Join(n.Kill(), os.RemoveAll(filepath.Join(n.Dir(), "js")), n.StartAgain())
}

// Connections counts the clients that are connected now.
func (n *NATS) Connections() (int, error) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/connz", n.monitor))
	if err != nil {
		return 0, fmt.Errorf("brokertest: %w", err)
	}
	defer answer.Body.Close()
	defer client.CloseIdleConnections()
	var is struct {
		Now int `json:"num_connections"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&is); err != nil {
		return 0, fmt.Errorf("brokertest: nats-server's /connz: %w", err)
	}
	return is.Now, nil
}
