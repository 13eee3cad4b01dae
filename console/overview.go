package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// overview is what the first page shows.
type overview struct {
	backlog
	Needs   []need
	Rows    []queueRow
	More    int // queues that aren't shown
	Flow    template.HTML
	Steps   int
	Since   daybook.Time // of the samples
	Workers int
	Ready   int64 // of queues that aren't paused
	Paused  int64 // ready jobs of those that are
	From    daybook.Time
	Most    string
	Checked daybook.Time
}

// queueRow is a queue with its little chart.
type queueRow struct {
	daybook.Backlog
	Spark template.HTML
}

// need is something that wants a person.
type need struct {
	Class string // how it looks: alarm, warn or note
	Shape string
	Text  string
	More  string // what to do, or since when
	To    string // where to go; "" is nowhere
	Link  string // the words of the link
	sort  int
}

// health is what the overview looks at beside the counts.
type health struct {
	At       daybook.Time
	Sessions []daybook.Session
	Checked  string
	Behind   string
	Pass     daybook.Time // the last pass of a reconciler, by whichever process; 0 is none
	Outbox   time.Duration
	Paused   []daybook.Queue
	Cutovers []daybook.Cutover
}

const (
	// rowsShown bounds the queues of the overview, and sessionsMost the sessions that
	// are looked at.
	rowsShown, sessionsMost = 200, 1000
	// waitsLong is when a ready job waited so long that a person should know.
	waitsLong = 5 * time.Minute
	// outboxLate is how old a ring may get before that is worth a line.
	outboxLate = time.Minute
	// passLate is when somebody should see why nobody reconciles.
	passLate = 2 * time.Minute
)

// health reads it in one snapshot, with everybody who looks now.
func (c *Console) health(ctx context.Context) (health, error) {
	return see(ctx, c, "health", func(ctx context.Context) (h health, err error) {
		err = c.book.Store().Read(ctx, "reading how the book is", func(v daybook.View) (err error) {
			h.At = v.Now()
			if h.Sessions, err = v.Sessions(ctx, daybook.SessionFilter{Limit: sessionsMost}); err != nil {
				return err
			}
			if h.Checked, err = v.Setting(ctx, daybook.SettingChecked); err != nil {
				return err
			}
			if h.Behind, err = v.Setting(ctx, daybook.SettingBookBehind); err != nil {
				return err
			}
			pass, err := v.Setting(ctx, daybook.SettingPass)
			if err != nil {
				return err
			}
			h.Pass, _ = daybook.ParseTime("pass", pass)
			queues, err := v.Queues(ctx, false)
			for _, q := range queues {
				if q.Paused {
					h.Paused = append(h.Paused, q)
				}
			}
			return err
		})
		if err == nil {
			h.Cutovers, err = c.book.Cutovers(ctx)
		}
		if daybook.CodeOf(err) == daybook.CodeRefused {
			err = nil // this store keeps none
		}
		if err == nil && c.book.Outside() != nil {
			h.Outbox, err = c.book.OutboxAge(ctx)
		}
		return h, err
	})
}

func (c *Console) loadOverview(a *ask) (any, error) {
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	h, err := c.health(a.ctx)
	if err != nil {
		return nil, err
	}
	o := overview{backlog: b, Needs: c.needs(b, h), Since: c.flows.since()}
	steps := c.flows.steps("")
	if o.Steps = len(steps); o.Steps > 0 {
		o.From = steps[0].From
	}
	o.Flow, o.Most = flowChart(steps)
	for _, q := range b.Queues {
		if q.Paused {
			o.Paused += q.Eligible
		} else {
			o.Ready += q.Eligible
		}
	}
	rows := slices.Clone(b.Queues)
	slices.SortStableFunc(rows, func(a, b daybook.Backlog) int { return cmp.Compare(weight(b), weight(a)) })
	if o.More = max(0, len(rows)-rowsShown); o.More > 0 {
		rows = rows[:rowsShown]
	}
	for _, q := range rows {
		o.Rows = append(o.Rows, queueRow{q, spark(c.flows.steps(q.Queue))})
	}
	for _, s := range h.Sessions {
		if s.ExpiresAt > h.At {
			o.Workers++
		}
	}
	o.Checked, _ = daybook.ParseTime("checked", h.Checked)
	return o, nil
}

// weight puts queues that want a look first: then the name's order stays.
func weight(b daybook.Backlog) int64 {
	switch {
	case b.Doubled > 0 || b.Open > 0 || b.SetAside > 0:
		return 3
	case b.Eligible > 0 || b.Running > 0:
		return 2
	case b.Later > 0 || b.Held > 0:
		return 1
	}
	return 0
}

