package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// batches are decisions about many jobs. They run in the background, since many
// take longer than a page may.
type batches struct {
	mu   sync.Mutex
	next int
	all  map[int]*batch
}

// batch is one of them.
type batch struct {
	N       int
	Move    daybook.Move
	Filter  daybook.Filter
	Alike   string // only those of one error; "" is all of the filter
	By      daybook.By
	Force   bool
	sight   daybook.Sight // of who decides
	Begun   time.Time
	Took    time.Duration // 0 while it runs
	Seen    int64
	Expects int64 // as the preview said
	Answer  daybook.BulkAnswer
	Fault   string
}

const (
	// batchesAtOnce bounds how many run, and batchesKept how many are remembered.
	batchesAtOnce, batchesKept = 4, 100
	// batchMax bounds one in time.
	batchMax = time.Hour
	// alikeLooked bounds the jobs that are looked through for those of one error.
	alikeLooked = 100_000
	// countMax bounds counting for a preview.
	countMax = 5 * time.Second
)

// batchPage shows one.
type batchPage struct {
	Batch   batch
	Running bool
	Age     string
	Refused []refusal
	Back    string
}

// refusal is why some were left as they are.
type refusal struct {
	Code daybook.Code
	N    int64
}

func (p batchPage) title() string { return "Batch: " + string(p.Batch.Move) }

// batchOf reads what a decision about many is about.
func (c *Console) batchOf(a *ask, q url.Values) (k batch, err error) {
	f, err := filterOf(q)
	if err != nil {
		return k, err
	}
	f.Cursor = ""
	k = batch{Move: daybook.Move(q.Get("move")), Filter: f, Alike: q.Get("alike"), Force: q.Get("force") != "",
		sight: c.sight(a.who)}
	switch k.Move {
	case daybook.MoveCancel, daybook.MoveRevive, daybook.MoveUnhold:
	default:
		return k, daybook.Invalid("move", "wants cancel, revive or unhold")
	}
	if f.Reason != "" && f.State == "" {
		k.Filter.State = daybook.SetAside
	}
	if k.Filter.State == "" && !f.Held && f.HeldBy == "" {
		return k, daybook.Invalid("state", "is missing; a decision about many wants a state")
	}
	if k.Move == daybook.MoveRevive && !daybook.Allowed(daybook.MoveRevive, k.Filter.State, daybook.Waiting) {
		return k, daybook.Invalid("state", "wants set_aside, cancelled or expired; others can't be revived")
	}
	return k, nil
}

// pairs are the batch as names and values, for addresses and forms.
func (k batch) pairs() [][2]string {
	all := [][2]string{{"move", string(k.Move)}, {"queue", k.Filter.Queue}, {"kind", k.Filter.Kind},
		{"state", string(k.Filter.State)}, {"aside_reason", string(k.Filter.Reason)}, {"key", k.Filter.Key},
		{"held_by", k.Filter.HeldBy}, {"alike", k.Alike}}
	if k.Filter.Held {
		all = append(all, [2]string{"held", "1"})
	}
	return all
}

// preview says what a batch would do, by the book's counts or by looking.
func (c *Console) preview(a *ask, k *batch) (facts []string, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, countMax)
	defer cancel()
	switch {
	case k.Alike != "":
		n, whole, err := c.alike(ctx, *k, nil)
		k.Expects = n
		text := count(n, "job") + " with this error now."
		if !whole {
			text = fmt.Sprintf("%s with this error among the newest %s; the others are not touched.", count(n, "job"),
				num(alikeLooked))
		}
		return []string{text, "Each is decided by itself: one with an open effect, or whose work happened, refuses and " +
			"stays as it is."}, err
	case k.Move == daybook.MoveRevive:
		r, err := c.book.Review(ctx, k.Filter)
		k.Expects = r.Matched
		facts = append(facts, fmt.Sprintf("%s match. %s safe to retry and would be revived.", count(r.Matched, "job"),
			num(r.Safe)))
		for _, u := range r.Unsafe {
			facts = append(facts, fmt.Sprintf("%s stay as they are: %s.", count(u.Jobs, "job"), u.Why))
		}
		return facts, err
	}
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	if n := countOf(k.Filter, b); n.Known && !n.About {
		k.Expects = n.N
		return []string{count(n.N, "job") + " match, as of " + b.At.String() + "."}, nil
	}
	k.Expects, err = c.book.Count(ctx, k.Filter)
	if err != nil && ctx.Err() != nil {
		return []string{"More match than could be counted in " + lasted(countMax) + ": at least " + num(k.Expects) + "."}, nil
	}
	return []string{count(k.Expects, "job") + " match."}, err
}

