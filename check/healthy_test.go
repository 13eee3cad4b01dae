package check_test

import (
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// Each of these leads through a corner of the lifecycle in which an invariant
// that is a little too strict would fire.
var healthyStories = map[string]func(s *teller){
	"commits were lost in the middle of a run of releases": func(s *teller) {
		s.enqueue(daybook.Request{})
		for range 6 {
			s.release(time.Second)
		}
		s.restored()
		for range 6 {
			s.release(time.Second)
		}
		s.fail()
		s.succeed()
	},
	"commits were lost between two failures, and again before it runs": func(s *teller) {
		s.enqueue(daybook.Request{})
		s.fail()
		s.restored()
		s.fail()
		s.restored()
		s.claim()
	},
	"a job snoozes for a month, is revived and snoozes on": func(s *teller) {
		id := s.enqueue(daybook.Request{})
		for range 4 {
			s.release(10 * 24 * time.Hour)
		}
		s.stands(id, daybook.SetAside)
		s.revive(id)
		s.release(time.Hour)
		s.release(0)
	},
	"a slow job is released at once after a month": func(s *teller) {
		s.enqueue(daybook.Request{})
		s.release(31 * 24 * time.Hour)
		s.release(0)
	},
	"asked to cancel, lost, revived and done": func(s *teller) {
		id := s.enqueue(daybook.Request{})
		s.claim()
		s.cancel(id, false)
		s.lapse()
		s.stands(id, daybook.Cancelled)
		s.revive(id)
		s.succeed()
	},
	"asked to cancel, and succeeded first": func(s *teller) {
		id, owner := func() (daybook.ID, daybook.Owner) { s.enqueue(daybook.Request{}); return s.claim() }()
		s.cancel(id, false)
		_, err := s.book.Complete(s.Context(), id, owner, nil)
		s.ok(err)
	},
	"cancelled by force, settled, revived, cancelled and revived again": func(s *teller) {
		id := s.enqueue(daybook.Request{OnLost: daybook.LostSetAside})
		s.claim()
		s.cancel(id, true)
		s.settle(id, false)
		s.revive(id)
		s.cancel(id, false)
		s.revive(id)
		s.fail()
		s.succeed()
	},
	"lost on its only attempt, settled, and waits with its crashes at the limit": func(s *teller) {
		id := s.enqueue(daybook.Request{OnLost: daybook.LostSetAside, MaxFailures: 1})
		s.lose()
		s.stands(id, daybook.SetAside)
		s.settle(id, false)
		s.stands(id, daybook.Waiting)
	},
	"lost again and again, settled each time, and happened in the end": func(s *teller) {
		id := s.enqueue(daybook.Request{OnLost: daybook.LostSetAside, MaxFailures: 2})
		for range 3 {
			s.lose()
			s.settle(id, false)
		}
		s.lose()
		s.settle(id, true)
		s.stands(id, daybook.Succeeded)
	},
	"crashes until it is a suspect, and until it is set aside": func(s *teller) {
		id := s.enqueue(daybook.Request{})
		for range 3 {
			s.lose()
		}
		s.stands(id, daybook.Waiting)
		s.enqueue(daybook.Request{})
		s.lose()
	},
	"expired, revived, and runs past the time it once had": func(s *teller) {
		id := s.enqueue(daybook.Request{ExpiresAt: s.now().Add(time.Hour)})
		s.fail()
		s.advance(2 * time.Hour)
		s.expire()
		s.stands(id, daybook.Expired)
		s.revive(id)
		s.succeed()
	},
	"expired with an open effect, settled, and expired for good": func(s *teller) {
		id := s.enqueue(daybook.Request{OnLost: daybook.LostSetAside, ExpiresAt: s.now().Add(time.Hour)})
		s.lose()
		s.settle(id, false)
		s.advance(2 * time.Hour)
		s.expire()
		s.stands(id, daybook.Expired)
	},
	"past its run limit, and no pass yet": func(s *teller) {
		s.enqueue(daybook.Request{Timeout: time.Minute})
		s.claim()
		s.advance(24 * time.Hour)
	},
	"past its run limit, and a pass": func(s *teller) {
		id := s.enqueue(daybook.Request{Timeout: time.Minute})
		s.claim()
		s.advance(24 * time.Hour)
		_, err := s.book.TakePass(s.Context(), time.Second)
		s.ok(err)
		_, err = s.book.RevokeOverdue(s.Context())
		s.ok(err)
		s.stands(id, daybook.Waiting)
	},
	"a session that ended gives back, and its jobs run on": func(s *teller) {
		s.enqueue(daybook.Request{})
		_, owner := s.claim()
		s.ok(s.book.EndSession(s.Context(), owner.Session))
		s.succeed()
	},
	"paused while it runs, and resumed": func(s *teller) {
		s.enqueue(daybook.Request{})
		id, owner := s.claim()
		s.advance(time.Second)
		s.ok(s.book.Pause(s.Context(), "q", ada))
		s.advance(time.Minute)
		_, err := s.book.Complete(s.Context(), id, owner, nil)
		s.ok(err)
		s.ok(s.book.Resume(s.Context(), "q", ada))
		s.enqueue(daybook.Request{})
		s.succeed()
		s.advance(time.Second)
		s.ok(s.book.Pause(s.Context(), "q", ada))
	},
	"pruned with its key, which answers on, and its row's number given again": func(s *teller) {
		s.enqueue(daybook.Request{Key: "a"})
		s.succeed()
		s.advance(8 * 24 * time.Hour)
		n, err := s.book.Prune(s.Context(), daybook.PruneOptions{})
		s.ok(err)
		if n != 1 {
			s.Fatalf("pruned %d, want 1", n)
		}
		s.enqueue(daybook.Request{Key: "a"})
		s.enqueue(daybook.Request{Key: "b"})
		s.fail()
		_, err = s.book.Sweep(s.Context())
		s.ok(err)
	},
	"moved in held, let go, and done; and one moved out": func(s *teller) {
		origin := daybook.Origin{System: "old", ID: "1"}
		id := s.arrive(daybook.Arrival{Origin: origin, HeldBy: "cutover"})
		s.advance(time.Hour)
		_, err := s.book.Unhold(s.Context(), id, ada)
		s.ok(err)
		s.release(time.Minute)
		s.succeed()
		origin.ID = "2"
		id = s.arrive(daybook.Arrival{Origin: origin, HeldBy: "cutover"})
		s.ok(s.book.Store().Write(s.Context(), "moving out", func(tx daybook.Tx) error {
			jobs, err := tx.Lock(s.Context(), []daybook.ID{id})
			if err != nil {
				return err
			}
			c, err := jobs[0].MoveOut(ada, tx.Now())
			if err != nil {
				return err
			}
			return tx.Save(s.Context(), []daybook.Change{c})
		}))
		s.stands(id, daybook.Moved)
	},
	"moved in with an owner that died": func(s *teller) {
		s.arrive(daybook.Arrival{Origin: daybook.Origin{System: "old", ID: "1"}, Aside: daybook.ReasonLost,
			OwnerDied: true})
	},
	"args at the limit, with all that JSON allows": func(s *teller) {
		args := append([]byte(" \t\r\n{\"\": [1e400, -0, \"\\ud83d\\ude00\\/\\b\u007f\u2028\"], \"a\":\""),
			make([]byte, daybook.ArgsMax-100)...)
		for i, c := range args {
			if c == 0 {
				args[i] = 'x'
			}
		}
		s.enqueue(daybook.Request{Key: "large", Args: append(args, "\"} \n"...)})
	},
}

func TestRunFindsNothingInAHealthyBook(t *testing.T) {
	for name, tell := range healthyStories {
		t.Run(name, func(t *testing.T) {
			s := newTeller(t)
			tell(s)
			for _, o := range []check.Options{{Full: true}, {}} {
				if r := run(t, s.book, o); r.Violations != 0 {
					for _, i := range r.Invariants {
						t.Errorf("full %v: %s: %+v", o.Full, i.Name, i.Found)
					}
				}
			}
		})
	}
}
