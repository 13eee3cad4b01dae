package client_test

import (
	"testing"

	"github.com/daybookdev/daybook"
)

// Decisions are recorded under the token's name, with their reason.
func TestDecisions(t *testing.T) {
	s := newStand(t)
	ctx := t.Context()
	by := daybook.By{Actor: "somebody else", Reason: "called off"}
	one, err := s.Enqueue(ctx, mail)
	s.ok(err)
	two, err := s.Enqueue(ctx, mail)
	s.ok(err)
	j, err := s.Preview(ctx, one.ID, daybook.Bulk{Move: daybook.MoveCancel})
	if err != nil || j.State != daybook.Cancelled {
		t.Errorf("preview: got %s, %v", j.State, err)
	}
	j, err = s.Cancel(ctx, one.ID, by, false)
	s.ok(err)
	if j.State != daybook.Cancelled {
		t.Errorf("got %s", j.State)
	}
	events, err := s.Timeline(ctx, one.ID)
	s.ok(err)
	if e := events[len(events)-1]; e.Actor != "ada" || e.Reason != by.Reason {
		t.Errorf("got %+v, want the token's name and the reason", e)
	}
	_, err = s.Revive(ctx, two.ID, by)
	s.code(err, daybook.CodeRefused)
	_, err = s.Revive(ctx, one.ID, daybook.By{})
	s.code(err, daybook.CodeInvalid) // no reason
	_, err = s.Unhold(ctx, one.ID, by)
	s.code(err, daybook.CodeRefused)
	f := daybook.Filter{Queue: "mail", State: daybook.Cancelled}
	if r, err := s.Review(ctx, f); err != nil || r.Matched != 1 || r.Safe != 1 {
		t.Errorf("got %+v, %v, want one safe", r, err)
	}
	seen := int64(0)
	answer, err := s.Decide(ctx, daybook.Bulk{Move: daybook.MoveRevive, Filter: f, By: by,
		Seen: func(n int64) { seen = n }})
	s.ok(err)
	if answer.Done != 1 || seen != 1 {
		t.Errorf("got %+v, seen %d, want one revived", answer, seen)
	}
	if n, err := s.Count(ctx, daybook.Filter{Queue: "mail", State: daybook.Waiting, Held: true}); n != 0 || err != nil {
		t.Errorf("got %d held, %v", n, err)
	}
	s.ok(s.Pause(ctx, "mail", by))
	queues, err := s.Queues(ctx, false)
	s.ok(err)
	if len(queues) != 1 || !queues[0].Paused || queues[0].PausedBy != "ada" {
		t.Errorf("got %+v, want it paused by ada", queues)
	}
	s.ok(s.Resume(ctx, "mail", by))
	session, err := s.StartSession(ctx, daybook.SessionRequest{Worker: "host 1/a"})
	s.ok(err)
	if q, err := s.Quiet(ctx, "host 1/a", by); err != nil || q.Sessions != 1 || q.Actor != "ada" {
		t.Errorf("got %+v, %v, want one asked by ada", q, err)
	}
	at, sessions, err := s.SessionsAt(ctx, daybook.SessionFilter{Worker: "host 1/a"})
	s.ok(err)
	if at == 0 || len(sessions) != 1 || sessions[0].ID != session.ID || !sessions[0].Quiet {
		t.Errorf("got %+v at %s", sessions, at)
	}
	s.ok(s.QuietSession(ctx, session.ID))
	if _, backlog, err := s.Backlog(ctx); err != nil || len(backlog) != 1 || backlog[0].Eligible != 2 {
		t.Errorf("got %+v, %v", backlog, err)
	}
	if inv, err := s.Inventory(ctx); err != nil || len(inv.Queues) != 1 || inv.Sentence == "" {
		t.Errorf("got %+v, %v", inv, err)
	}
	page, err := s.Jobs(ctx, daybook.Filter{Queue: "mail", Limit: 1})
	s.ok(err)
	if next, err := s.Jobs(ctx, daybook.Filter{Queue: "mail", Limit: 1, Cursor: page.Cursor}); err != nil ||
		len(next.Items) != 1 || next.Items[0].ID == page.Items[0].ID {
		t.Errorf("got %+v, %v, want the next job", next, err)
	}
	if why, err := s.Why(ctx, one.ID); err != nil || why.Sentence == "" {
		t.Errorf("got %+v, %v", why, err)
	}
}
