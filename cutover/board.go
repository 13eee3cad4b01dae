package cutover

import (
	"context"
	"slices"

	"github.com/daybookdev/daybook"
)

// Board is what people see of a cutover: who may claim now, what was there and
// what is, and what wants a decision.
type Board struct {
	Cutover   daybook.Cutover  `json:"cutover"`
	What      string           `json:"what"` // of the phase
	Next      []daybook.Phase  `json:"next"`
	Plan      Plan             `json:"plan"`
	Notes     Notes            `json:"notes"`
	Questions []Question       `json:"questions"`
	Balance   Balance          `json:"balance"`
	Left      map[string]int64 `json:"left,omitempty"` // in the old store now; nil when it wasn't asked
	Gauges    []Gauge          `json:"gauges"`
	Deaths    []Toll           `json:"deaths,omitempty"`
	MoreOpen  bool             `json:"more_open,omitempty"` // more are open than were read
}

// Toll is a worker of the old system that died without a farewell, and how many of
// the cutover's open jobs are so because of it.
type Toll struct {
	Worker string       `json:"worker"`
	Seen   daybook.Time `json:"seen_at,omitzero"` // its last sign of life
	Found  daybook.Time `json:"found_at"`
	Open   int64        `json:"open"`
}

// Board reads the record and the old store.
func (e *Engine) Board(ctx context.Context) (Board, error) {
	c, err := e.Load(ctx)
	if err != nil {
		return Board{}, err
	}
	left, err := e.old.Left(ctx)
	if err != nil {
		return Board{}, err
	}
	return BoardOf(ctx, e.book, c, left)
}

// BoardOf makes a board from the book alone; left may be nil.
func BoardOf(ctx context.Context, book *daybook.Book, c daybook.Cutover, left map[string]int64) (Board, error) {
	b := Board{Cutover: c, What: c.Phase.Rule().What, Next: c.Phase.Rule().Next, Left: left}
	var err error
	if b.Plan, err = PlanOf(c); err != nil {
		return b, err
	}
	if b.Notes, err = NotesOf(c); err != nil {
		return b, err
	}
	counts, err := book.ItemCounts(ctx, c.Name)
	if err != nil {
		return b, err
	}
	b.Balance = BalanceOf(counts)
	b.Questions = Questions(c, b.Plan, b.Notes, left)
	values := map[string]int64{"open": b.Balance.Open, "late": b.Notes.Late, "held_in_old": left["held"]}
	if b.Notes.Gate != nil {
		values["leaks"], values["gate_opened"] = b.Notes.Gate.Leaks, b.Notes.Gate.Opened
	}
	for _, n := range counts {
		if n.Asked {
			values["asked"] += n.Items
		}
	}
	if err := b.readOpen(ctx, book); err != nil {
		return b, err
	}
	if err := measureQueue(ctx, book, c, b.Balance, values); err != nil {
		return b, err
	}
	b.Gauges = Gauges(b.Plan, values)
	return b, nil
}

// readOpen tells what is open, and whose death has how many jobs so. One that died
// twice has them at its last death.
func (b *Board) readOpen(ctx context.Context, book *daybook.Book) error {
	o := opens{died: map[string]int64{}}
	if b.Balance.Open > 0 {
		var err error
		if o, err = opensOf(ctx, book, b.Cutover, namedOpen, tolledMost); err != nil {
			return err
		}
	}
	b.MoreOpen = o.more
	b.Balance.Undecided, b.Balance.Opens = o.undecided, o.named
	for _, d := range slices.Backward(b.Notes.Deaths) {
		b.Deaths = append(b.Deaths, Toll{Worker: d.Worker, Seen: d.Seen, Found: d.Found, Open: o.died[d.Worker]})
		delete(o.died, d.Worker)
	}
	return nil
}

func measureQueue(ctx context.Context, book *daybook.Book, c daybook.Cutover, balance Balance,
	values map[string]int64) error {
	_, backlog, err := book.Backlog(ctx)
	for _, q := range backlog {
		if q.Queue != c.Queue {
			continue
		}
		values["set_aside"] += q.SetAside
		values["oldest_age"] = max(values["oldest_age"], int64(q.Oldest))
	}
	values["set_aside"] = max(0, values["set_aside"]-balance.Dead-balance.Open)
	return err
}
