package bullmq

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/daybookdev/daybook"
)

// jobOf reads a job: its id in the list, and its hash.
func jobOf(id string, fields map[string]string, state daybook.OldState) daybook.OldJob {
	job := daybook.OldJob{ID: id, State: state}
	if len(fields) == 0 {
		job.Unreadable = "its hash is gone"
		return job
	}
	// The counter of ids starts anew when a queue was obliterated: the time of its
	// making tells two jobs of one id apart.
	body, err := json.Marshal([]string{fields["name"], fields["data"], fields["opts"], fields["timestamp"]})
	if err == nil {
		job.Body = body
	}
	job.Class = fields["name"]
	if json.Valid([]byte(fields["data"])) {
		job.Args = json.RawMessage(fields["data"])
	} else {
		job.Unreadable = "its data isn't JSON"
	}
	if job.Class == "" {
		job.Unreadable = "it has no name"
	}
	job.Key = fields["deid"]
	if job.Key == "" && fields["rjk"] != "" {
		job.Key = "scheduler " + fields["rjk"]
	}
	job.Priority, _ = strconv.Atoi(fields["priority"])
	job.EnqueuedAt = millis(fields["timestamp"])
	job.Attempts, _ = strconv.Atoi(fields["atm"])
	var opts struct {
		Attempts int `json:"attempts"`
	}
	if json.Unmarshal([]byte(fields["opts"]), &opts) == nil {
		job.MaxAttempts = max(1, opts.Attempts)
	}
	job.Error = fields["failedReason"]
	if fields["defa"] != "" && state == daybook.OldWaiting { // a worker would fail it at once
		job.State, job.Error = daybook.OldDead, fields["defa"]
	}
	return job
}

// later tells when a delayed job is due, and retries from jobs whose caller chose
// the time. The score is milliseconds times 4096, and a number that keeps jobs of
// one millisecond in order.
func later(job *daybook.OldJob, score float64) {
	job.DueAt = daybook.Time(math.Floor(score/4096) * 1000)
	if job.Attempts > 0 {
		job.State = daybook.OldRetrying
	}
}

// millis reads milliseconds since 1970.
func millis(text string) daybook.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > int64(daybook.TimeMax)/1000 {
		return 0
	}
	return daybook.Time(n * 1000)
}
