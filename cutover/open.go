package cutover

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// OpenJob is a job that the balance has as open, and what it is here now.
type OpenJob struct {
	daybook.Item
	State   daybook.State `json:"state,omitempty"` // "": its row is gone, since it ended long ago
	HeldBy  string        `json:"held_by,omitempty"`
	Decided bool          `json:"decided"` // a person did, or it ran here since
}

// Now says in words what it is.
func (o OpenJob) Now() string {
	state := strings.ReplaceAll(string(o.State), "_", " ")
	switch {
	case o.State == "":
		return "ended, and its row is gone"
	case o.HeldBy != "" && !o.State.Final():
		return fmt.Sprintf("%s, held by %s", state, o.HeldBy)
	}
	return state
}

// namedOpen bounds how many open jobs a board names, and tolledMost how many it reads.
const namedOpen, tolledMost = 20, 10 * daybook.ListMax

// opens is what is open of a cutover.
type opens struct {
	all, undecided int64
	died           map[string]int64 // of all, by whose death has them open
	more           bool             // more are open than were read
	named          []OpenJob        // the first, those that nobody has decided before the others
}

// opensOf reads what is open, up to most (0 is all), and names some of it.
func opensOf(ctx context.Context, book *daybook.Book, c daybook.Cutover, name, most int64) (opens, error) {
	o := opens{died: map[string]int64{}}
	waiting, err := undecided(ctx, book, c)
	if err != nil {
		return o, err
	}
	var decided []OpenJob
	f := daybook.ItemFilter{Cutover: c.Name, Term: daybook.TermOpen, Limit: daybook.ListMax}
	for {
		page, err := book.Items(ctx, f)
		if err != nil {
			return o, err
		}
		for _, i := range page.Items {
			j, waits := waiting[i.Job]
			switch o.died[i.Died]++; {
			case !waits && int64(len(decided)) < name:
				decided = append(decided, OpenJob{Item: i, Decided: true})
			case waits && o.undecided < name:
				o.named = append(o.named, OpenJob{Item: i, State: j.State, HeldBy: j.HeldBy})
			}
			if waits {
				o.undecided++
			}
		}
		o.all += int64(len(page.Items))
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
		if o.more = most > 0 && o.all >= most; o.more {
			break
		}
	}
	decided = decided[:min(int64(len(decided)), name-int64(len(o.named)))]
	o.named = append(o.named, decided...)
	return o, o.lookUp(ctx, book)
}

// lookUp finds out what the decided ones are now.
func (o *opens) lookUp(ctx context.Context, book *daybook.Book) error {
	for k, n := range o.named {
		if !n.Decided {
			continue
		}
		switch j, err := book.Job(ctx, n.Job); {
		case err == nil:
			o.named[k].State, o.named[k].HeldBy = j.State, j.HeldBy
		case daybook.CodeOf(err) != daybook.CodeNotFound:
			return err
		}
	}
	return nil
}

// undecided are the queue's jobs that wait for a person as a cutover leaves them:
// held since their id is known for something else, or set aside with an open effect
// since their old worker died. What ran here since isn't.
func undecided(ctx context.Context, book *daybook.Book, c daybook.Cutover) (map[daybook.ID]daybook.Job, error) {
	waiting := map[daybook.ID]daybook.Job{}
	for _, f := range []daybook.Filter{{HeldBy: c.Holder() + ":asked"},
		{State: daybook.SetAside, Reason: daybook.ReasonEffectOpen}} {
		f.Queue, f.Brief, f.Limit = c.Queue, true, daybook.ListMax
		for {
			page, err := book.Jobs(ctx, f)
			if err != nil {
				return nil, err
			}
			for _, j := range page.Items {
				if j.Origin != nil && !j.Attempted() && !j.State.Final() {
					waiting[j.ID] = j
				}
			}
			if f.Cursor = page.Cursor; f.Cursor == "" {
				break
			}
		}
	}
	return waiting, nil
}
