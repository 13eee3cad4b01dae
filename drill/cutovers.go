package drill

import (
	"cmp"
	"context"
	"sync"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// moveFault is a hand-over of a cutover in which its mover dies, or is stopped
// until others have done all of it.
type moveFault struct {
	name, what string
	verb       string // the step that the mover takes
	gap        string // the engine's name of the place
	of         string // the job that is in between there
}

// back reports whether the fault is on the way back.
func (f moveFault) back() bool { return f.verb == stepRollback }

var moveFaults = []moveFault{
	{"cutover-closed", "the old gate closed / noted here", stepGate, cutover.GapClosed, ""},
	{"cutover-taken", "a waiting job in the held list / recorded here", stepMove, cutover.GapTaken, firstWaiting},
	{"cutover-imported", "a waiting job recorded here / dropped there", stepMove, cutover.GapImported, firstWaiting},
	{"cutover-dropped", "a waiting job dropped there / the next one taken", stepMove, cutover.GapDropped, firstWaiting},
	{"cutover-judged", "who lost which job recorded / the first of those taken", stepSettle, cutover.GapJudged, lostJob},
	{"cutover-lost-taken", "a lost worker's job in the held list / recorded here", stepSettle, cutover.GapTaken, lostJob},
	{"cutover-lost-imported", "a lost worker's job recorded here / dropped there", stepSettle, cutover.GapImported,
		lostJob},
	{"cutover-lost-dropped", "a lost worker's job dropped there / settled", stepSettle, cutover.GapDropped, lostJob},
	{"cutover-opened", "the book may claim / its held jobs let go", stepRun, cutover.GapOpened, firstWaiting},
	{"cutover-late-taken", "a late job in the held list / recognised or recorded", stepWatch, cutover.GapTaken, lateJob},
	{"cutover-late-imported", "a late job recognised or recorded / dropped there", stepWatch, cutover.GapImported,
		lateJob},
	{"cutover-late-dropped", "a late job dropped there / counted", stepWatch, cutover.GapDropped, lateJob},
	{"cutover-held-returned", "one job of a dead mover's held list put back / the next one", stepRollback,
		cutover.GapReturned, heldJob},
	{"cutover-marked", "jobs marked as going back / put back there", stepRollback, cutover.GapMarked, lastWaiting},
	{"cutover-returned", "jobs put back there / noted here", stepRollback, cutover.GapReturned, lastWaiting},
	{"cutover-reopened", "the old gate opened / noted here", stepRollback, cutover.GapReopened, ""},
}

// cutoverScenes are a mover killed, and one stopped, in each hand-over.
func cutoverScenes() (all []scene) {
	for _, f := range moveFaults {
		for _, how := range faultKinds {
			all = append(all, scene{name: f.name, how: how, what: "between " + f.what, needs: wantsOld, run: moverFault(f)})
		}
	}
	return all
}

func wantsOld(s *stand) string {
	if s.site.Old == nil {
		return cmp.Or(s.site.NoOld, "there is no old system to move")
	}
	return ""
}

// oldStore is the Redis in which a drill has its old queues, started when the
// first is wanted.
type oldStore struct {
	mu   sync.Mutex
	url  string
	stop func() error
}

// old is where the old queues are.
func (s *stand) old() (string, error) {
	s.olds.mu.Lock()
	defer s.olds.mu.Unlock()
	if s.olds.url == "" {
		url, stop, err := s.site.Old()
		if err != nil {
			return "", daybook.Fail(daybook.CodeInternal, "the drill's own Redis doesn't start: %.200s", err)
		}
		s.olds.url, s.olds.stop = url, stop
	}
	return s.olds.url, nil
}

func (o *oldStore) end() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stop == nil {
		return nil
	}
	stop := o.stop
	o.stop, o.url = nil, ""
	return stop()
}

// moverFault makes a fault of a mover on a queue of its own.
func moverFault(f moveFault) func(context.Context, *lane, *evidence) error {
	return func(ctx context.Context, l *lane, e *evidence) error {
		list, err := l.book.Cutovers(ctx)
		if err != nil {
			return err
		}
		if len(list) >= daybook.CutoversMax-2*l.Lanes { // others are made meanwhile
			e.left = "the drill's book has as many cutovers as a book keeps"
			return nil
		}
		url, err := l.old()
		if err != nil {
			return err
		}
		m, err := l.moving(f, e, url)
		if err != nil {
			return err
		}
		defer m.end()
		return m.make(ctx)
	}
}
