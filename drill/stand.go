package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// FaultOptions are those of a drill of everything.
type FaultOptions struct {
	Seed uint64        // decides the order of the faults, and how each is made
	Only []string      // of [Names]; none is all that the site allows
	For  time.Duration // begin faults for so long; the first round is finished in any case
	// Lanes is how many faults are made at once, 1…LanesMax; 0 is 6, or as many as
	// the server has connections for, and 4 on a file.
	Lanes   int
	Site    Site
	Open    Opener
	Command []string // starts a process: a program that calls Child
	Dir     string   // keeps what the processes write; must be there
	Note    func(format string, args ...any)

	fault    planted       // of the lanes' workers, for the drill's own tests
	patience time.Duration // the same; 0 is half of patience
}

const (
	// faultLanes and fileLanes are how many faults are made at once: fewer on a
	// file, where one writes at a time.
	faultLanes, fileLanes = 6, 4
	// pollFaults is the poll of the lanes' workers: rings are part of the drill, and
	// where one is lost it mustn't take long.
	pollFaults = time.Second
	// What one lane, and a drill without its lanes, have in connections at most, and
	// how many they leave to others.
	laneConnections, baseConnections, otherConnections = 16, 30, 10
	// loadQueue is where the load's jobs wait.
	loadQueue = "load"
)

// Check puts the defaults in and refuses what is out of range. RunFaults does so
// too.
func (o *FaultOptions) Check() error {
	if o.Lanes == 0 {
		var err error
		if o.Lanes, err = o.Site.lanes(); err != nil {
			return err
		}
	}
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	names := Names()
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return daybook.Invalid("gap", "wants one that daybook drill --list shows; got %.40q", name)
		}
	}
	switch {
	case o.For < 0 || o.For > MinutesMax*time.Minute:
		return daybook.Invalid("minutes", "wants more than 0 and at most %d, got %.3g", MinutesMax, o.For.Minutes())
	case o.Lanes < 1 || o.Lanes > LanesMax:
		return daybook.Invalid("lanes", "wants 1…%d, got %d", LanesMax, o.Lanes)
	case len(o.Command) == 0:
		return daybook.Invalid("command", "is empty; name the program that calls drill.Child")
	}
	return procs.CanStop()
}

// lanes is how many the store bears.
func (s Site) lanes() (int, error) {
	switch {
	case s.Full != nil:
		return fileLanes, nil
	case s.Server == nil:
		return faultLanes, nil
	}
	const wants = baseConnections + otherConnections + laneConnections
	n := min(faultLanes, (s.Room-baseConnections-otherConnections)/laneConnections)
	if s.Room < wants {
		return 0, &daybook.Error{Code: daybook.CodeUnavailable, Err: ErrNothing, Text: fmt.Sprintf("the server has %d "+
			"connections left for this user, and a drill wants %d; raise max_connections or the user's own limit, or end some",
			s.Room, wants)}
	}
	return n, nil
}

// ErrNothing is a drill that was refused before it did anything to its book.
var ErrNothing = errors.New("nothing was made")

// stand is a drill of everything under way.
type stand struct {
	*drill
	site  Site
	opts  FaultOptions
	load  *load
	hurts *hurtBell // of the bell that this process rings; nil is none
	began time.Time
	held  time.Duration // how long a transaction stays open for another to meet it

	scenes   []scene
	relaying sync.Mutex // one fault at a time has the relay
	relayed  *process
	relays   int
	shaking  sync.Mutex   // and one the load
	still    sync.RWMutex // for faults of the whole server nobody else makes one

	olds   oldStore
	tally  sync.Mutex
	sheet  *sheet
	rows   []FaultRow
	events []event
}

// RunFaults makes a drill of everything and judges it. The error says that it
// could not be made; whether everything held is in the report. Every process has
// ended when it returns.
func RunFaults(ctx context.Context, o FaultOptions) (report Report, err error) {
	if err := o.Check(); err != nil {
		return report, err
	}
	logs, err := os.Create(filepath.Join(o.Dir, "drill.log"))
	if err != nil {
		return report, daybook.Fail(daybook.CodeInternal, "the drill can't write into its folder %s", o.Dir)
	}
	defer logs.Close()
	s, err := newStand(o, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		return report, err
	}
	defer s.to.close()
	book, err := o.Open(ctx, s.Where, daybook.Options{Log: s.log})
	if err != nil {
		return report, err
	}
	defer book.Close()
	s.hear(book)
	if s.sheet.size() == 0 {
		return report, cantBeMade(s.rows)
	}
	defer s.endRelay()
	defer func() { err = errors.Join(err, s.olds.end()) }()
	if s.load, err = s.startLoad(ctx); err != nil {
		return report, err
	}
	defer s.load.end()
	if err := s.make(ctx); err != nil {
		return report, err
	}
	return s.judge(ctx)
}

