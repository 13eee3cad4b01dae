package brokertest

import (
	"testing"
)

// TestRabbitMQ: a node runs, dies, comes back at its port, and forgets.
func TestRabbitMQ(t *testing.T) {
	if !Wanted() {
		return
	}
	r := StartRabbitMQ(t)
	must(t, r.Restart())
	must(t, r.Wipe())
	n, err := r.Connections()
	must(t, err)
	if n != 0 {
		t.Errorf("%d connections to a node that nobody uses", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
