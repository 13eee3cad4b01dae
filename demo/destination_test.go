package demo

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// ask sends one request to the destination.
func ask(t *testing.T, url, key, delivery, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(headerKey, key)
	r.Header.Set(headerDelivery, delivery)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, strings.TrimSpace(string(text))
}

func TestDestinationEnforcesTheKey(t *testing.T) {
	d, err := newDestination()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, tt := range []struct{ key, delivery, want string }{
		{"k1", "a", `{"receipt":1}`},
		{"k2", "b", `{"receipt":2}`},
		{"k1", "a", `{"receipt":1}`}, // a repeat: the same answer
		{"k3", "a", `{"receipt":3}`}, // another key acts, whatever it is about
	} {
		if _, got := ask(t, d.url, tt.key, tt.delivery, "{}"); got != tt.want {
			t.Errorf("key %s, delivery %s: got %s, want %s", tt.key, tt.delivery, got, tt.want)
		}
	}
	if status, _ := ask(t, d.url, "", "a", "{}"); status != http.StatusBadRequest {
		t.Errorf("without a key: got status %d, want %d", status, http.StatusBadRequest)
	}
	acts, asked := d.ledger()
	if len(acts) != 3 || asked != 4 || acts[0].Asked != 2 {
		t.Errorf("got %d acts for %d requests, the first asked %d times; want 3, 4, 2",
			len(acts), asked, acts[0].Asked)
	}
}

func TestDestinationActsOnceUnderConcurrency(t *testing.T) {
	d, err := newDestination()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { d.act("k", "a", nil) })
	}
	all.Wait()
	if acts, asked := d.ledger(); len(acts) != 1 || asked != 20 {
		t.Errorf("got %d acts for %d requests, want 1 for 20", len(acts), asked)
	}
}

func TestDestinationSavesItsLedger(t *testing.T) {
	d := &destination{known: map[string]int{}}
	d.act("k1", "a", []byte("{}"))
	d.act("k2", "b", []byte("{}"))
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := d.save(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []act
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var a act
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if len(got) != 2 || got[1] != (act{Receipt: 2, Key: "k2", Delivery: "b", Asked: 1}) {
		t.Errorf("got %+v, want both acts", got)
	}
}
