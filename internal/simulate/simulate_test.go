package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// simulate runs a schedule in virtual time.
func simulate(t *testing.T, s Schedule) (wrong []string) {
	synctest.Test(t, func(t *testing.T) { wrong = s.Run(t.Context()) })
	return wrong
}

// schedules is how many are tried: DAYBOOK_SCHEDULES, or some seconds' worth.
func schedules(t *testing.T) int {
	text := os.Getenv("DAYBOOK_SCHEDULES")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSimulation tries seeds from DAYBOOK_SEED on, 1 without it. The first that
// fails is made shorter and written to a file, whose name the failure tells.
func TestSimulation(t *testing.T) {
	first, err := strconv.ParseUint("0"+os.Getenv("DAYBOOK_SEED"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	first = max(first, 1)
	n, began := schedules(t), time.Now()
	var all sync.WaitGroup
	var failed sync.Once
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := range next {
				if wrong := simulate(t, Draw(seed)); len(wrong) > 0 {
					failed.Do(func() { shrink(t, Draw(seed), wrong) })
				}
			}
		})
	}
	for i := range n {
		if t.Failed() {
			break
		}
		next <- first + uint64(i)
	}
	close(next)
	all.Wait()
	t.Logf("%d schedules, %.0f a minute", n, float64(n)/time.Since(began).Minutes())
}

// shrink makes a failing schedule shorter and writes it down.
func shrink(t *testing.T, s Schedule, wrong []string) {
	why := wrong
	short := s.Shrink(func(less Schedule) bool {
		for range 3 { // the order of goroutines isn't the seed's
			if wrong := simulate(t, less); len(wrong) > 0 {
				why = wrong
				return true
			}
		}
		return false
	})
	var text strings.Builder
	for _, line := range why {
		fmt.Fprintf(&text, "# %.300s\n", line)
	}
	text.WriteString(short.String())
	path := filepath.Join(os.TempDir(), fmt.Sprintf("daybook-seed-%d.txt", s.Seed)) // stays
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d fails: %s\nit is shortest as %s:\n%s", s.Seed, wrong[0], path, text.String())
}

// TestScenarios runs the schedules in testdata.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schedules: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := Parse(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range simulate(t, s) {
				t.Error(w)
			}
		})
	}
}

// A schedule reads as it is written, and shrinks to what matters.
func TestSchedule(t *testing.T) {
	s := Draw(7)
	again, err := Parse(strings.NewReader("# for people\n" + s.String()))
	if err != nil || again.String() != s.String() {
		t.Errorf("got %s, %v; want %s", again, err, s)
	}
	for _, bad := range []string{"seed x", "at 1s cut 0", "at 1s nothing 0 for 1s", "at 1s cut -1 for 1s"} {
		if _, err := Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	s.faults = append(s.faults, fault{at: time.Minute, kind: cancel, who: 3}, fault{at: time.Hour, kind: cancel, who: 5})
	short := s.Shrink(func(less Schedule) bool {
		text := less.String()
		return strings.Contains(text, "cancel 3") && strings.Contains(text, "cancel 5 ")
	})
	if len(short.faults) > 2 {
		t.Errorf("shortest is %s", short)
	}
}

// The model of owners knows right from wrong.
func TestModel(t *testing.T) {
	claim := func(g int64) operation { return operation{claim: true, generation: g, session: [16]byte{byte(g)}} }
	done := func(g int64) operation { return operation{ok: true, generation: g, session: [16]byte{byte(g)}} }
	fenced := func(g int64) operation { return operation{generation: g, session: [16]byte{byte(g)}} }
	for _, tt := range []struct {
		name string
		ops  []operation
		want bool
	}{
		{"claimed and done", []operation{claim(1), done(1)}, true},
		{"done twice by one", []operation{claim(1), done(1), done(1)}, true},
		{"replaced and fenced", []operation{claim(1), claim(3), fenced(1), done(3)}, true},
		{"a late owner's success", []operation{claim(1), claim(3), done(1)}, false},
		{"the same generation twice", []operation{claim(1), claim(1)}, false},
		{"claimed when done", []operation{claim(1), done(1), claim(3)}, false},
		{"fenced and then done", []operation{claim(1), fenced(1), done(1)}, false},
		{"done and then fenced", []operation{claim(1), done(1), fenced(1)}, false},
	} {
		w := &world{}
		for _, op := range tt.ops {
			w.note(op, w.tick())
		}
		if w.linear(); (len(w.wrong) == 0) != tt.want {
			t.Errorf("%s: got %v", tt.name, w.wrong)
		}
	}
}
