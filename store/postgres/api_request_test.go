package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestSQLRequests makes random requests, near every limit, by SQL or by Go as it
// falls, with few keys and ids: both must refuse what the domain refuses, and
// each must know what the other accepted.
func TestSQLRequests(t *testing.T) {
	b := newSQLBook(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := &desk{sqlBook: b, fuzzer: fuzzer{rand.New(rand.NewPCG(seed, 0))}, keys: map[string]daybook.NewJob{},
		jobs: map[daybook.ID]daybook.NewJob{}, replays: map[string]int64{}}
	for range 6 {
		d.ids = append(d.ids, daybook.NewID())
	}
	for range 600 {
		d.ask()
	}
	for key, n := range d.keys {
		k, err := b.book.Key(t.Context(), key)
		if err != nil || k.Job != n.Job.ID || k.Fingerprint != n.Fingerprint || k.Replays != d.replays[key] {
			t.Errorf("key %q is %+v, %v; want job %s with %d replays", key, k, err, n.Job.ID, d.replays[key])
		}
	}
}

// desk is where requests come in, and what was accepted.
type desk struct {
	*sqlBook
	fuzzer
	ids     []daybook.ID
	keys    map[string]daybook.NewJob
	jobs    map[daybook.ID]daybook.NewJob
	replays map[string]int64
}

// request draws one.
func (d *desk) request() daybook.Request {
	r := daybook.Request{Queue: d.pick("q", "q", "q2", "", "a b", "é", strings.Repeat("q", 128),
		strings.Repeat("q", 129)),
		Kind:   d.pick("k", "k", "k", "k.1_-:", "k\n", strings.Repeat("k", 129)),
		OnLost: daybook.OnLost(d.pick("", "", "retry", "set_aside", "x"))}
	if d.IntN(3) > 0 { // most of them plain
		r.Queue, r.Kind, r.OnLost = "q", "k", ""
	}
	r.Args = json.RawMessage(d.pick(`{"n":1}`, `{"n": 1.0}`, `{"n":2}`, `{"a":1,"a":2}`, `["\u0000"]`, `["\ud800"]`))
	if d.IntN(4) == 0 {
		r.Args = json.RawMessage(d.document(0))
	}
	switch d.IntN(8) {
	case 0, 1, 2:
		r.Key = d.pick("a", "b", "ü", "c", "\x01", strings.Repeat("x", 255), strings.Repeat("é", 128))
	case 3:
		r.Key = fmt.Sprint("key ", d.IntN(1000))
	}
	if d.IntN(4) == 0 {
		r.ID = d.ids[d.IntN(len(d.ids))]
	}
	if d.IntN(3) == 0 {
		r.In = d.duration()
	} else if d.IntN(3) == 0 {
		r.RunAt = d.time()
	}
	if d.IntN(4) == 0 {
		r.ExpiresAt = d.time()
	}
	if d.IntN(4) == 0 {
		r.Timeout = d.duration()
	}
	if d.IntN(4) == 0 {
		r.Priority = []int{-32769, -32768, -1, 1, 32767, 32768}[d.IntN(6)]
	}
	if d.IntN(4) == 0 {
		r.MaxFailures = []int{-1, 1, 19, 20, 10_000, 10_001}[d.IntN(6)]
	}
	return r
}

func (d *desk) duration() time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{-time.Microsecond, time.Microsecond, time.Millisecond - time.Microsecond, time.Millisecond,
		time.Hour, day, 365 * day, 365*day + time.Microsecond, 100 * 365 * day, 100*365*day + time.Microsecond}[d.IntN(10)]
}

func (d *desk) time() time.Time {
	now, last := d.now().Std(), daybook.TimeMax.Std()
	return []time.Time{now, now.Add(time.Microsecond), now.Add(-time.Hour), now.Add(time.Hour), time.Unix(0, 999_999_000),
		time.Unix(1, 0), time.Date(1066, 10, 14, 9, 0, 0, 0, time.UTC), last, last.Add(time.Microsecond)}[d.IntN(9)]
}

