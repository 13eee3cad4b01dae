package demo

import (
	"reflect"
	"slices"
	"testing"

	"github.com/daybookdev/daybook"
)

func TestPlanIsDecidedByTheSeed(t *testing.T) {
	one, again, other := newPlan(600, 4, 1), newPlan(600, 4, 1), newPlan(600, 4, 2)
	if !reflect.DeepEqual(one, again) {
		t.Error("the same seed gave two plans")
	}
	if reflect.DeepEqual(one.Faults, other.Faults) || reflect.DeepEqual(one.Chunks, other.Chunks) {
		t.Error("two seeds gave one plan")
	}
}

func TestPlanNamesEveryGap(t *testing.T) {
	want := []string{daybook.GapAccept, daybook.GapPublish, daybook.GapClaim, daybook.GapGrant, daybook.GapStart,
		daybook.GapComplete, daybook.GapReply, daybook.GapPause}
	for _, jobs := range []int{JobsMin, 600, 5000, JobsMax} {
		hits := map[string]int{}
		for _, f := range newPlan(jobs, 4, 3).Faults {
			hits[f.Gap]++
			if f.Passage < 1 || f.After < 0 || f.After > jobs {
				t.Errorf("%d jobs: got fault %+v, want one that can be met", jobs, f)
			}
		}
		for _, gap := range want {
			if got, most := hits[gap], faultsMost; got < 1 || got > most {
				t.Errorf("%d jobs: got %d faults in the gap %s, want 1…%d", jobs, got, gap, most)
			}
		}
		if got := len(hits); got != len(want) {
			t.Errorf("%d jobs: got faults in %d gaps, want %d: %v", jobs, got, len(want), hits)
		}
	}
}

// GitHub redelivers: each delivery comes twice, to two receivers.
func TestPlanSendsEveryDeliveryTwice(t *testing.T) {
	for _, jobs := range []int{JobsMin, 77, 5000} {
		by := make([][]int, jobs)
		for i, chunk := range newPlan(jobs, 2, 9).Chunks {
			if len(chunk) == 0 {
				t.Errorf("%d jobs: chunk %d is empty", jobs, i)
			}
			for _, s := range chunk {
				by[s.Delivery] = append(by[s.Delivery], s.Enqueuer)
			}
		}
		for delivery, got := range by {
			if len(got) != 2 || got[0] == got[1] || slices.Max(got) >= enqueuers || slices.Min(got) < 0 {
				t.Errorf("%d jobs: delivery %d goes to enqueuers %v, want two", jobs, delivery, got)
			}
		}
	}
}

func TestDerivedDeliveries(t *testing.T) {
	all := deliveries(1000)
	seen := map[string]bool{}
	for i, d := range all {
		if _, err := daybook.ParseID(d.ID); err != nil || seen[d.ID] {
			t.Fatalf("delivery %d: got id %s (%v), want a UUID of its own", i, d.ID, err)
		}
		seen[d.ID] = true
	}
	if got, want := all[329+5].ID, derivedID(all[5].ID, 1); got != want {
		t.Errorf("got id %s, want %s, the same in every process", got, want)
	}
	if got, want := string(all[329+5].Body), string(all[5].Body); got != want {
		t.Error("a derived delivery has another body than its original")
	}
	if got := deliveries(3)[2].ID; got != all[2].ID {
		t.Errorf("got id %s, want %s, whatever the number of deliveries", got, all[2].ID)
	}
}
