package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// everything lays three jobs of each state there that the system has.
func (p *place) everything(t testing.TB) map[string]daybook.OldState {
	t.Helper()
	ids := map[string]daybook.OldState{}
	for _, state := range daybook.OldStates {
		if state == daybook.OldGone || !p.has(state) {
			continue
		}
		for i := range 3 {
			id := fmt.Sprintf("%s-%03d", state, i)
			p.Put(t, state, id, fmt.Sprintf(`[%d,"a b"]`, i), due(i))
			ids[id] = state
		}
	}
	return ids
}

func scanStates(t *testing.T, p *place) {
	ids := p.everything(t)
	o := p.old(t)
	jobs := scan(t, o)
	for id, state := range ids {
		job, seen := jobs[id]
		if !seen {
			t.Errorf("%s wasn't visited", id)
			continue
		}
		var i int
		if _, err := fmt.Sscanf(id[len(id)-3:], "%d", &i); err != nil {
			t.Fatal(err)
		}
		if job.State != state {
			t.Errorf("%s is %s, want %s", id, job.State, state)
		}
		if got, want := string(job.Args), fmt.Sprintf(`[%d,"a b"]`, i); got != want {
			t.Errorf("%s has args %s, want %s", id, got, want)
		}
		if wants := state == daybook.OldLater || state == daybook.OldRetrying; wants && !job.DueAt.Std().Equal(due(i)) {
			t.Errorf("%s is due %s, want %s", id, job.DueAt, daybook.At(due(i)))
		}
		if state == daybook.OldRetrying && job.Attempts < 1 {
			t.Errorf("%s retries and has %d attempts", id, job.Attempts)
		}
		if wants := state == daybook.OldOwned; wants && (job.Owner == "" || job.OwnerSeen == 0) {
			t.Errorf("%s has owner %q, seen %s", id, job.Owner, job.OwnerSeen)
		}
		if job.Unreadable != "" || job.Class == "" || len(job.Body) == 0 || len(job.Raw) == 0 {
			t.Errorf("%s isn't whole: %+v", id, job)
		}
	}
	if len(jobs) != len(ids) {
		t.Errorf("%d jobs were visited, want %d: %v", len(jobs), len(ids), jobs)
	}
	owned, err := o.Owned(t.Context())
	must(t, err)
	for _, job := range owned {
		if ids[job.Name()] != job.State {
			t.Errorf("%s is %s among the owned, want %s", job.Name(), job.State, ids[job.Name()])
		}
	}
	if p.has(daybook.OldOwned) && len(owned) != 6 {
		t.Errorf("%d are owned, want 6: %v", len(owned), names(owned))
	}
}

func scanCopy(t *testing.T, p *place) {
	p.everything(t)
	for i := range 2500 { // more than a page
		p.Put(t, daybook.OldWaiting, fmt.Sprintf("many-%05d", i), "[]", due(0))
		p.Put(t, daybook.OldLater, fmt.Sprintf("late-%05d", i), "[]", due(i))
	}
	before := Dump(t, p.Client)
	var orders [2][]string
	for i, whole := range []int64{1 << 30, 10} {
		_, err := p.openAt(t, p.URL, whole).Scan(t.Context(), 0, func(job daybook.OldJob) error {
			orders[i] = append(orders[i], job.Name()+" "+string(job.State)+" "+job.DueAt.String())
			return nil
		})
		must(t, err)
	}
	if !slices.Equal(orders[0], orders[1]) {
		t.Errorf("a copy gives %d jobs, the whole %d, or another order", len(orders[1]), len(orders[0]))
	}
	same(t, "after a scan of a copy", before, Dump(t, p.Client))
}