// ask makes a request in one of the two languages.
func (d *desk) ask() {
	d.Helper()
	r := d.request()
	want, replay, wantErr := d.expect(r)
	id, replayed, err := d.bySQL(r)
	if d.IntN(3) == 0 && r.ID.IsZero() && err == nil && r.Key != "" { // and again in Go
		again, err := d.book.Enqueue(d.Context(), r)
		if err != nil || again.ID.String() != id || !again.Replayed {
			d.Fatalf("%+v: SQL gave %s, Go gives %+v, %v", r, id, again, err)
		}
		d.replays[r.Key]++
	}
	if d.agree(r, wantErr, err); err != nil {
		return
	}
	if replayed != replay {
		d.Fatalf("%+v: replayed is %v, want %v", r, replayed, replay)
	}
	if replay {
		if id != want.Job.ID.String() {
			d.Fatalf("%+v: replayed %s, want %s", r, id, want.Job.ID)
		}
		return
	}
	want.Job.ID, _ = daybook.ParseID(id)
	d.accept(want)
	got, model := d.job(id), want.Enqueue(d.now())
	if g, w := shownJob(got), shownJob(model); g != w {
		d.Fatalf("%+v:\ngot  %s\nwant %s", r, g, w)
	}
}

// expect is what the domain makes of a request.
func (d *desk) expect(r daybook.Request) (n daybook.NewJob, replay bool, err error) {
	if n, err = r.Prepare(); err != nil {
		return n, false, err
	}
	if known, ok := d.keys[r.Key]; ok && r.Key != "" {
		_, err := n.Replay(known.Fingerprint, known.Job.ID, true)
		if err == nil {
			d.replays[r.Key]++
		}
		return known, true, err
	}
	if known, ok := d.jobs[r.ID]; ok && !r.ID.IsZero() {
		if r.Key != "" && r.Key != known.Job.Key {
			return n, true, daybook.ErrKeyConflict
		}
		fingerprint, err := daybook.FingerprintOf(known.Job.Queue, known.Job.Kind, known.Job.Args)
		if err == nil {
			_, err = n.Replay(fingerprint, r.ID, false)
		}
		return known, true, err
	}
	return n, false, nil
}

func (d *desk) accept(n daybook.NewJob) {
	d.jobs[n.Job.ID] = n
	if n.Job.Key != "" {
		d.keys[n.Job.Key] = n
	}
}

// agree fails unless SQL refused just as the domain does.
func (d *desk) agree(r daybook.Request, want, got error) {
	d.Helper()
	state := map[daybook.Code]string{"": "", daybook.CodeInvalid: stateInvalid, daybook.CodeTooLarge: stateInvalid,
		daybook.CodeKeyConflict: stateKeyConflict}[daybook.CodeOf(want)]
	if stateOf(got) != state || (got == nil) != (want == nil) {
		d.Fatalf("%+v: SQL answers %v, the domain %v", r, got, want)
	}
	if got == nil || want == error(daybook.ErrKeyConflict) {
		return
	}
	field, _, _ := strings.Cut(want.Error(), ":")
	if field == "in" {
		field = "run_in"
	}
	if message := d.refusal(got).Message; !strings.HasPrefix(message, field+":") {
		d.Fatalf("%+v: SQL says %s, the domain %v", r, message, want)
	}
}

func (d *desk) bySQL(r daybook.Request) (id string, replayed bool, err error) {
	var in, timeout any
	if r.In != 0 {
		in = interval(r.In)
	}
	if r.Timeout != 0 {
		timeout = interval(r.Timeout)
	}
	var chosen any
	if !r.ID.IsZero() {
		chosen = r.ID.String()
	}
	err = d.conn.QueryRow(d.Context(), d.in(`SELECT id::text, replayed FROM daybook.enqueue($1, $2, $3::text::json,
		key => $4, id => $5::text::uuid, run_at => $6, run_in => $7::text::interval, expires_at => $8, priority => $9,
		max_failures => $10, on_lost => $11, timeout => $12::text::interval)`), r.Queue, r.Kind, string(r.Args), r.Key,
		chosen, timeOrNull(r.RunAt), in, timeOrNull(r.ExpiresAt), r.Priority, nullInt(int64(r.MaxFailures)), string(r.OnLost),
		timeout).Scan(&id, &replayed)
	return id, replayed, err
}
