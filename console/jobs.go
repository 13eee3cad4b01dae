package console

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// jobsPage is a page of the list of jobs.
type jobsPage struct {
	Filter  daybook.Filter
	Search  string
	Found   searched // how far a search went
	Jobs    []daybook.Job
	Now     daybook.Time
	Next    string // cursor
	Later   bool   // not the first page
	Query   url.Values
	Order   string
	Count   counted
	States  []daybook.State
	Reasons []daybook.Reason
	Queues  []string
	Kinds   []string
	First   string // addresses: the list's beginning, what comes next
	More    string
	Revive  string // decisions about all of the filter; "" makes no sense
	Cancel  string
	Unhold  string
}

// searched says how far a search went.
type searched struct {
	Looked int
	More   bool // there are jobs that it didn't look at
	Hidden bool // it passed over kinds that somebody else may see
}

// counted is how many jobs a filter matches, as far as that is known without
// walking them.
type counted struct {
	N     int64
	Known bool
	About bool // an upper bound: jobs that retention removed are in it
}

const (
	jobsShown, namesOffered = 50, 500
	// A search looks at so many jobs, or bytes, or for so long.
	searchJobs, searchBytes, searchTime = 2000, 64 << 20, 4 * time.Second
)

// filterOf reads a filter from a page's query. What it doesn't know is an error:
// a mistyped state must not show all jobs.
func filterOf(q url.Values) (f daybook.Filter, err error) {
	f = daybook.Filter{Queue: strings.TrimSpace(q.Get("queue")), Kind: strings.TrimSpace(q.Get("kind")),
		State: daybook.State(q.Get("state")), Reason: daybook.Reason(q.Get("reason")), Key: q.Get("key"),
		HeldBy: q.Get("held_by"), Held: q.Get("held") != "", Cursor: q.Get("cursor"), Limit: jobsShown}
	if f.Reason != "" && !slices.Contains(daybook.Reasons, f.Reason) {
		return f, daybook.Invalid("reason", "wants one of %v", daybook.Reasons)
	}
	for _, name := range []struct{ field, value string }{{"queue", f.Queue}, {"kind", f.Kind}} {
		if name.value != "" {
			if err := daybook.CheckName(name.field, name.value); err != nil {
				return f, err
			}
		}
	}
	if err := daybook.CheckKey(f.Key); err != nil {
		return f, err
	}
	return f, f.Check()
}

// jobList is what one look at a list saw.
type jobList struct {
	Page daybook.Page[daybook.Job]
	Now  daybook.Time
}

