package console

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// asidePage shows what was set aside, alike beside alike.
type asidePage struct {
	Queue   string
	Reason  daybook.Reason
	Total   int64
	Others  int64 // set aside in queues that aren't shown
	Reasons map[daybook.Reason]int64
	Sorted  []daybook.Reason
	Groups  []asideGroup
	Looked  int
	More    bool // there are set-aside jobs that weren't looked at
	Now     daybook.Time
	Queues  []string
}

// asideGroup are jobs that were set aside for one reason with one error.
type asideGroup struct {
	Reason daybook.Reason
	Error  string // without what differs between two of them
	Mark   string // of reason and error, for addresses
	Kinds  []string
	Queues []string
	Jobs   []daybook.Job // the newest few
	N      int
	Newest daybook.Time
	Oldest daybook.Time
	Open   int // with an open effect
	// Happened had their work done, as a person said, and no effect open.
	Happened int

	Example string // the newest one's error, where the error above leaves something out
}

// Others have nothing that the list shows against running again. Whether that is
// safe their ledgers tell, which are read for a decision and not for this page.
func (g asideGroup) Others() int { return g.N - g.Open - g.Happened }

const (
	// asideLooked is how many set-aside jobs are looked at, the newest.
	asideLooked = 1000
	// asideSample is how many of a group are named.
	asideSample = 3
)

// likeness is an error's first line without what differs between two errors of
// one sort: numbers, ids, quoted text.
func likeness(p *daybook.Problem) string {
	switch {
	case p == nil:
		return ""
	case p.Hidden: // from this reader: what its text has in common must not be told
		return strings.TrimSpace(p.Kind + " (hidden: a sensitive kind)")
	}
	line, _, _ := strings.Cut(strings.TrimSpace(p.Text), "\n")
	var b strings.Builder
	var word strings.Builder
	flush := func() {
		w := word.String()
		digits := strings.IndexFunc(w, func(r rune) bool { return r >= '0' && r <= '9' }) >= 0
		if digits {
			w = "#"
		}
		b.WriteString(w)
		word.Reset()
	}
	for _, r := range line {
		letter := r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127
		if letter {
			word.WriteRune(r)
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	text := b.String()
	for strings.Contains(text, "#-#") {
		text = strings.ReplaceAll(text, "#-#", "#")
	}
	return text
}

// groupMark names a group in an address.
func groupMark(reason daybook.Reason, likeness string) string {
	h := fnv.New64a()
	h.Write([]byte(string(reason) + "\x00" + likeness))
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Console) loadAside(a *ask) (any, error) {
	f, err := filterOf(a.query)
	if err != nil {
		return nil, err
	}
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	p := asidePage{Queue: f.Queue, Reason: f.Reason, Now: b.At, Reasons: map[daybook.Reason]int64{}}
	for _, q := range b.Queues {
		if q.SetAside > 0 {
			p.Queues = append(p.Queues, q.Queue)
		}
		if f.Queue != "" && q.Queue != f.Queue {
			p.Others += q.SetAside
			continue
		}
		for reason, n := range q.Reasons {
			p.Reasons[reason] += n
			p.Total += n
		}
	}
	p.Sorted = sortedReasons(p.Reasons)
	jobs, err := c.jobs(a.ctx, daybook.Filter{Queue: f.Queue, Kind: f.Kind, Reason: f.Reason,
		State: daybook.SetAside, Limit: asideLooked})
	if err != nil {
		return nil, err
	}
	p.Looked, p.More = len(jobs.Page.Items), jobs.Page.Cursor != ""
	p.Groups = groupsOf(c.jobsSeen(jobs.Page.Items, a.who))
	return p, nil
}

// groupsOf puts alike beside alike, the largest group first.
func groupsOf(jobs []daybook.Job) []asideGroup {
	found := map[string]*asideGroup{}
	var all []*asideGroup
	for _, j := range jobs {
		like := likeness(j.LastError)
		mark := groupMark(j.Reason, like)
		g := found[mark]
		if g == nil {
			g = &asideGroup{Reason: j.Reason, Error: like, Mark: mark, Newest: j.EndedAt, Oldest: j.EndedAt}
			found[mark] = g
			all = append(all, g)
		}
		if g.N == 0 && j.LastError != nil && !j.LastError.Hidden {
			if line, _, _ := strings.Cut(strings.TrimSpace(j.LastError.Text), "\n"); line != like {
				g.Example = line
			}
		}
		g.N++
		g.Newest, g.Oldest = max(g.Newest, j.EndedAt), min(g.Oldest, j.EndedAt)
		if len(g.Jobs) < asideSample {
			g.Jobs = append(g.Jobs, j)
		}
		if !slices.Contains(g.Kinds, j.Kind) {
			g.Kinds = append(g.Kinds, j.Kind)
		}
		if !slices.Contains(g.Queues, j.Queue) {
			g.Queues = append(g.Queues, j.Queue)
		}
		switch {
		case j.OpenEffect != "":
			g.Open++
		case j.Happened:
			g.Happened++
		}
	}
	slices.SortStableFunc(all, func(a, b *asideGroup) int { return cmp.Compare(b.N, a.N) })
	out := make([]asideGroup, len(all))
	for i, g := range all {
		out[i] = *g
	}
	return out
}
