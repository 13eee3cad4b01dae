package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestSQLViews: the views show what Go shows, in every state, and find one job
// by its id without walking over a table.
func TestSQLViews(t *testing.T) {
	b := newSQLBook(t)
	b.oneOfEach()
	rows, err := b.conn.Query(t.Context(), b.in("SELECT id::text, row_to_json(j)::text FROM daybook.jobs j"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for rows.Next() {
		var id, row string
		if err := rows.Scan(&id, &row); err != nil {
			t.Fatal(err)
		}
		shown[id] = row
	}
	states := map[daybook.State]bool{}
	for id, row := range shown {
		states[b.job(id).State] = true
		b.sameView(b.job(id), row)
	}
	if len(states) != 5 {
		t.Errorf("there are jobs in %v", states)
	}
	b.must(b.conn, "SET enable_seqscan = off")
	for _, query := range []string{"jobs WHERE id", "attempts WHERE job", "effects WHERE job"} {
		query = "SELECT * FROM daybook." + query + " = '" + daybook.NewID().String() + "'"
		plan := b.value(b.conn, "EXPLAIN (FORMAT JSON) "+query)
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s walks over a table: %s", query, plan)
		}
	}
	want := `{"queue":"q","kind":"k","paused":false,"eligible":1,"later":1,"held":0,"running":1,"set_aside":2,` +
		`"set_aside_reasons":{ "failures" : 1, "permanent" : 1 },"oldest_eligible_at":"2027-03-04T05:06:07.891011+00:00",` +
		`"open_effects":0,"doubled_effects":0}`
	if got := b.value(b.conn, "SELECT row_to_json(l)::text FROM daybook.backlog l"); got != want {
		t.Errorf("backlog\ngot  %s\nwant %s", got, want)
	}
	if err := b.book.Pause(t.Context(), "q", daybook.By{Actor: "ada", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	paused := "SELECT concat_ws(' ', paused, eligible, oldest_eligible_at) FROM daybook.backlog"
	if got := b.value(b.conn, paused); got != "t 1" {
		t.Errorf("the paused queue shows %s", got)
	}
	want = "cancelled w1 cancelled by force; failed w1 boom; failed w1 boom; failed w1 boom; succeeded w1"
	if got := b.value(b.conn, `SELECT string_agg(concat_ws(' ', outcome, worker, why, error), '; ' ORDER BY outcome, job)
		FROM daybook.attempts`); got != want {
		t.Errorf("attempts: %s, want %s", got, want)
	}
}

// oneOfEach makes a job in each state that SQL leads to, and one with a later
// attempt.
func (b *sqlBook) oneOfEach() {
	b.Helper()
	b.said(b.conn, b.claimed(), "complete", `'{"a": 1.50}'`)
	b.said(b.conn, b.claimed(), "fail", "'boom'", "permanent => true")
	b.said(b.conn, b.claimed(), "fail", "'boom'", "retry_in => '1 h'")
	c := b.claimed()
	id, _ := daybook.ParseID(c.id)
	if _, err := b.book.Cancel(b.Context(), id, daybook.By{Actor: "ada"}, true); err != nil {
		b.Fatal(err)
	}
	b.enqueue(b.conn, `'q', 'k', '{}', key => 'a key', priority => 9, max_failures => 1, on_lost => 'set_aside',
		timeout => '1 h', expires_at => '2030-01-01'`)
	claims, err := b.claim(b.conn, "", "", 1, "q")
	if err != nil || len(claims) != 1 {
		b.Fatalf("%v, %v", claims, err)
	}
	b.said(b.conn, claims[0], "fail", "'boom'")
	b.claimed()
	b.enqueue(b.conn, "'q', 'k', '[1]'")
}

// sameView fails unless the view's row, as JSON, says what the job does.
func (b *sqlBook) sameView(j daybook.Job, row string) {
	b.Helper()
	var got struct {
		Queue, Kind, State, Reason, Session, Worker, Key string
		OnLost                                           string `json:"on_lost"`
		LastError                                        string `json:"last_error"`
		Priority, Failures, Crashes                      int
		MaxFailures                                      int `json:"max_failures"`
		Generation                                       int64
		Args, Result                                     json.RawMessage
		RunAt                                            time.Time `json:"run_at"`
		ExpiresAt                                        time.Time `json:"expires_at"`
		EnqueuedAt                                       time.Time `json:"enqueued_at"`
		ClaimedAt                                        time.Time `json:"claimed_at"`
		EndedAt                                          time.Time `json:"ended_at"`
		LeaseUntil                                       time.Time `json:"lease_until"`
	}
	if err := json.Unmarshal([]byte(row), &got); err != nil {
		b.Fatal(err)
	}
	lastError := ""
	if j.LastError != nil {
		lastError = j.LastError.Text
	}
	session := ""
	if !j.Session.IsZero() {
		session = j.Session.String()
	}
	result := strings.TrimPrefix(string(got.Result), "null")
	for _, f := range [][2]any{{got.Queue, j.Queue}, {got.Kind, j.Kind}, {got.State, string(j.State)},
		{got.Reason, string(j.Reason)}, {got.Session, session}, {got.Worker, j.Worker}, {got.Key, j.Key},
		{got.OnLost, string(j.OnLost)}, {got.LastError, lastError},
		{got.Priority, j.Priority}, {got.Failures, j.Failures}, {got.Crashes, j.Crashes}, {got.MaxFailures, j.MaxFailures},
		{got.Generation, j.Generation}, {string(got.Args), string(j.Args)}, {result, string(j.Result)},
		{daybook.At(got.RunAt), j.RunAt}, {daybook.At(got.ExpiresAt), j.ExpiresAt},
		{daybook.At(got.EnqueuedAt), j.EnqueuedAt}, {daybook.At(got.ClaimedAt), j.ClaimedAt},
		{daybook.At(got.EndedAt), j.EndedAt}, {daybook.At(got.LeaseUntil), j.LeaseUntil}} {
		if f[0] != f[1] {
			b.Errorf("a %s job: the view has %v, Go %v", j.State, f[0], f[1])
		}
	}
}
