package console

import (
	"fmt"
	"html/template"
	"time"

	"github.com/daybookdev/daybook"
)

// gapsPage shows where a process can die, and what is known of repairs.
type gapsPage struct {
	Drawing template.HTML
	Rows    []gapRow
	Repairs *Repairs
	Age     string
	Passes  string
}

// gapRow is a gap with what is known of it now.
type gapRow struct {
	daybook.Gap
	N     int
	Known []knownOf
	Not   string // what isn't counted, and where to look instead
}

// knownOf is one live number.
type knownOf struct {
	Value string
	What  string
}

func (c *Console) loadGaps(a *ask) (any, error) {
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	h, err := c.health(a.ctx)
	if err != nil {
		return nil, err
	}
	p := gapsPage{Drawing: drawGaps()}
	if c.opts.Repairs != nil {
		r := c.opts.Repairs()
		p.Repairs, p.Age, p.Passes = &r, lasted(time.Since(r.Since)), num(r.Passes)+" passes"
		if r.Passes == 1 {
			p.Passes = "1 pass"
		}
	}
	for i, g := range daybook.Gaps {
		row := gapRow{Gap: g, N: i + 1}
		c.knownOfGap(&row, b, h, p.Repairs)
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// knownOfGap fills in what the book and this process know, and never guesses.
func (c *Console) knownOfGap(row *gapRow, b backlog, h health, r *Repairs) {
	know := func(value any, what string) { row.Known = append(row.Known, knownOf{num(value), what}) }
	outside := c.book.Outside()
	var bell daybook.BellStats
	if outside != nil {
		bell = outside.Stats()
	}
	switch row.Name {
	case daybook.GapAccept:
		row.Not = "Replays are told in each job's timeline; the book keeps no sum of them."
	case daybook.GapPublish:
		if outside != nil {
			row.Known = append(row.Known, knownOf{lasted(h.Outbox), "age of the oldest ring that isn't published yet"})
		} else {
			row.Not = "The bell is inside of the processes: nothing is published."
		}
	case daybook.GapMark:
		if outside != nil {
			know(bell.Doubled, "rings that reached this process again")
		}
		row.Not = "A second ring finds nothing to do and leaves no trace in the book."
	case daybook.GapDeliver:
		if outside != nil {
			know(bell.Failed, "rings that the bell didn't take over from this process")
			know(bell.Reconnects, "times that this process began to listen anew")
		}
		row.Not = "Nobody sees a ring that got lost; what the poll found first, each worker counts."
	case daybook.GapClaim:
		if r != nil {
			know(r.Rung, "rings of this process's reconciler for queues with eligible work")
		}
		row.Not = "Other processes' rings aren't in it."
	case daybook.GapGrant, daybook.GapStart, daybook.GapComplete:
		if r != nil {
			know(r.Lost, "claims taken back by this process's reconciler, whichever gap their owner died in")
		}
		row.Not = "The book can't tell in which gap an owner died; each job's timeline has its lost attempts."
	case daybook.GapBegin, daybook.GapRecord:
		know(b.Total.Open, "effects open now")
		if row.Name == daybook.GapRecord {
			know(b.Total.Doubled, "effects that happened twice, as late evidence shows")
		}
	case daybook.GapReply:
		row.Not = "A repeated report is answered from the record and counted nowhere."
	case daybook.GapAck:
		row.Not = "Each worker counts its stale rings: daybook_worker_rings_total{what=\"stale\"}."
	case daybook.GapPause:
		if r != nil {
			know(r.Ended, "sessions ended past their lease by this process's reconciler")
		}
		row.Not = "What fenced owners said is kept in each job's timeline; the book keeps no sum of it."
	}
}

// The drawing: five lines of life, and what goes between them from top to bottom.
// It is docs/gaps.md as a picture.
const (
	lane0, lane1, lane2, lane3, lane4 = 50, 235, 470, 660, 850
	gapsWide, gapsStep, gapsTop       = 900, 30, 56
)

// stroke is one row of the drawing: an arrow with its words, a note on a line, or
// a gap.
type stroke struct {
	from, to int // an arrow between two lines; alike is a note on one
	says     string
	gap      string
	at       int // where the gap lies
}

var gapStrokes = []stroke{
	{from: lane0, to: lane1, says: "request"},
	{gap: daybook.GapAccept, at: lane0},
	{from: lane1, to: lane1, says: "committed"},
	{from: lane1, to: lane0, says: "receipt"},
	{gap: daybook.GapPublish, at: lane1},
	{from: lane1, to: lane2, says: "ring"},
	{gap: daybook.GapMark, at: lane1},
	{gap: daybook.GapDeliver, at: lane2},
	{from: lane2, to: lane3, says: "look now"},
	{gap: daybook.GapClaim, at: lane3},
	{from: lane3, to: lane1, says: "claim"},
	{gap: daybook.GapGrant, at: lane1},
	{from: lane1, to: lane3, says: "the job and its generation"},
	{gap: daybook.GapStart, at: lane3},
	{from: lane3, to: lane3, says: "handler begins"},
	{from: lane3, to: lane1, says: "this effect begins"},
	{gap: daybook.GapBegin, at: lane3},
	{from: lane3, to: lane4, says: "do it"},
	{gap: daybook.GapRecord, at: lane4},
	{from: lane3, to: lane1, says: "it is done"},
	{gap: daybook.GapComplete, at: lane3},
	{from: lane3, to: lane1, says: "complete"},
	{gap: daybook.GapReply, at: lane1},
	{from: lane1, to: lane3, says: "recorded"},
	{gap: daybook.GapAck, at: lane3},
	{from: lane3, to: lane2, says: "had it"},
	{gap: daybook.GapPause, at: lane3},
}

// drawGaps draws it; a gap's number leads to what is said of it.
func drawGaps() template.HTML {
	numbers := map[string]int{}
	for i, g := range daybook.Gaps {
		numbers[g.Name] = i + 1
	}
	high := gapsTop + len(gapStrokes)*gapsStep + 20
	var s svg
	s.put(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">` +
		`<path d="M0 0 8 4 0 8Z" class="tip"/></marker></defs>`)
	for _, l := range []struct {
		x    int
		name string
	}{{lane0, "caller"}, {lane1, "the book"}, {lane2, "bell"}, {lane3, "worker"}, {lane4, "outside"}} {
		s.put(`<text class="lane" x="%d" y="22" text-anchor="middle">%s</text><path class="life" d="M%d 34V%d"/>`,
			l.x, l.name, l.x, high-8)
	}
	for i, st := range gapStrokes {
		y := gapsTop + i*gapsStep
		switch {
		case st.gap != "":
			side, anchor := st.at+18, "start"
			if st.at == lane4 {
				side, anchor = st.at-18, "end"
			}
			s.put(`<a href="#gap-%s"><circle class="gap" cx="%d" cy="%d" r="11"/><text class="number" x="%d" y="%d" `+
				`text-anchor="middle">%d</text><text class="gapname" x="%d" y="%d" text-anchor="%s">%s</text></a>`,
				st.gap, st.at, y, st.at, y+4, numbers[st.gap], side, y+4, anchor, st.gap)
		case st.from == st.to:
			s.put(`<circle class="node" cx="%d" cy="%d" r="4"/><text class="says" x="%d" y="%d">%s</text>`, st.from, y,
				st.from+12, y+4, st.says)
		default:
			from, to := st.from+6, st.to-6
			if st.from > st.to {
				from, to = st.from-6, st.to+6
			}
			s.put(`<path class="arrow" d="M%d %dH%d" marker-end="url(#tip)"/><text class="says" x="%d" y="%d" `+
				`text-anchor="middle">%s</text>`, from, y, to, (st.from+st.to)/2, y-5, st.says)
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="gaps" viewBox="0 0 %d %d" role="group" aria-label="The path of a job `+
		`from a request to its acknowledgement, with the %d gaps in which a process can die">%s</svg>`, gapsWide, high,
		len(daybook.Gaps), s.String()))
}