// newStand prepares all that needs no book yet.
func newStand(o FaultOptions, log *slog.Logger) (*stand, error) {
	d := &drill{Options: Options{Command: o.Command, Open: o.Open, Lanes: o.Lanes, Dir: o.Dir, lease: leaseShort,
		patience: cmp.Or(o.patience, patience/2), fault: o.fault}, dir: o.Dir, log: log, doubled: map[daybook.ID]bool{},
		bells: true, hub: &hub{}, pollLane: pollFaults}
	s := &stand{drill: d, site: o.Site, opts: o, began: time.Now(), held: whileHeld}
	if o.Site.Full != nil {
		s.held = whileHeldFile
	}
	var err error
	if d.Where, err = o.Site.Where(Route{Application: applicationLanes}); err != nil {
		return nil, err
	}
	if d.to, err = newDestinations(0); err != nil {
		return nil, err
	}
	return s, nil
}

// The application_names of the drill's connections.
const (
	applicationLanes = "daybook-drill"
	applicationLoad  = "daybook-drill-load"
	applicationIdle  = "daybook-drill-idle"
)

// hear gives this process's book a bell that can be hurt, and chooses the scenes
// that this book allows.
func (s *stand) hear(book *daybook.Book) {
	s.book = book
	if outside := book.Outside(); book.Bell() != nil {
		if outside == nil {
			outside = newCarried(func(r report) { s.hub.carry(r.Rings) })
		}
		s.hurts = newHurtBell(outside)
		s.book = daybook.New(book.Store(), daybook.Options{Log: s.log, Bell: s.hurts})
	}
	for _, c := range allScenes() {
		if len(s.opts.Only) > 0 && !slices.Contains(s.opts.Only, c.name) {
			continue
		}
		row := FaultRow{Name: c.name, How: c.how}
		if c.needs != nil {
			row.Left = c.needs(s)
		}
		s.rows = append(s.rows, row)
		s.scenes = append(s.scenes, c)
	}
	s.sheet = newSheet(s.rows, s.opts.Seed)
}

// cantBeMade refuses a drill of faults none of which can be made here, before
// anything is done to the book.
func cantBeMade(rows []FaultRow) error {
	var why []string
	for _, left := range leftOut(rows) {
		why = append(why, left.Why+" ("+left.faults()+")")
	}
	return &daybook.Error{Code: daybook.CodeRefused, Err: ErrNothing,
		Text: "none of these faults can be made here: " + strings.Join(why, "; ")}
}

// make makes faults on every lane until the time is over.
func (s *stand) make(ctx context.Context) error {
	s.ends = time.Now().Add(s.opts.For)
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var lanes sync.WaitGroup
	for n := range s.Lanes {
		lanes.Go(func() {
			l := &lane{drill: s.drill, stand: s, queue: fmt.Sprintf("lane-%d", n+1)}
			defer l.end()
			if err := l.make(working); err != nil {
				fail(err)
			}
		})
	}
	lanes.Wait()
	return context.Cause(working)
}

// make makes one fault after the other.
func (l *lane) make(ctx context.Context) error {
	for r, more := l.nextFault(); more; r, more = l.nextFault() {
		for try := 1; ; try++ {
			e, err := l.scene(ctx, r)
			if isAway(err) && ctx.Err() == nil {
				e, err = l.outage(ctx, r, err)
			}
			if err != nil {
				return err
			}
			if e.void == "" || try == again {
				l.noteFault(r, e)
				break
			}
			l.log.Warn("once more", "run", r.run, "fault", r.gap, "how", r.fault, "void", e.void)
			l.opts.Note("once more: %s: %s", r, e.void)
		}
	}
	return ctx.Err()
}

// outage is what becomes of a fault during which the database went away, though
// nobody here did that, or this process stood still for so long: it is void, and
// may be made once more when the database is back, by others. One that
// stays away ends the drill.
func (l *lane) outage(ctx context.Context, r planned, why error) (evidence, error) {
	l.log.Warn("the database was away", "run", r.run, "fault", r.gap, "how", r.fault, "err", why)
	l.afresh()
	for late := time.Now().Add(l.patience); ; {
		_, err := l.book.Count(ctx, daybook.Filter{Queue: l.queue})
		if err == nil || !isAway(err) {
			return evidence{planned: r, unseen: true, void: "the database was away: " + errors.Unwrap(why).Error()}, err
		}
		if time.Now().After(late) {
			return evidence{}, why
		}
		if !sleep(ctx, lull) {
			return evidence{}, ctx.Err()
		}
	}
}

