package demo

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/webhooks"
)

// jobID is the job of delivery i in made-up evidence.
func jobID(i int) daybook.ID { return daybook.ID{15: byte(i + 1)} }

// goodEvidence is what a run of three deliveries leaves when everything held.
func goodEvidence() evidence {
	e := evidence{Jobs: 3, Workers: 2, Seed: 4, Asked: 4, Fenced: 1, Kills: 7, Gaps: map[string]int{},
		Book: map[daybook.ID]entry{}, Took: 2 * time.Second}
	for _, gap := range gapNames() {
		e.Gaps[gap] = 1
	}
	e.Counts = daybook.Counts{Accepted: 3, Succeeded: 3, Attempts: 5}
	for i := range 3 {
		d := webhooks.Delivery{ID: fmt.Sprintf("delivery-%d", i), Body: fmt.Appendf(nil, `{"n":%d}`, i)}
		body := sha256.Sum256(d.Body)
		e.Deliveries = append(e.Deliveries, d)
		e.Acks = append(e.Acks, []ack{{Delivery: i, ID: jobID(i)}, {Delivery: i, ID: jobID(i), Replayed: true}})
		e.Acts = append(e.Acts, act{Receipt: int64(i + 1), Key: daybook.EffectKey(jobID(i), effect, 0),
			Delivery: d.ID, Asked: 1, Body: body})
		e.Book[jobID(i)] = entry{State: daybook.Succeeded, Key: d.ID, Args: body,
			Result: fmt.Appendf(nil, `{"receipt":%d}`, i+1)}
	}
	return e
}

func TestVerdictOfAGoodRun(t *testing.T) {
	r := judge(goodEvidence())
	if wrong := r.Wrong(); len(wrong) > 0 {
		t.Fatalf("got %v, %v; want nothing wrong", wrong, r.Found)
	}
	want := Result{Jobs: 3, Workers: 2, Seed: 4, Accepted: 3, Replayed: 3, Attempts: 5, Kills: 7, Fenced: 1,
		EffectsAsked: 4, EffectsHappened: 3, JobsPerSecond: 1.5, Gaps: r.Gaps}
	if got := fmt.Sprintf("%+v", r); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	verdict := "held: 3 accepted, 3 happened, nothing lost or doubled, with 8 faults on the way"
	if got, want := r.Verdict(), verdict; got != want {
		t.Errorf("got verdict %q, want %q", got, want)
	}
}

// change edits the book's entry of a job.
func (e *evidence) change(i int, edit func(*entry)) {
	j := e.Book[jobID(i)]
	edit(&j)
	e.Book[jobID(i)] = j
}

// Each of these runs must fail, and say why.
func TestVerdictsThatFail(t *testing.T) {
	tests := []struct {
		name string
		edit func(e *evidence)
		want string // among what is wrong, or found
	}{
		{"an effect is missing", func(e *evidence) { e.Acts = e.Acts[:2] }, "1 missing"},
		{"an effect happened with other content", func(e *evidence) { e.Acts[0].Body[0]++ }, "1 missing"},
		{"an effect is doubled with two keys", func(e *evidence) {
			again := e.Acts[1]
			again.Receipt, again.Key = 4, "another"
			e.Acts = append(e.Acts, again)
		}, "1 doubled"},
		{"an effect is doubled with one key", func(e *evidence) {
			e.Acts = append(e.Acts, e.Acts[0])
		}, "1 doubled"},
		{"a job is lost", func(e *evidence) { delete(e.Book, jobID(2)) }, "1 lost"},
		{"a gap wasn't hit", func(e *evidence) { e.Gaps["grant"] = 0 }, "void: no fault in the gap grant"},
		{"no pause ended in a fenced write", func(e *evidence) {
			delete(e.Gaps, "pause")
		}, "void: no fault in the gap pause"},
		{"nothing was fenced", func(e *evidence) { e.Fenced = 0 }, "void: no write was fenced"},
		{"the checker found something", func(e *evidence) {
			e.Checked = check.Report{Invariants: []check.Result{{Rows: 2,
				Found: []daybook.Violation{{Invariant: "one-outcome", Subject: "job"}}}}}
		}, "2 violations"},
		{"a key became two jobs", func(e *evidence) { e.Acks[0][1].ID = jobID(1) }, "delivery-0 became two jobs"},
		{"a key was new twice", func(e *evidence) { e.Acks[0][1].Replayed = false }, "called new 2 times"},
		{"a delivery was never answered", func(e *evidence) { e.Acks[0] = nil }, "delivery-0 was never answered"},
		{"args were altered", func(e *evidence) {
			e.change(0, func(j *entry) { j.Args[0]++ })
		}, "is not delivery delivery-0 as it was sent"},
		{"a job was set aside", func(e *evidence) {
			e.change(0, func(j *entry) { j.State, j.Reason = daybook.SetAside, daybook.ReasonCrashes })
		}, "ended set_aside crashes"},
		{"the book has another result than the destination gave", func(e *evidence) {
			e.change(0, func(j *entry) { j.Result = []byte(`{"receipt":3}`) })
		}, "the destination receipt 1"},
		{"the key isn't the job's", func(e *evidence) { e.Acts[0].Key = "x" }, "a key that isn't its own"},
		{"the destination did what nobody sent", func(e *evidence) {
			e.Acts = append(e.Acts, act{Delivery: "z"})
		}, "delivery z, which nobody sent"},
		{"conservation is broken", func(e *evidence) { e.Counts.Succeeded-- }, "conservation is broken"},
		{"the book has more jobs than anybody was told of", func(e *evidence) {
			e.Book[jobID(7)] = entry{State: daybook.Succeeded}
		}, "holds 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence()
			tt.edit(&e)
			r := judge(e)
			wrong := r.Wrong()
			if len(wrong) == 0 {
				t.Fatal("got a run that held, want one that failed")
			}
			if all := strings.Join(append(wrong, r.Found...), "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("got %q, want it to say %q", all, tt.want)
			}
			if got := r.Verdict(); !strings.HasPrefix(got, "FAILED: ") {
				t.Errorf("got verdict %q, want FAILED", got)
			}
		})
	}
}

func TestTableAligns(t *testing.T) {
	var b strings.Builder
	e := goodEvidence()
	e.Acks[0] = nil
	r := judge(e)
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "    ") {
			continue
		}
		rows++
		// Two blanks, the name in 17, one blank, the number right in 9, two blanks.
		if len(line) < 31 || strings.TrimSpace(line[20:29]) == "" || line[28] == ' ' || line[29:31] != "  " {
			t.Errorf("got row %q, want its number to end in column 29", line)
		}
	}
	if got, want := rows, 13; got != want {
		t.Errorf("got %d rows, want %d:\n%s", got, want, b.String())
	}
	if got, want := b.String(), "delivery delivery-0 was never answered\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant it to name what was found: %s", got, want)
	}
}
