package simulate

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// The processes of a simulation. The book's reconciler and relay run in those
// that are workers, as they do in production.
const (
	workers = 3
	hands   = 2 // claim, hold and complete by hand
	jobs    = 8
)

// kind is what is done to a process, or to the rings.
type kind string

// The kinds of fault.
const (
	cutOff kind = "cut"   // its calls don't reach the database
	lost   kind = "lost"  // they do, and their answers are lost
	slow   kind = "slow"  // each takes a second
	stop   kind = "stop"  // it stands still: its calls are made when it goes on
	die    kind = "die"   // it is gone; another one begins
	mute   kind = "mute"  // no ring reaches it
	twice  kind = "twice" // every ring reaches it twice
	late   kind = "late"  // every ring reaches it late
	cancel kind = "cancel"
)

var kinds = []kind{cutOff, lost, slow, stop, die, mute, twice, late, cancel}

// fault is one line of a schedule.
type fault struct {
	at   time.Duration
	kind kind
	who  int // a process, or a job to be cancelled
	last time.Duration
}

// Schedule is a simulation to be run: the faults, by time, and a seed for all
// that isn't one.
type Schedule struct {
	Seed   uint64
	faults []fault
}

// simulated is how long faults happen, in virtual time.
const simulated = 24 * time.Second

// Draw draws a schedule. The same seed draws the same one.
func Draw(seed uint64) Schedule {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	s := Schedule{Seed: seed}
	for range 2 + r.IntN(10) {
		f := fault{at: time.Duration(r.IntN(int(simulated/time.Millisecond))) * time.Millisecond,
			kind: kinds[r.IntN(len(kinds))], who: r.IntN(workers + hands),
			last: time.Duration(1+r.IntN(8000)) * time.Millisecond}
		if f.kind == cancel {
			f.who = r.IntN(jobs)
		}
		s.faults = append(s.faults, f)
	}
	slices.SortStableFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	return s
}

// String is the schedule as a file has it: a line for each fault.
func (s Schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", s.Seed)
	for _, f := range s.faults {
		fmt.Fprintf(&b, "at %s %s %d for %s\n", f.at, f.kind, f.who, f.last)
	}
	return b.String()
}

// Parse reads what String wrote; lines that begin with # are for people.
func Parse(r io.Reader) (s Schedule, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.Fields(lines.Text())
		bad := daybook.Invalid("schedule", "line %d is no line of a schedule", n)
		switch {
		case len(line) == 0 || strings.HasPrefix(line[0], "#"):
		case line[0] == "seed" && len(line) == 2:
			if s.Seed, err = strconv.ParseUint(line[1], 10, 64); err != nil {
				return s, bad
			}
		case line[0] == "at" && len(line) == 6:
			var f fault
			var e [3]error
			f.at, e[0] = time.ParseDuration(line[1])
			f.who, e[1] = strconv.Atoi(line[3])
			f.last, e[2] = time.ParseDuration(line[5])
			f.kind = kind(line[2])
			if e != [3]error{} || !slices.Contains(kinds, f.kind) || f.who < 0 || f.who >= max(jobs, workers+hands) {
				return s, bad
			}
			s.faults = append(s.faults, f)
		default:
			return s, bad
		}
	}
	return s, lines.Err()
}

// Shrink takes faults out for as long as what is left still fails: first halves,
// then one by one. fails runs a schedule, more than once where that takes luck.
func (s Schedule) Shrink(fails func(Schedule) bool) Schedule {
	for size := max(1, len(s.faults)/2); size > 0; size /= 2 {
		for at := 0; at < len(s.faults); {
			less := s
			less.faults = slices.Delete(slices.Clone(s.faults), at, min(at+size, len(s.faults)))
			if fails(less) {
				s = less
			} else {
				at += size
			}
		}
	}
	return s
}
