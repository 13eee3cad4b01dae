package cutover

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
)

// Engine carries one cutover through its phases. Every call of it may be
// repeated after a crash, by this process or another one, and goes on where the
// one before stopped: what it needs to know is in the book and the old store.
type Engine struct {
	book *daybook.Book
	old  Old
	name string
	o    Options
}

// Options are an engine's settings. The zero value is ready for use.
type Options struct {
	Mapping Mapping
	Log     *slog.Logger
	By      daybook.By
	// Batch is how many jobs one step takes; 0 is BatchDefault, at most BatchMost.
	Batch int
	// Sample is how often running jobs are looked at; 0 is SampleDefault.
	Sample time.Duration
	// Report is told how far long work is; total 0 is not known. May be nil.
	Report func(what string, done, total int64)
	// Step is called between any two steps that change something, with the name
	// of the gap, so that drills can stop the process there. May be nil.
	Step func(gap string)
}

// Defaults and bounds of Options.
const (
	BatchDefault  = 500
	BatchMost     = 5000
	SampleDefault = 5 * time.Second
)

// The gaps between the steps that take a job from one store to the other, for
// drills: a mover that dies in one leaves the job where the next one finds it.
const (
	GapTaken    = "cutover-taken"    // in the held list, not in the book
	GapImported = "cutover-imported" // in the book, still in the held list
	GapDropped  = "cutover-dropped"
	GapMarked   = "cutover-marked"   // marked as going back, not in the old store yet
	GapReturned = "cutover-returned" // in the old store again, not noted
	GapClosed   = "cutover-closed"   // the old gate is closed, the book doesn't know yet
	GapJudged   = "cutover-judged"   // who lost which job is known, and none of those is taken yet
	GapOpened   = "cutover-opened"   // the book may claim, and its jobs are still held
	GapReopened = "cutover-reopened" // the old gate is open again, the book doesn't know yet
)

// Gaps lists them in their order.
var Gaps = []string{GapClosed, GapTaken, GapImported, GapDropped, GapJudged, GapOpened, GapMarked, GapReturned,
	GapReopened}

// New makes an engine for the cutover of that name, which Plan makes if there is
// none yet.
func New(book *daybook.Book, old Old, name string, o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Batch <= 0 || o.Batch > BatchMost {
		o.Batch = BatchDefault
	}
	if o.Sample <= 0 {
		o.Sample = SampleDefault
	}
	return &Engine{book: book, old: old, name: name, o: o}
}

func (e *Engine) report(what string, done, total int64) {
	if e.o.Report != nil {
		e.o.Report(what, done, total)
	}
}

func (e *Engine) step(gap string) {
	if e.o.Step != nil {
		e.o.Step(gap)
	}
}

// Load reads the record, and refuses when it is about another place than the
// source's.
func (e *Engine) Load(ctx context.Context) (daybook.Cutover, error) {
	c, err := e.book.Cutover(ctx, e.name)
	if err != nil {
		return c, err
	}
	p := e.old.Place()
	if c.System != p.System || c.Store != p.Store || c.OldQueue != p.Queue {
		return c, daybook.Fail(daybook.CodeRefused, "cutover %s moves queue %s of %s at %s, not queue %s of %s at %s", c.Name,
			c.OldQueue, c.System, c.Store, p.Queue, p.System, p.Store)
	}
	return c, nil
}

// in loads the record and refuses in other phases than these.
func (e *Engine) in(ctx context.Context, doing string, phases ...daybook.Phase) (daybook.Cutover, error) {
	c, err := e.Load(ctx)
	if err != nil {
		return c, err
	}
	for _, p := range phases {
		if c.Phase == p {
			return c, nil
		}
	}
	return c, wrongPhase(c, doing, phases...)
}

// taking is in, for what changes the old store: who stood still since a look at the
// phase, while another process rolled the cutover back, must change nothing there.
func (e *Engine) taking(ctx context.Context, doing string, phases ...daybook.Phase) (daybook.Cutover, error) {
	c, err := e.in(ctx, doing, phases...)
	if err != nil {
		return c, err
	}
	return c, e.old.BeginTake(ctx, e.name)
}

func (e *Engine) advance(ctx context.Context, to daybook.Phase) (daybook.Cutover, error) {
	return e.book.AdvanceCutover(ctx, e.name, to, e.o.By)
}

// Notes are what the tool found out on the way.
type Notes struct {
	Inventory *OldInventory `json:"inventory,omitempty"` // the newest
	Before    *OldInventory `json:"before,omitempty"`    // at the gate
	Gate      *GateProof    `json:"gate,omitempty"`
	// Deaths are those of workers that were found gone without a farewell.
	Deaths    []daybook.Death `json:"deaths,omitempty"`
	Watched   *Watch          `json:"watched,omitempty"`   // where the old system forgets who died
	Swept     daybook.Time    `json:"swept_at,omitzero"`   // the last sweep that found nothing
	Late      int64           `json:"late,omitempty"`      // arrived after the book began to run
	EmptyFrom daybook.Time    `json:"empty_from,omitzero"` // the old queue has been empty since
	Fired     string          `json:"fired,omitempty"`     // the condition that began a rollback
}

// NotesOf reads them.
func NotesOf(c daybook.Cutover) (n Notes, err error) {
	if len(c.Notes) > 0 {
		err = json.Unmarshal(c.Notes, &n)
	}
	return n, err
}

func (e *Engine) note(ctx context.Context, change func(*Notes)) (daybook.Cutover, error) {
	return e.book.NoteCutover(ctx, e.name, func(c *daybook.Cutover) error {
		n, err := NotesOf(*c)
		if err != nil {
			return err
		}
		change(&n)
		c.Notes, err = json.Marshal(n)
		return err
	})
}

// wait sleeps, and is false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over.C:
		return true
	}
}