// needs lists what wants a person, the gravest first.
func (c *Console) needs(b backlog, h health) []need {
	var all []need
	put := func(sort int, n need) {
		n.sort = sort
		all = append(all, n)
	}
	if h.Behind != "" {
		put(0, need{Class: "alarm", Shape: "alert", Text: "The database lost commits that it had confirmed",
			More: "Tell the book since when: daybook schema restored --since T. Until then ids may be handed out twice."})
	}
	if b.Total.Doubled > 0 {
		put(1, need{Class: "alarm", Shape: "alert", Text: count(b.Total.Doubled, "effect") + " happened twice",
			More: "Late evidence shows it. Somebody outside has to be told.", To: c.url("/effects"), Link: "See the evidence"})
	}
	if b.Total.Open > 0 {
		put(2, need{Class: "warn", Shape: "open", Text: count(b.Total.Open, "effect") + " open",
			More: "Begun, and nobody knows how it ended. No machine may repeat it.", To: c.url("/effects"), Link: "Decide"})
	}
	if n := b.Total.SetAside; n > 0 {
		put(3, need{Class: "warn", Shape: "set_aside", Text: count(n, "job") + " set aside",
			More: reasonsText(b.Total.Reasons), To: c.url("/aside"), Link: "See why"})
	}
	if late := h.At.Sub(h.Pass); b.Total.Running > 0 && late > passLate {
		since := "since the book was made"
		if h.Pass != 0 {
			since = "for " + lasted(late)
		}
		put(3, need{Class: "warn", Shape: "lost", Text: "Nobody reconciles " + since,
			More: "Claims of workers that died are not taken back. Every worker and server does it, unless told not to; " +
				"daybook reconcile does it alone."})
	}
	c.checkNeeds(put)
	c.queueNeeds(b, h, put)
	c.cutoverNeeds(h.Cutovers, h.At, put)
	paused := slices.DeleteFunc(slices.Clone(h.Paused), func(q daybook.Queue) bool {
		return cutoverOf(q.PausedBy) != "" // the cutover's own line says so, and nobody can resume it
	})
	if len(paused) > linesMost {
		put(6, need{Class: "note", Shape: "paused", Text: num(len(paused)) + " queues are paused",
			To: c.url("/queues", "paused", "1"), Link: "Resume"})
		paused = nil
	}
	for _, q := range paused {
		put(6, need{Class: "note", Shape: "paused", Text: "Queue " + q.Name + " is paused",
			More: fmt.Sprintf("for %s, by %s%s", lasted(h.At.Sub(q.PausedAt)), safe(q.PausedBy), because(q.PausedReason)),
			To:   c.url("/queues"), Link: "Resume"})
	}
	c.bellNeeds(h, put)
	slices.SortStableFunc(all, func(a, b need) int { return cmp.Compare(a.sort, b.sort) })
	const most = 40
	if len(all) > most {
		rest := len(all) - most
		all = append(all[:most], need{Class: "note", Shape: "dot", Text: fmt.Sprintf("and %d more like these", rest)})
	}
	return all
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": “" + safe(reason) + "”"
}

// reasonsText lists reasons with their numbers, the most first.
func reasonsText(reasons map[daybook.Reason]int64) string {
	text := ""
	for _, r := range sortedReasons(reasons) {
		if text != "" {
			text += ", "
		}
		text += words(r) + " " + num(reasons[r])
	}
	return text
}

func sortedReasons(reasons map[daybook.Reason]int64) []daybook.Reason {
	var all []daybook.Reason
	for r, n := range reasons {
		if n > 0 {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b daybook.Reason) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	return all
}

// checkNeeds says what the last check of this process found.
func (c *Console) checkNeeds(put func(int, need)) {
	if last := c.check.last(); last.Report != nil && last.Report.Violations > 0 {
		put(1, need{Class: "alarm", Shape: "alert",
			Text: "A check found " + count(last.Report.Violations, "violation"),
			More: "The book isn't as it should be.", To: c.url("/check"), Link: "Which ones"})
	}
}

// bellNeeds says what is wrong with this process's end of the bell: it costs
// latency and no work.
func (c *Console) bellNeeds(h health, put func(int, need)) {
	outside := c.book.Outside()
	if outside == nil {
		return
	}
	if !outside.Stats().Listening {
		put(7, need{Class: "note", Shape: "bell", Text: "The bell isn't heard here",
			More: "Workers find jobs by their poll meanwhile: later, and none is lost.", To: c.url("/bells"), Link: "See"})
	}
	if h.Outbox > outboxLate {
		put(7, need{Class: "note", Shape: "bell", Text: "Rings lie in the outbox for " + lasted(h.Outbox),
			More: "Does a relay run? Workers find jobs by their poll meanwhile.", To: c.url("/bells"), Link: "See"})
	}
}