func scanChangesNothing(t *testing.T, p *place) {
	p.everything(t)
	before := Dump(t, p.Client)
	o := p.old(t)
	scan(t, o)
	_, err := o.Owned(t.Context())
	must(t, err)
	_, err = o.Find(t.Context(), []string{"waiting-000", "nobody"})
	must(t, err)
	_, err = o.Check(t.Context())
	must(t, err)
	_, err = o.Left(t.Context())
	must(t, err)
	_, err = o.GateState(t.Context())
	must(t, err)
	same(t, "after reading", before, Dump(t, p.Client))
	stop := fmt.Errorf("enough")
	if _, err := p.openAt(t, p.URL, 1).Scan(t.Context(), 0, func(daybook.OldJob) error { return stop }); err != stop {
		t.Errorf("a visit that fails gives %v", err)
	}
	same(t, "after a copy that was left", before, Dump(t, p.Client))
}

// scanMoving: while jobs go from list to list, each scan has each job once.
func scanMoving(t *testing.T, p *place) {
	const jobs, scans = 150, 60
	for i := range jobs {
		p.Put(t, daybook.OldWaiting, fmt.Sprintf("m-%03d", i), "[]", due(0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	steps := 0
	go func() {
		for ctx.Err() == nil {
			if err := p.Flow(); err != nil {
				ended <- err
				return
			}
			steps++
		}
		ended <- nil
	}()
	olds := []cutover.Old{p.old(t), p.openAt(t, p.URL, 10)}
	for n := range scans {
		seen := map[string]int{}
		_, err := olds[n%2].Scan(t.Context(), 0, func(job daybook.OldJob) error {
			seen[job.Name()]++
			return nil
		})
		must(t, err)
		for i := range jobs {
			if id := fmt.Sprintf("m-%03d", i); seen[id] != 1 {
				t.Errorf("scan %d has %s %d times", n, id, seen[id])
			}
		}
	}
	cancel()
	must(t, <-ended)
	if steps < scans {
		t.Errorf("only %d steps in %d scans: this proves nothing", steps, scans)
	}
}

func unreadable(t *testing.T, p *place) {
	p.Put(t, daybook.OldWaiting, "good", "[1]", due(0))
	p.Spoil(t, "bad")
	o := p.old(t)
	check := func(jobs []daybook.OldJob) {
		t.Helper()
		bad := 0
		for _, job := range jobs {
			if job.Unreadable != "" {
				bad++
				if len(job.Body) == 0 && job.ID == "" {
					t.Errorf("an unreadable job has neither id nor body: %+v", job)
				}
			}
		}
		if len(jobs) != 2 || bad != 1 {
			t.Errorf("%d jobs, %d of them unreadable; want 2 and 1", len(jobs), bad)
		}
	}
	jobs := scan(t, o)
	var list []daybook.OldJob
	for _, job := range jobs {
		list = append(list, job)
	}
	check(list)
	before := Dump(t, p.Client)
	took := take(t, o, 10)
	check(took)
	check(held(t, o))
	for _, job := range slices.Backward(took) {
		if back, err := o.Return(t.Context(), job); err != nil || !back {
			t.Fatalf("returning %q: %v, %v", job.Name(), back, err)
		}
	}
	must(t, o.Forget(t.Context()))
	same(t, "after the way there and back", before, Dump(t, p.Client))
}

func unknownVersion(t *testing.T, p *place) {
	o := p.old(t)
	_, err := o.Check(t.Context())
	must(t, err)
	p.Unknown(t)
	_, err = o.Check(t.Context())
	code(t, err, daybook.CodeRefused)
}

// hostileIDs and hostileArgs are what somebody's jobs may well be.
var (
	hostileIDs = []string{"a b", "a\nb", `"quoted"`, "{braces}", "*", "[x]?", "ünï-☃", "<img onerror>", "a\x00b",
		"1 2 3\n", "%s%d", `back\slash`, strings.Repeat("x", 400), "-", "'; DROP"}
	hostileArgs = []string{`[]`, `[9007199254740993,1.0,1e3]`, `["\u0000"]`, `["</script>"]`, `["\n1 - 5\n"]`,
		`[` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `]`, `["` + strings.Repeat("y", 200_000) + `"]`}
)

func hostile(t *testing.T, p *place) {
	want := map[string]string{}
	for i, id := range hostileIDs {
		args := hostileArgs[i%len(hostileArgs)]
		p.Put(t, movable[i%len(movable)], id, args, due(i))
		want[id] = args
	}
	for i, args := range hostileArgs {
		id := fmt.Sprintf("args-%d", i)
		p.Put(t, daybook.OldWaiting, id, args, due(i))
		want[id] = args
	}
	before := Dump(t, p.Client)
	o := p.old(t)
	check := func(what string, jobs []daybook.OldJob) {
		t.Helper()
		got := map[string]string{}
		for _, job := range jobs {
			got[job.ID] = string(job.Args)
		}
		for id, args := range want {
			if got[id] != args {
				t.Errorf("%s: %q has args %s, want %s", what, id, short(got[id]), short(args))
			}
		}
		if len(jobs) != len(want) {
			t.Errorf("%s: %d jobs, want %d", what, len(jobs), len(want))
		}
	}
	var seen []daybook.OldJob
	for _, job := range scan(t, o) {
		seen = append(seen, job)
	}
	check("scan", seen)
	took := take(t, o, 4)
	check("take", took)
	check("held", held(t, o))
	for _, job := range slices.Backward(took) {
		if back, err := o.Return(t.Context(), job); err != nil || !back {
			t.Fatalf("returning %q: %v, %v", job.ID, back, err)
		}
	}
	must(t, o.Forget(t.Context()))
	same(t, "after the way there and back", before, Dump(t, p.Client))
	must(t, o.Drop(t.Context(), take(t, o, 7)))
	if left := scan(t, o); len(left) != 0 {
		t.Errorf("%d jobs are left", len(left))
	}
}

func find(t *testing.T, p *place) {
	ids := p.everything(t)
	o := p.old(t)
	asked := []string{"nobody", ""}
	for id := range ids {
		asked = append(asked, id)
	}
	found, err := o.Find(t.Context(), asked)
	must(t, err)
	for _, id := range asked {
		want := ids[id]
		if want == "" {
			want = daybook.OldGone
		}
		if found[id].State != want {
			t.Errorf("%q is %q, want %s", id, found[id].State, want)
		}
	}
	took, err := o.Take(t.Context(), 1)
	must(t, err)
	found, err = o.Find(t.Context(), names(took))
	must(t, err)
	if got := found[took[0].Name()].State; got != daybook.OldGone {
		t.Errorf("a held job is %s", got)
	}
}

func storeAway(t *testing.T, p *place) {
	o := p.Open(t, "redis://somebody:s3cret@127.0.0.1:1/0", 0)
	defer o.Close()
	_, err := o.Check(t.Context())
	code(t, err, daybook.CodeUnavailable)
	for _, text := range []string{fmt.Sprint(err), o.Place().Store} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "somebody") {
			t.Errorf("it tells the password: %s", text)
		}
	}
	_, err = o.Take(t.Context(), 1)
	code(t, err, daybook.CodeUnavailable)
}

// noHeadroom: a copy that the store has no memory for is refused and not begun.
func noHeadroom(t *testing.T, p *place) {
	for i := range 200 {
		p.Put(t, daybook.OldWaiting, fmt.Sprintf("m-%03d", i), `["`+strings.Repeat("z", 5000)+`"]`, due(0))
	}
	before := Dump(t, p.Client)
	info := p.Client.Info(t.Context(), "memory").Val()
	var used int64
	for line := range strings.Lines(info) {
		fmt.Sscanf(line, "used_memory:%d", &used)
	}
	must(t, p.Client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used+300_000)).Err())
	_, err := p.openAt(t, p.URL, 10).Scan(t.Context(), 0, func(daybook.OldJob) error { return nil })
	code(t, err, daybook.CodeRefused)
	must(t, p.Client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	same(t, "after a copy that was refused", before, Dump(t, p.Client))
}