// alike walks the jobs of a filter that were set aside with one error.
func (c *Console) alike(ctx context.Context, k batch, each func(daybook.Job)) (n int64, whole bool, err error) {
	f := k.Filter
	f.Limit, f.Brief = 500, true
	for looked := 0; looked < alikeLooked; {
		page, err := c.book.Jobs(ctx, f)
		if err != nil {
			return n, false, err
		}
		for _, j := range page.Items {
			if groupMark(j.Reason, likeness(k.sight.Job(j).LastError)) == k.Alike {
				n++
				if each != nil {
					each(j)
				}
			}
		}
		looked += len(page.Items)
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return n, true, nil
		}
	}
	return n, false, nil
}

func (c *Console) batchAsk(a *ask, k *batch) (decidePage, error) {
	facts, err := c.preview(a, k)
	if err != nil {
		return decidePage{}, err
	}
	p := decidePage{Facts: append([]string{filterText(k.Filter)}, facts...), Action: c.url("/batch"),
		Back: c.url(backOf(*k)), Force: k.Move == daybook.MoveCancel && k.Filter.State == daybook.Running}
	for _, pair := range k.pairs() {
		if pair[1] != "" {
			p.Fields = append(p.Fields, pair)
		}
	}
	p.Fields = append(p.Fields, [2]string{"expects", strconv.FormatInt(k.Expects, 10)})
	switch k.Move {
	case daybook.MoveCancel:
		p.Head, p.Button, p.Grave = "Cancel "+count(k.Expects, "job"), "Cancel them", true
		p.Lead = "They end now and never run; args and history stay. Those that run are asked to stop."
	case daybook.MoveRevive:
		p.Head, p.Button = "Revive "+count(k.Expects, "job"), "Revive what is safe"
		p.Lead = "They wait to run again, their failures forgiven, their history kept."
	case daybook.MoveUnhold:
		p.Head, p.Button, p.Lead = "Let "+count(k.Expects, "job")+" go", "Let them go", "Claims see them again."
	}
	if k.Expects == 0 {
		p.No = "Nothing matches now."
	}
	return p, nil
}

func backOf(k batch) string {
	if k.Filter.State == daybook.SetAside {
		return "/aside"
	}
	return "/jobs?" + query("state", string(k.Filter.State), "queue", k.Filter.Queue, "kind", k.Filter.Kind)
}

// filterText says a filter in words.
func filterText(f daybook.Filter) string {
	text := "All jobs"
	if f.State != "" {
		text = "All that are " + words(f.State)
	}
	for _, part := range []struct{ word, value string }{{" because of ", words(f.Reason)}, {" in queue ", f.Queue},
		{" of kind ", f.Kind}, {" with key ", safe(f.Key)}, {" held by ", safe(f.HeldBy)}} {
		if part.value != "" {
			text += part.word + part.value
		}
	}
	if f.Held {
		text += " and held"
	}
	return text + "."
}

func (c *Console) askBatch(a *ask) error {
	k, err := c.batchOf(a, a.query)
	if err != nil {
		return err
	}
	p, err := c.batchAsk(a, &k)
	if err != nil {
		return err
	}
	return c.decide(a, http.StatusOK, p)
}

func (c *Console) doBatch(a *ask) error {
	form := maps.Clone(a.r.PostForm)
	form.Set("reason", form.Get("aside_reason")) // the filter's; the other one is the person's
	k, err := c.batchOf(a, form)
	if err != nil {
		return err
	}
	k.Expects, _ = strconv.ParseInt(form.Get("expects"), 10, 64)
	if k.By, err = c.by(a); err != nil {
		p, asking := c.batchAsk(a, &k)
		if asking != nil {
			return asking
		}
		return c.again(a, p, err)
	}
	n, err := c.start(&k)
	if err != nil {
		return err
	}
	c.log.Info("a batch was begun in the console", "batch", n, "move", k.Move, "filter", filterText(k.Filter),
		"actor", k.By.Actor, "reason", k.By.Reason)
	http.Redirect(a.w, a.r, c.url("/batch/"+strconv.Itoa(n)), http.StatusSeeOther)
	return nil
}

