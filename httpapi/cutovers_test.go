package httpapi

import (
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// A cutover is listed, shown with its board, and its jobs are paged; readers from
// whom kinds are hidden don't get hashes.
func TestCutovers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Sensitive = []string{"welcome"} })
	by := daybook.By{Actor: "ada", Reason: "Redis goes away"}
	if _, err := w.book.PlanCutover(t.Context(), daybook.Cutover{Name: "mail", System: "sidekiq",
		Store: "redis://there", OldQueue: "default", Queue: "mail"}, by); err != nil {
		t.Fatal(err)
	}
	old := []daybook.OldJob{{ID: "a1", State: daybook.OldWaiting, Class: "MailJob", Body: []byte("x")},
		{ID: "a2", State: daybook.OldDead, Class: "MailJob", Body: []byte("y")}}
	if _, err := w.book.SeeOld(t.Context(), "mail", old, 0, false); err != nil {
		t.Fatal(err)
	}
	w.want(200, "GET", "/v1/cutovers", "", `"name":"mail"`)
	board := w.want(200, "GET", "/v1/cutovers/mail", "", `"may_claim":"old"`)
	if b := board.json(t)["balance"].(map[string]any); b["seen"] != 2.0 || b["still"] != 2.0 {
		t.Errorf("balance %v", b)
	}
	first := w.want(200, "GET", "/v1/cutovers/mail/items?limit=1", "", `"id":"a1"`)
	if strings.Contains(first.body, old[0].Hash()) {
		t.Errorf("the hash is shown: %s", first.body)
	}
	cursor := first.json(t)["cursor"].(string)
	w.want(200, "GET", "/v1/cutovers/mail/items?limit=1&cursor="+cursor, "", `"id":"a2"`)
	w.want(200, "GET", "/v1/cutovers/mail/items?id=a2", "", `{"items":[{"id":"a2"`)
	w.want(200, "GET", "/v1/cutovers/mail/items?term=moved", "", `{"items":[]}`)
	w.refused(404, "not_found", "GET", "/v1/cutovers/other", "")
	w.refused(422, "invalid", "GET", "/v1/cutovers/mail/items?term=nonsense", "")
}
