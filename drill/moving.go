package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/internal/oldqueue"
)

// The jobs of a moving queue that faults are about; see its jobs.
const (
	firstWaiting = "waiting-0"
	lastWaiting  = "waiting-5"
	heldJob      = "waiting-2" // the last of a batch that a dead mover held: it goes back first
	lateJob      = "late"
	lostJob      = "lost"
	liveJob      = "live"
)

// moving is one cutover under a fault: an old queue with a worker, a queue here
// with one, and what carries jobs from one to the other.
type moving struct {
	*lane // of its own, beside the one that makes the fault
	f     moveFault
	e     *evidence
	at    oldPlace
	from  *oldqueue.Queue // the old queue, as its producers and its worker see it
	old   cutover.Old     // and as a cutover does
	*cutover.Engine
	before []string // the old queue when its gate was closed
}

func (l *lane) moving(f moveFault, e *evidence, url string) (*moving, error) {
	name := "moved-" + daybook.NewID().String()
	m := &moving{f: f, e: e, at: oldPlace{URL: url, Queue: name, Cutover: name},
		lane: &lane{drill: l.drill, stand: l.stand, queue: name}}
	var err error
	if m.from, err = oldqueue.Open(url, name); err != nil {
		return nil, err
	}
	m.Engine, m.old, err = engineAt(l.book, m.at, l.drill.fault, nil)
	return m, err
}

// end ends what the fault had, and takes its old queue away.
func (m *moving) end() {
	m.lane.end()
	bounded, stop := context.WithTimeout(context.Background(), parting)
	defer stop()
	_ = m.from.Leave(bounded) // its server goes with the drill
	_ = m.from.Close()
	_ = m.old.Close()
}

// number is a job's id in the old system, whose reports name jobs of all queues, and
// its order number outside.
func (m *moving) number(id string) string { return m.at.Queue + "-" + id }

func (m *moving) job(id string, state daybook.OldState) oldqueue.Job {
	number := m.number(id)
	return oldqueue.Job{ID: number, Class: "charge", Args: orderOf(number), State: state,
		Due: time.Now().Add(-time.Minute)}
}

func orderOf(number string) []byte {
	args, err := json.Marshal(effects.Order{Number: number, Value: "12.00"})
	if err != nil {
		return nil // of two strings: can't be
	}
	return args
}

// jobs are those of the old queue, with how often each is to happen in the end.
func (m *moving) jobs() (jobs []oldqueue.Job, happen map[string]int) {
	happen = map[string]int{}
	add := func(id string, state daybook.OldState, times int) {
		jobs = append(jobs, m.job(id, state))
		happen[m.number(id)] = times
	}
	add(liveJob, daybook.OldWaiting, 1) // the first to be taken
	for n := range 6 {
		add(fmt.Sprint("waiting-", n), daybook.OldWaiting, 1)
	}
	here := 1
	if m.f.back() {
		here = 0 // the old system's again, whose worker takes what waits, and nothing else
	}
	add("later", daybook.OldLater, here)
	add("retrying", daybook.OldRetrying, here)
	add("dead", daybook.OldDead, 0)
	if !m.f.back() {
		add(lostJob, daybook.OldOwnerLost, 1)
		happen[m.number(lateJob)] = 1
	}
	return jobs, happen
}

// steps are those on the way.
func (m *moving) steps() []string {
	if m.f.back() {
		return []string{stepGate, stepMove, stepRollback}
	}
	return []string{stepGate, stepMove, stepSettle, stepRun, stepWatch}
}

// make makes the fault, and holds what is left to what must be.
func (m *moving) make(ctx context.Context) error {
	jobs, happen := m.jobs()
	if err := m.lay(ctx, jobs); err != nil {
		return err
	}
	for n, verb := range m.steps() {
		if err := m.prepare(ctx, verb); err != nil {
			return err
		}
		if verb != m.f.verb {
			if err := m.step(ctx, verb); err != nil {
				return err
			}
			continue
		}
		if err := m.fault(ctx, m.steps()[n:]); err != nil || m.e.void != "" {
			return err
		}
		if m.e.fault == faultStop {
			break // the others took all of the rest while it stood
		}
	}
	if err := m.finish(ctx); err != nil {
		return err
	}
	m.e.recovered = time.Since(m.e.since)
	return m.judge(ctx, happen)
}

// lay fills the old queue, has its worker take the first job, and plans.
func (m *moving) lay(ctx context.Context, jobs []oldqueue.Job) error {
	w, err := m.start(setup{})
	if err != nil {
		return err
	}
	m.workers = append(m.workers, w)
	if err := m.from.Put(ctx, jobs...); err != nil {
		return err
	}
	if id, err := m.from.Take(ctx); err != nil || id != m.number(liveJob) {
		return errorsOf(err, daybook.Fail(daybook.CodeInternal, "the old worker took %q, not %q", id, liveJob))
	}
	_, err = m.MakePlan(ctx, m.at.Queue, cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk,
		Wait: cutover.Seconds(patience), NoRollback: true})
	if err == nil {
		_, err = m.Shadow(ctx, 0)
	}
	return err
}