// scene makes one fault. Those of the whole server wait until no other is made.
func (l *lane) scene(ctx context.Context, r planned) (e evidence, err error) {
	c := l.scenes[r.row]
	if c.alone {
		l.still.Lock()
		defer l.still.Unlock()
	} else {
		l.still.RLock()
		defer l.still.RUnlock()
	}
	began := time.Now()
	l.log.Info("fault", "run", r.run, "fault", r.gap, "how", r.fault, "lane", l.queue)
	defer func() {
		l.log.Info("over", "run", r.run, "fault", r.gap, "how", r.fault, "took", time.Since(began), "void", e.void)
	}()
	if c.heard {
		e = evidence{planned: r}
		if e.left, err = l.deaf(ctx); err != nil || e.left != "" {
			return e, err
		}
	}
	if c.run == nil {
		e, err = l.gap(ctx, r)
	} else {
		e = evidence{planned: r}
		err = c.run(ctx, l, &e)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s, run %d: %w", r, r.run, err)
	}
	return e, err
}

// afresh leaves what a fault that was broken off had, processes and queue, and goes
// on with others.
func (l *lane) afresh() {
	l.end()
	l.workers, l.puts = nil, nil
	l.leaves++
	name, _, _ := strings.Cut(l.queue, ".")
	l.queue = fmt.Sprintf("%s.%d", name, l.leaves)
}

// nextFault hands one out; false when the drill is over.
func (s *stand) nextFault() (planned, bool) {
	s.tally.Lock()
	defer s.tally.Unlock()
	if s.sheet.between() && s.sheet.rounds > 0 && !time.Now().Before(s.ends) {
		return planned{}, false
	}
	return s.sheet.next(), true
}

// noteFault puts what came of one into the table.
func (s *stand) noteFault(r planned, e evidence) {
	wrong := e.stuck
	if s.scenes[r.row].run == nil && e.left == "" && !e.unseen {
		wrong = e.judge()
	}
	s.tally.Lock()
	defer s.tally.Unlock()
	s.rows[r.row].add(e, len(wrong))
	for _, w := range wrong {
		s.found = append(s.found, fmt.Sprintf("%s, run %d, job %s: %s", r, r.run, e.job.ID, w))
		s.opts.Note("violation: %s: %s", r, w)
	}
	if e.void != "" {
		s.log.Warn("void", "run", r.run, "fault", r.gap, "how", r.fault, "why", e.void)
		s.opts.Note("void: %s: %s", r, e.void)
	}
	if e.effect.Doubled {
		s.doubled[e.job.ID] = true
	}
	if e.void == "" {
		s.slowest = max(s.slowest, e.recovered)
	}
	s.done++
	if !e.since.IsZero() && e.left == "" {
		s.events = append(s.events, event{r.gap, r.fault, e.since.Sub(s.began), e.recovered, len(wrong), e.void != ""})
	}
	if s.done%10 == 0 {
		s.opts.Note("%d faults made in %s, %d jobs under them", s.done, time.Since(s.began).Round(time.Second),
			s.load.accepted())
	}
}

// relay is the process that has faults at the outbox, started when there is none.
func (s *stand) relay(ctx context.Context) (*process, error) {
	if s.relayed != nil && s.relayed.running() {
		return s.relayed, nil
	}
	s.relays++
	p, err := s.begin(setup{Role: roleRelay, Name: fmt.Sprintf("relay-%d", s.relays), Queue: "relay", Bells: true})
	if err != nil {
		return nil, err
	}
	s.relayed = p
	return p, p.begun(ctx)
}

func (s *stand) endRelay() {
	if s.relayed != nil {
		s.relayed.end()
	}
}

// canary puts a job into the load's queue and waits until it is done: then the
// load has recovered from what was done to it since.
func (s *stand) canary(ctx context.Context, l *lane, e *evidence) error {
	e.job.ID = daybook.NewID()
	e.order = loadOrder + e.job.ID.String()
	err := l.until(ctx, e, "the book to take a job", func() (bool, error) {
		bounded, stop := context.WithTimeout(ctx, parting)
		defer stop()
		_, err := s.book.Enqueue(bounded, daybook.Request{ID: e.job.ID, Queue: loadQueue, Kind: "charge", Args: e.args()})
		return err == nil, err
	})
	if err != nil {
		return err
	}
	s.load.also(e.job.ID)
	err = l.until(ctx, e, "the job behind the fault to be done", func() (bool, error) {
		job, err := s.book.Job(ctx, e.job.ID)
		return job.State == daybook.Succeeded, err
	})
	e.recovered = max(e.recovered, time.Since(e.since))
	return err
}

// isAway reports whether an error says that the database is away: it may come back.
func isAway(err error) bool {
	return errors.Is(err, daybook.ErrUnavailable) || errors.Is(err, daybook.ErrBusy) ||
		errors.Is(err, context.DeadlineExceeded)
}
