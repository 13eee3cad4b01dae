package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/internal/proxy"
	"github.com/daybookdev/daybook/worker"
)

// awayStore is a store whose server goes away once, when it is told to, for as
// many reads.
type awayStore struct {
	daybook.Store
	away int
}

var errAway = daybook.Unavailable("reading", errors.New("gone"))

func (s *awayStore) Read(ctx context.Context, why string, do func(daybook.View) error) error {
	if s.away > 0 {
		s.away--
		return errAway
	}
	return s.Store.Read(ctx, why, do)
}

// A fault during which the database went away is void, and is made once more when
// it is back; it is no violation, and not the end of the drill.
func TestOutageIsVoid(t *testing.T) {
	s := testStand(t, Site{})
	store := &awayStore{Store: s.book.Store(), away: 2}
	s.book = daybook.New(store, daybook.Options{})
	tries, queues := 0, map[string]bool{}
	s.scenes = []scene{{name: "any", run: func(_ context.Context, l *lane, e *evidence) error {
		queues[l.queue] = true // what was broken off left jobs in its own
		if tries++; tries == 1 {
			return fmt.Errorf("any: %w", errAway)
		}
		e.hit()
		return nil
	}}}
	s.rows = []FaultRow{{Name: "any"}}
	s.sheet = newSheet(s.rows, 1)
	if err := s.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.rows[0]; tries != 2 || len(queues) != 2 || store.away != 0 || r.Runs != 1 || r.Void+r.Violations != 0 {
		t.Errorf("got %+v after %d tries", r, tries)
	}
}

// A database that goes away each time leaves the fault void, with the reason in
// the report, and nothing to judge.
func TestOutagesLeaveItVoid(t *testing.T) {
	s := testStand(t, Site{})
	s.scenes = []scene{{name: "any", run: func(context.Context, *lane, *evidence) error { return errAway }}}
	s.rows = []FaultRow{{Name: "any"}}
	s.sheet = newSheet(s.rows, 1)
	if err := s.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := (Report{Faults: s.rows}).Table(&table); err != nil {
		t.Fatal(err)
	}
	r := s.rows[0]
	if r.Void != 1 || r.Violations != 0 || !strings.Contains(table.String(), "void: the database was away") {
		t.Errorf("got %+v, %s", r, table.String())
	}
}

// What doesn't come about while the database is away is no violation, unless its
// server lets others in: then it is the book that doesn't come back.
func TestAwayTooLong(t *testing.T) {
	for _, tt := range []struct {
		site Site
		want bool
	}{{Site{}, false}, {Site{Server: &server{began: []string{"noon"}}}, true}} {
		s := testStand(t, tt.site)
		s.patience = 1
		var e evidence
		err := (&lane{drill: s.drill, stand: s}).until(t.Context(), &e, "it", func() (bool, error) { return false, errAway })
		if wrong := len(e.stuck) > 0; wrong != tt.want || wrong == (err != nil) {
			t.Errorf("with a server %t: got %q, %v", tt.want, e.stuck, err)
		}
	}
}

// A child that the database let down says so, and is no fault of the drill's.
func TestChildTellsOfAnOutage(t *testing.T) {
	for away, want := range map[bool]daybook.Code{true: daybook.CodeUnavailable, false: daybook.CodeInternal} {
		p := &process{}
		p.hear(report{Error: "it ended", Away: away})
		if got := daybook.CodeOf(p.ended()); got != want {
			t.Errorf("away %t: got %s, want %s", away, got, want)
		}
	}
}

// A gap that nobody came to is void, and no violation: its job was done all the
// same.
func TestVoidGapIsNoViolation(t *testing.T) {
	r := testFaults(t, func(_ string, o *FaultOptions) { o.fault, o.patience = deaf, patience/9 }, daybook.GapClaim)
	if r.Violations != 0 || r.Void != 2 || !errors.Is(r.Err(), ErrVoid) {
		t.Errorf("got %d violations and %d void: %q", r.Violations, r.Void, r.Found)
	}
}

// One whose job never came into the book has nothing to be judged, and one whose
// job is there and wasn't done is wrong, void or not.
func TestVoidIsJudgedByWhatIsThere(t *testing.T) {
	s := testStand(t, Site{})
	s.scenes, s.rows = []scene{{name: daybook.GapAccept}}, []FaultRow{{Name: daybook.GapAccept}}
	s.noteFault(planned{}, evidence{void: "nobody came", unseen: true})
	if r := s.rows[0]; r.Void != 1 || r.Violations != 0 {
		t.Errorf("nothing was seen: got %+v", r)
	}
	s.noteFault(planned{}, evidence{void: "nobody came"})
	if r := s.rows[0]; r.Void != 2 || r.Violations == 0 {
		t.Errorf("the job was not done: got %+v", r)
	}
}