// start runs a batch in the background and waits a moment for it: most are done
// before the page is there.
func (c *Console) start(k *batch) (int, error) {
	bs := &c.batches
	bs.mu.Lock()
	running := 0
	for _, other := range bs.all {
		running += btoi(other.Took == 0)
	}
	if running >= batchesAtOnce {
		bs.mu.Unlock()
		return 0, daybook.Fail(daybook.CodeBusy, "%d batches run already; wait for one to end", running)
	}
	if bs.all == nil {
		bs.all = map[int]*batch{}
	}
	bs.next++
	k.N, k.Begun = bs.next, time.Now()
	kept := *k
	bs.all[k.N] = &kept
	delete(bs.all, k.N-batchesKept)
	bs.mu.Unlock()
	done := make(chan struct{})
	c.background(func() {
		defer close(done)
		c.runBatch(&kept)
	})
	wait := time.NewTimer(time.Second)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
	return k.N, nil
}

func (c *Console) runBatch(k *batch) {
	ctx, cancel := context.WithTimeout(c.closing, batchMax)
	defer cancel()
	bs := &c.batches
	seen := func(n int64) {
		bs.mu.Lock()
		k.Seen = n
		bs.mu.Unlock()
	}
	var answer daybook.BulkAnswer
	var err error
	if k.Alike != "" {
		answer, err = c.decideAlike(ctx, *k, seen)
	} else {
		answer, err = c.book.Decide(ctx, daybook.Bulk{Move: k.Move, Filter: k.Filter, By: k.By, Force: k.Force, Seen: seen})
	}
	bs.mu.Lock()
	k.Answer, k.Took = answer, max(time.Since(k.Begun), 1)
	if err != nil {
		k.Fault = sayable(err)
	}
	bs.mu.Unlock()
	c.forget()
}

// decideAlike decides about jobs one by one.
func (c *Console) decideAlike(ctx context.Context, k batch, seen func(int64)) (daybook.BulkAnswer, error) {
	answer := daybook.BulkAnswer{Refused: map[daybook.Code]int64{}}
	var fault error
	_, _, err := c.alike(ctx, k, func(j daybook.Job) {
		if fault != nil {
			return
		}
		answer.Matched++
		seen(answer.Matched)
		var err error
		switch k.Move {
		case daybook.MoveCancel:
			_, err = c.book.Cancel(ctx, j.ID, k.By, k.Force)
		case daybook.MoveRevive:
			_, err = c.book.Revive(ctx, j.ID, k.By)
		case daybook.MoveUnhold:
			_, err = c.book.Unhold(ctx, j.ID, k.By)
		}
		switch daybook.CodeOf(err) {
		case "":
			answer.Done++
		case daybook.CodeUnavailable, daybook.CodeInternal:
			fault = err
		default:
			answer.Refused[daybook.CodeOf(err)]++
			if answer.First == "" {
				answer.First = err.Error()
			}
		}
	})
	if fault != nil {
		err = fault
	}
	return answer, err
}

func (c *Console) loadBatch(a *ask) (any, error) {
	n, err := strconv.Atoi(a.r.PathValue("n"))
	c.batches.mu.Lock()
	defer c.batches.mu.Unlock()
	kept := c.batches.all[n]
	if err != nil || kept == nil {
		return nil, daybook.Fail(daybook.CodeNotFound,
			"no such batch here; it may have been begun before this program started. Each job's timeline has what was done")
	}
	p := batchPage{Batch: *kept, Running: kept.Took == 0, Age: lasted(time.Since(kept.Begun)), Back: c.url(backOf(*kept))}
	for code, n := range kept.Answer.Refused {
		p.Refused = append(p.Refused, refusal{code, n})
	}
	return p, nil
}