// prepare is what the old system does before a step.
func (m *moving) prepare(ctx context.Context, verb string) (err error) {
	switch verb {
	case stepMove:
		if m.before, err = m.there(ctx); err != nil || !m.f.back() {
			return err
		}
		return m.works(ctx, m.number(liveJob)) // its answer comes when the gate is closed
	case stepSettle:
		return m.works(ctx, m.number(liveJob))
	case stepWatch:
		return m.late(ctx)
	case stepRollback:
		if m.f.name == "cutover-held-returned" {
			return m.hold(ctx)
		}
	}
	return nil
}

// step takes one step from here, and brings what failed on the way to words.
func (m *moving) step(ctx context.Context, verb string) error {
	if m.f.name == "cutover-held-returned" && verb == stepMove {
		return nil // a mover died in it: see hold
	}
	if err := carry(ctx, m.Engine, verb); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cutover %s: %w", verb, err)
	}
	return ctx.Err()
}

// hold leaves a batch in the held list, as a mover does that dies there.
func (m *moving) hold(ctx context.Context) error {
	_, err := m.old.Take(ctx, moverBatch)
	return err
}

// works is the old worker: it does what a job is for, and says so.
func (m *moving) works(ctx context.Context, id string) error {
	to := m.to["charge"].URL + "/charges"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(orderOf(id)))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", "old-"+daybook.NewID().String()) // twice would be seen
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	return m.from.Done(ctx, id)
}

// late is what comes to the old queue when the book runs: a job that it has
// already, byte for byte, and one that nobody knows.
func (m *moving) late(ctx context.Context) error {
	items, err := m.book.Items(ctx, daybook.ItemFilter{Cutover: m.at.Cutover, ID: m.number(firstWaiting), Whole: true,
		Limit: 1})
	if err != nil {
		return err
	}
	for _, i := range items.Items {
		if i.Old == nil {
			continue // it was lost on the way: the judgement tells
		}
		if _, err := m.old.Return(ctx, *i.Old); err != nil {
			return err
		}
	}
	return m.from.Put(ctx, m.job(lateJob, daybook.OldWaiting))
}

// there are the jobs of the old queue in their order, as they are; the one that
// its worker has is none of them.
func (m *moving) there(ctx context.Context) (list []string, err error) {
	_, err = m.old.Scan(ctx, 0, func(o daybook.OldJob) error {
		if o.State != daybook.OldOwned {
			list = append(list, fmt.Sprintf("%s %s %s %x", o.State, o.ID, o.DueAt, o.Body))
		}
		return nil
	})
	return list, err
}

// finish is the rest of all work: here until nothing is waiting or running, with
// a person who looks into the destination's ledger where one is asked; there until
// nothing is left that its worker takes.
func (m *moving) finish(ctx context.Context) error {
	if m.f.back() {
		after, err := m.there(ctx)
		if err != nil {
			return err
		}
		if m.before != nil && !slices.Equal(after, m.before) {
			m.e.say("the old queue isn't as it was before it moved: it has %d jobs, before %d, or another order",
				len(after), len(m.before))
		}
		m.before = nil // from here on its worker works
		return m.oldWorks(ctx)
	}
	return m.until(ctx, m.e, "the moved jobs to be done", func() (bool, error) {
		if err := m.decide(ctx); err != nil {
			return false, err
		}
		left := int64(0)
		for _, f := range []daybook.Filter{{State: daybook.Waiting}, {State: daybook.Running},
			{State: daybook.SetAside, Reason: daybook.ReasonEffectOpen}} {
			f.Queue = m.at.Queue
			n, err := m.book.Count(ctx, f)
			if err != nil {
				return false, err
			}
			left += n
		}
		return left == 0, nil
	})
}

// oldWorks has the old worker do what it gets.
func (m *moving) oldWorks(ctx context.Context) error {
	for {
		id, err := m.from.Take(ctx)
		if err != nil || id == "" {
			return err
		}
		if err := m.works(ctx, id); err != nil {
			return err
		}
	}
}

// decide is the person.
func (m *moving) decide(ctx context.Context) error {
	page, err := m.book.Jobs(ctx, daybook.Filter{Queue: m.at.Queue, State: daybook.SetAside,
		Reason: daybook.ReasonEffectOpen})
	if err != nil {
		return err
	}
	for _, j := range page.Items {
		verdict := daybook.Verdict{}
		if acts := m.to["charge"].Acts(j.Origin.ID); len(acts) > 0 {
			verdict.Happened, verdict.Result = true, fmt.Appendf(nil, `{"receipt":%d}`, acts[0].Receipt)
		}
		effect := daybook.HandlerEffect
		if j.Generation > 0 { // it ran here since
			effect = "charge"
		}
		if _, err := m.book.Settle(ctx, j.ID, effect, verdict, person); err != nil && !refused(err) {
			return err
		}
	}
	return nil
}