// server is one that answers what it is told to.
type server struct {
	began []string
	sits  int
}

func (s *server) Terminate(context.Context, string) (int, error) { return 0, nil }

func (s *server) Sit(context.Context, int, string) (int, func(), error) {
	return s.sits, func() {}, nil
}

func (s *server) Began(context.Context) (string, error) {
	at := s.began[0]
	s.began = s.began[1:]
	return at, nil
}

// idlePower says that it restarts.
type idlePower struct{}

func (idlePower) Restart(context.Context) error        { return nil }
func (idlePower) ReadOnly(context.Context, bool) error { return nil }
func (idlePower) CanReadOnly() bool                    { return false }

// A command that restarts nothing makes no fault.
func TestRestartIsProved(t *testing.T) {
	s := testStand(t, Site{Server: &server{began: []string{"noon", "noon"}}, Power: idlePower{}})
	var e evidence
	if err := restart(t.Context(), &lane{drill: s.drill, stand: s}, &e); err != nil {
		t.Fatal(err)
	}
	if e.injected || !strings.Contains(e.void, "noon") {
		t.Errorf("got %+v, want it void", e)
	}
}

// A server that is nearly full has no room for idle connections: they are left
// out, and that is no reason to call the drill void.
func TestNoRoomIsLeftOut(t *testing.T) {
	s := testStand(t, Site{Server: &server{}})
	var e evidence
	if err := sit(t.Context(), &lane{drill: s.drill, stand: s}, &e); err != nil {
		t.Fatal(err)
	}
	if e.injected || e.void != "" || e.left == "" {
		t.Errorf("got %+v, want it left out", e)
	}
}

var quietLog = slog.New(slog.DiscardHandler)

// testStand is a drill on a file that has begun nothing.
func testStand(t *testing.T, site Site) *stand {
	t.Helper()
	dir := t.TempDir()
	site.Where = func(Route) (string, error) { return filepath.Join(dir, "book.db"), nil }
	o := FaultOptions{Lanes: 1, Dir: dir, Note: t.Logf, Open: openFile, Site: site}
	s, err := newStand(o, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.to.close)
	if s.book, err = openFile(t.Context(), s.Where, daybook.Options{Log: quietLog}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.book.Close() })
	s.load = &load{s: s}
	return s
}

// As many faults are made at once as the server has connections for, and none
// where one would take what others need.
func TestLanesFitTheServer(t *testing.T) {
	for room, want := range map[int]int{400: faultLanes, 97: 3, 56: 1, 55: 0, 0: 0} {
		got, err := Site{Server: &server{}, Room: room}.lanes()
		if got != want || (want == 0) != errors.Is(err, ErrNothing) {
			t.Errorf("with room for %d: got %d, %v; want %d", room, got, err, want)
		}
	}
	if n, err := (Site{}).lanes(); n != faultLanes || err != nil {
		t.Errorf("without a server: got %d, %v", n, err)
	}
}

// What can't be made at all is refused before anything is begun, with every
// reason.
func TestNothingToMake(t *testing.T) {
	dir := t.TempDir()
	_, err := RunFaults(t.Context(), FaultOptions{Only: []string{"connections-killed", "file-full"}, Open: openFile,
		Command: []string{"no-such-program"}, Dir: dir,
		Site: Site{Where: func(Route) (string, error) { return filepath.Join(dir, "book.db"), nil }}})
	if !errors.Is(err, ErrNothing) || !errors.Is(err, daybook.ErrRefused) ||
		!strings.Contains(err.Error(), "file-full") || !strings.Contains(err.Error(), "connections-killed") {
		t.Errorf("got %v", err)
	}
}

// Connections that stand still are shown to: there are some, and something wants to
// pass all the while.
func TestStallIsProved(t *testing.T) {
	s := testStand(t, Site{})
	l := &lane{drill: s.drill, stand: s}
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	go func() {
		if c, err := sink.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	if s.load.store, err = proxy.Start(sink.Addr().String()); err != nil {
		t.Fatal(err)
	}
	defer s.load.store.Close()
	var none evidence
	if err := stall(t.Context(), l, &none); err != nil || none.void == "" {
		t.Errorf("without a connection: got %+v, %v", none, err)
	}
	wants, err := net.Dial("tcp", s.load.store.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer wants.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for every := time.Tick(passes / 10); ctx.Err() == nil; <-every {
			_, _ = wants.Write([]byte("x")) // fails when the test is over
		}
	}()
	w := worker.New(s.book, worker.Config{Queues: []string{loadQueue}, Poll: passes})
	worker.Handle(w, "charge", func(context.Context, *worker.Claim[effects.Order]) error { return nil })
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var e evidence
	if err := stall(t.Context(), l, &e); err != nil || !e.injected || e.void != "" || len(e.stuck) > 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
