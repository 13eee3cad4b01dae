package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// opens takes a queue to the run with four open jobs: o1 and o2 lost their worker, and
// a1 and a2 came again with other args. It answers the jobs by their old ids, those
// that came again with a *.
func (q *oldQueue) opens() map[string]string {
	q.t.Helper()
	q.put("queue:mail", "a1", time.Time{})
	q.put("queue:mail", "a2", time.Time{})
	q.carry("gate", "move", "settle")
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		c, err := book.Cutover(ctx, "mail")
		if err != nil {
			return err
		}
		var lost []daybook.Arriving
		for _, id := range []string{"o1", "o2"} {
			lost = append(lost, cutover.Mapping{}.Arrive(c, daybook.OldJob{ID: id, Class: "MailJob", Body: []byte(id),
				Args: []byte(`[1]`), State: daybook.OldOwnerLost}))
		}
		_, err = book.ImportOld(ctx, "mail", lost)
		return err
	}))
	q.ok("cutover", "run", "mail")
	for _, id := range []string{"a1", "a2"} {
		again := strings.Replace(sidekiqMessage(id), `"args":["`, `"args":["again `, 1)
		q.must(q.redis.LPush(q.t.Context(), "queue:mail", again).Err())
	}
	q.ok("cutover", "watch", "mail")
	ids := map[string]string{}
	q.must(q.atBook(func(ctx context.Context, book *daybook.Book) error {
		page, err := book.Jobs(ctx, daybook.Filter{Queue: "mail"})
		for _, j := range page.Items {
			ids[j.Origin.ID+strings.Repeat("*", j.Origin.Occurrence)] = j.ID.String()
		}
		return err
	}))
	return ids
}

// wantOpen checks what is said of open jobs: how many they are, whether somebody decided
// about each, and what it is now, by its old id.
func wantOpen(t *testing.T, got []cutover.OpenJob, n int, want map[string]string) {
	t.Helper()
	said := map[string]string{}
	for _, o := range got {
		said[o.ID] = fmt.Sprint(o.Decided, " ", o.Now())
	}
	if len(got) != n || fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("got %d: %v, want %d: %v", len(got), said, n, want)
	}
}

// What a person decided isn't asked about any more, and each says what it is now.
func TestCutoverDecided(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	ids := q.opens()
	var b cutover.Balance
	q.json(statusDone, &b, "cutover", "reconcile", "mail")
	wantOpen(t, b.Opens, 4, map[string]string{"o1": "false set aside", "o2": "false set aside",
		"a1": "false waiting, held by cutover:mail:asked", "a2": "false waiting, held by cutover:mail:asked"})
	if b.Open != 4 || b.Undecided != 4 {
		t.Errorf("got %+v", b)
	}
	q.ok("effect", "settle", ids["o1"], "handler", "--happened", "--reason", "it went out")
	q.ok("job", "unhold", ids["a1*"], "--reason", "another mail")
	b = cutover.Balance{}
	q.json(statusDone, &b, "cutover", "reconcile", "mail")
	wantOpen(t, b.Opens, 4, map[string]string{"o1": "true succeeded", "o2": "false set aside", "a1": "true waiting",
		"a2": "false waiting, held by cutover:mail:asked"})
	if b.Open != 4 || b.Undecided != 2 || b.Opens[0].Decided || b.Opens[1].Decided || !b.Opens[2].Decided {
		t.Errorf("got %+v, want the open ones first", b)
	}
	status := q.ok("cutover", "status", "mail")
	for _, want := range []string{"4 (2 are decided; about 2 a person decides)", "decided  ",
		"→ job " + ids["o1"] + ", succeeded",
		"→ job " + ids["a2*"] + ", waiting, held by cutover:mail:asked"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	out := q.ok("cutover", "retire", "mail", "--quiet", "0s")
	if !strings.Contains(out, "about 2 a person decides") || !strings.Contains(out, ids["o2"]) {
		t.Errorf("retire says nothing of what is open:\n%s", out)
	}
	s := q.want(statusRefused, "cutover", "rollback", "mail", "-y")
	if !strings.Contains(s.err, "is in phase retired, too late for rollback; it is over\n") {
		t.Errorf("got %+v", s)
	}
}

// A rollback names the open jobs that it leaves here, also when it is run again.
func TestCutoverRollbackTells(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	ids := q.opens()
	q.ok("job", "cancel", ids["a1*"], "--reason", "not sent twice")
	for range 2 {
		s := q.ok("cutover", "rollback", "mail", "-y", "-o", "json")
		var r cutover.Returned
		q.must(json.Unmarshal([]byte(s), &r))
		wantOpen(t, r.Opens, 4, map[string]string{"o1": "false set aside", "o2": "false set aside", "a1": "true cancelled",
			"a2": "false waiting, held by cutover:mail:asked"})
		if r.Open != 4 || r.Undecided != 3 {
			t.Errorf("got %+v", r)
		}
	}
	out := q.ok("cutover", "rollback", "mail", "-y")
	for _, want := range []string{"open, stays here", ids["o2"], "daybook effect settle"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A rollback names the old workers that an open gate alone doesn't bring back.
func TestCutoverRollbackNamesQuiet(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carry("gate")
	ctx := t.Context()
	for name, quiet := range map[string]string{"vm:9:quiet": "true", "vm:9:loud": "false"} {
		q.must(q.redis.SAdd(ctx, "processes", name).Err())
		q.must(q.redis.HSet(ctx, name, "info", fmt.Sprintf(`{"queues":["mail"],"identity":%q}`, name), "busy", 0, "quiet",
			quiet, "beat", fmt.Sprint(time.Now().Unix())).Err())
	}
	out := q.ok("cutover", "rollback", "mail", "-y")
	if !strings.Contains(out, "vm:9:quiet") || !strings.Contains(out, "Restart each") ||
		strings.Contains(out, "vm:9:loud") {
		t.Errorf("got\n%s", out)
	}
}
