package main

import (
	"fmt"
	"strings"

	"github.com/daybookdev/daybook/cutover"
)

// openAdvice says what a person can do about an open job.
const openAdvice = "daybook job why JOB says what is known of one. Settle an open effect (daybook effect settle), " +
	"let a held job run here (daybook job unhold), or call it off (daybook job cancel)."

// openSaid tells those that wait for a person from those that one has decided.
func openSaid(open, undecided int64) string {
	switch undecided {
	case open:
		return fmt.Sprintf("%d (a person decides)", open)
	case 0:
		return fmt.Sprintf("%d (all are decided)", open)
	}
	return fmt.Sprintf("%d (%d are decided; about %d a person decides)", open, open-undecided, undecided)
}

// openRows name open jobs, and what each is now.
func openRows(t *table, opens []cutover.OpenJob) {
	for _, o := range opens {
		label := "open"
		if o.Decided {
			label = "decided"
		}
		said := fmt.Sprintf("%s → job %s, %s", cut(o.ID, cellMax), o.Job, o.Now())
		if o.Note != "" {
			said += "; " + o.Note
		}
		t.row(label, said)
	}
}

// staysRows tell what a rollback leaves to people: jobs here, and workers there.
func staysRows(t *table, r cutover.Returned) {
	if r.Open > 0 {
		t.row("open, stays here", openSaid(r.Open, r.Undecided))
		openRows(t, r.Opens)
		paragraph(t, "", "The old system doesn't get those back, since it may have done them, or has another job "+
			"under the id. What waits here, workers of the queue do here. "+openAdvice)
	}
	if len(r.Quiet) > 0 {
		paragraph(t, "quiet", strings.Join(r.Quiet, " "))
		paragraph(t, "", "Those old workers take no job yet. Restart each that doesn't begin by itself within a minute: "+
			"a process of Sidekiq that was told to be quiet never does.")
	}
}