// jobs lists jobs without what is large, with everybody who looks at them now.
func (c *Console) jobs(ctx context.Context, f daybook.Filter) (jobList, error) {
	f.Brief = true
	key := "jobs " + query("queue", f.Queue, "kind", f.Kind, "state", string(f.State), "reason", string(f.Reason),
		"key", f.Key, "held_by", f.HeldBy, "held", "1"[:btoi(f.Held)], "cursor", f.Cursor,
		"limit", num(f.Limit))
	return see(ctx, c, key, func(ctx context.Context) (l jobList, err error) {
		err = c.book.Store().Read(ctx, "listing jobs", func(v daybook.View) (err error) {
			l.Now = v.Now()
			l.Page, err = v.Jobs(ctx, f)
			return err
		})
		return l, err
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *Console) loadJobs(a *ask) (any, error) {
	p := jobsPage{Query: a.query, States: daybook.States, Reasons: daybook.Reasons, Later: a.query.Get("cursor") != ""}
	p.Search = strings.TrimSpace(a.query.Get("q"))
	if id, err := daybook.ParseID(p.Search); err == nil {
		return nil, elsewhere(c.url("/job/" + id.String()))
	}
	f, err := filterOf(a.query)
	if err != nil {
		return nil, err
	}
	p.Filter, p.Order = f, orderOf(f)
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	for i, q := range b.Queues {
		if i == namesOffered {
			break // a field takes any name; these are offered to whoever types
		}
		p.Queues = append(p.Queues, q.Queue)
		for _, k := range q.Kinds {
			p.Kinds = append(p.Kinds, k.Kind)
		}
	}
	slices.Sort(p.Kinds)
	p.Kinds = slices.Compact(p.Kinds)
	p.Count = countOf(f, b)
	if p.Search != "" {
		return c.search(a, p)
	}
	list, err := c.jobs(a.ctx, f)
	if err != nil {
		return nil, err
	}
	p.Jobs, p.Now, p.Next = c.jobsSeen(list.Page.Items, a.who), list.Now, list.Page.Cursor
	c.links(&p)
	if len(p.Jobs) > 0 {
		c.bulkLinks(&p)
	}
	return p, nil
}

// links makes the addresses of the list's other pages.
func (c *Console) links(p *jobsPage) {
	at := func(cursor string) string {
		q := maps.Clone(p.Query)
		if q.Del("cursor"); cursor != "" {
			q.Set("cursor", cursor)
		}
		return c.base + "/jobs?" + q.Encode()
	}
	if p.Later {
		p.First = at("")
	}
	if p.Next != "" {
		p.More = at(p.Next)
	}
}

// bulkLinks makes the addresses of decisions about all of a filter.
func (c *Console) bulkLinks(p *jobsPage) {
	f := p.Filter
	state := f.State
	if f.Reason != "" && state == "" {
		state = daybook.SetAside
	}
	held := "1"[:btoi(f.Held)]
	if f.Held {
		state = daybook.Waiting
	}
	to := func(move daybook.Move) string {
		return c.url("/batch", "move", move, "state", state, "queue", f.Queue, "kind", f.Kind, "reason", f.Reason,
			"key", f.Key, "held_by", f.HeldBy, "held", held)
	}
	switch state {
	case daybook.SetAside:
		p.Revive, p.Cancel = to(daybook.MoveRevive), to(daybook.MoveCancel)
	case daybook.Cancelled, daybook.Expired:
		p.Revive = to(daybook.MoveRevive)
	case daybook.Waiting, daybook.Running:
		p.Cancel = to(daybook.MoveCancel)
	}
	if f.Held || f.HeldBy != "" {
		p.Unhold = to(daybook.MoveUnhold)
	}
}

// orderOf says in which order a list comes.
func orderOf(f daybook.Filter) string {
	switch {
	case f.State == daybook.Waiting || f.Held:
		return "in the order in which they would run"
	case f.State == daybook.Succeeded:
		return "the last to end first"
	}
	return "the newest first"
}

// countOf knows how many jobs of a filter there are, where the counts tell.
func countOf(f daybook.Filter, b backlog) (n counted) {
	if f.Key != "" || f.HeldBy != "" {
		return n
	}
	if f.Reason != "" && f.State == "" {
		f.State = daybook.SetAside
	}
	if f.Held {
		f.State = daybook.Waiting
	}
	for _, q := range b.Queues {
		if f.Queue != "" && q.Queue != f.Queue {
			continue
		}
		if f.Kind == "" && f.Reason == "" && !f.Held {
			n.N += standing(q.Counts, f.State)
			continue
		}
		for _, k := range q.Kinds {
			if f.Kind == "" || k.Kind == f.Kind {
				n.N += standingOf(k, f)
			}
		}
	}
	live := f.State == daybook.Waiting || f.State == daybook.Running || f.State == daybook.SetAside
	n.Known = live || f.Kind == ""
	n.About = !live
	return n
}

// standing is how many jobs of a queue are in a state, or came in at all.
func standing(c daybook.Counts, s daybook.State) int64 {
	return map[daybook.State]int64{"": c.Accepted + c.MovedIn, daybook.Waiting: c.Waiting, daybook.Running: c.Running,
		daybook.SetAside: c.SetAside, daybook.Succeeded: c.Succeeded, daybook.Cancelled: c.Cancelled,
		daybook.Expired: c.Expired, daybook.Moved: c.MovedOut}[s]
}

// standingOf is the same of one kind.
func standingOf(k daybook.KindCounts, f daybook.Filter) (n int64) {
	switch {
	case f.Held:
		return k.Held
	case f.State == daybook.Waiting:
		return k.Eligible + k.Later + k.Held
	case f.State == daybook.Running:
		return k.Running
	case f.State != daybook.SetAside:
		return 0
	}
	for reason, of := range k.SetAside {
		if f.Reason == "" || reason == f.Reason {
			n += of
		}
	}
	return n
}

// search looks for a text in args, keys and errors, at a bounded number of jobs:
// the book has no index of what is in them. It goes on from where it stopped.
func (c *Console) search(a *ask, p jobsPage) (any, error) {
	want := bytes.ToLower([]byte(p.Search))
	begun, seen, sight := time.Now(), 0, c.sight(a.who)
	f := p.Filter
	f.Limit = 100
	for {
		page, err := c.book.Jobs(a.ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Items {
			p.Found.Looked++
			seen += len(j.Args)
			j = sight.Job(j)
			p.Found.Hidden = p.Found.Hidden || j.Hidden
			if mentions(j, want) {
				p.Jobs = append(p.Jobs, j)
			}
		}
		p.Next = page.Cursor
		full := len(p.Jobs) >= jobsShown || p.Found.Looked >= searchJobs || seen >= searchBytes
		if page.Cursor == "" || full || time.Since(begun) > searchTime {
			break
		}
		f.Cursor = page.Cursor
	}
	p.Found.More = p.Next != ""
	c.links(&p)
	b, err := c.backlog(a.ctx)
	p.Now = b.At
	return p, err
}

// mentions reports whether a job has a text, in small letters, in what people
// search.
func mentions(j daybook.Job, want []byte) bool {
	if bytes.Contains(bytes.ToLower(j.Args), want) || strings.Contains(strings.ToLower(j.Key), string(want)) {
		return true
	}
	return j.LastError != nil && strings.Contains(strings.ToLower(j.LastError.Text), string(want))
}

// turned is an answer that is somewhere else.
type turned string

func (t turned) Error() string { return "see " + string(t) }

func elsewhere(path string) error { return turned(path) }

// turn follows an answer that is somewhere else.
func (c *Console) turn(w http.ResponseWriter, r *http.Request, err error) bool {
	to, ok := err.(turned)
	if ok {
		http.Redirect(w, r, string(to), http.StatusSeeOther)
	}
	return ok
}
