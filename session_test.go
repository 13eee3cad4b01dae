package daybook

import (
	"errors"
	"testing"
	"time"
)

func TestRenew(t *testing.T) {
	marked := with2(testLive, func(s *Session) {
		s.MarkedAt, s.ExpiresAt = testNow.Add(-time.Second),
			testNow.Add(-time.Minute)
	})
	for _, tt := range []struct {
		name     string
		listed   bool
		renewals int64
	}{{"listing its claims", true, 8}, {"without a list", false, 7}} {
		got, err := marked.Renew(testNow, tt.listed)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := with2(marked, func(s *Session) {
			s.RenewedAt, s.ExpiresAt, s.MarkedAt, s.Renewals = testNow, testNow.Add(30*time.Second), 0, tt.renewals
		})
		if asJSON(t, got) != asJSON(t, want) || got.MarkedAt != 0 || got.Renewals != tt.renewals {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, want)
		}
	}
	ended := testLive.End(testNow)
	if got, err := ended.Renew(testNow.Add(time.Second), true); !errors.Is(err, ErrFenced) || got.Renewals != 7 {
		t.Errorf("an ended session renewed: %+v, %v", got, err)
	}
	if got := ended.End(testNow.Add(time.Hour)); got.EndedAt != testNow {
		t.Errorf("ending twice moved the end to %s", got.EndedAt)
	}
}

func with2(s Session, change func(*Session)) Session {
	change(&s)
	return s
}

// TestExpiry: what a pass does with a session, by how far it trusts the clock.
func TestExpiry(t *testing.T) {
	const kept, marked, ended = "kept", "marked", "ended"
	for _, tt := range []struct {
		name                 string
		lease                time.Duration
		expires, mark        time.Duration // before now; no mark when 0
		unsure, sure, atOnce string
	}{
		{"lease runs", 30 * time.Second, -time.Microsecond, 0, kept, kept, kept},
		{"lease runs, old mark", 30 * time.Second, -time.Microsecond, time.Hour, kept, kept, kept},
		{"lease ends now", 30 * time.Second, 0, 0, marked, ended, ended},
		{"past, unmarked", 30 * time.Second, time.Hour, 0, marked, ended, ended},
		{"past, fresh mark", 30 * time.Second, time.Hour, 30*time.Second - time.Microsecond, kept, kept, ended},
		{"past, mark of a lease's age", 30 * time.Second, time.Hour, 30 * time.Second, ended, ended, ended},
		{"short lease, mark of its age", 2 * time.Second, time.Hour, 2 * time.Second, ended, ended, ended},
		{"short lease, fresh mark", 2 * time.Second, time.Hour, 2*time.Second - time.Microsecond, kept, kept,
			ended},
		{"day-long lease, mark of 30 s", 24 * time.Hour, time.Hour, MarkMax, ended, ended, ended},
	} {
		s := with2(testLive, func(s *Session) {
			s.Lease, s.ExpiresAt = tt.lease, testNow.Add(-tt.expires)
			if tt.mark != 0 {
				s.MarkedAt = testNow.Add(-tt.mark)
			}
		})
		for c, want := range map[Certainty]string{Unsure: tt.unsure, Sure: tt.sure, AtOnce: tt.atOnce} {
			got, changed := s.Expiry(testNow, c)
			did := kept
			switch {
			case !got.Live() && got.EndedAt == testNow:
				did = ended
			case s.MarkedAt == 0 && got.MarkedAt == testNow:
				did = marked
			}
			if did != want || changed != (want != kept) {
				t.Errorf("%s, certainty %d: %s (changed %v), want %s", tt.name, c, did, changed, want)
			}
		}
	}
	gone := with2(testLive.End(testNow), func(s *Session) { s.ExpiresAt = testNow.Add(-time.Hour) })
	if got, changed := gone.Expiry(testNow.Add(time.Hour), AtOnce); changed || got.EndedAt != testNow {
		t.Errorf("a session ended twice, the second time at %s", got.EndedAt)
	}
}

// TestMarkedSessionIsSaved: a database that was away for a minute costs nobody
// its work, when the renewal comes in time.
func TestMarkedSessionIsSaved(t *testing.T) {
	s := with2(testLive, func(s *Session) { s.ExpiresAt = testNow.Add(-time.Minute) })
	s, _ = s.Expiry(testNow, Unsure)
	if s.MarkedAt != testNow || !s.Live() {
		t.Fatalf("an unsure pass made %+v of it", s)
	}
	s, err := s.Renew(testNow.Add(29*time.Second), true)
	if err != nil {
		t.Fatal(err)
	}
	if got, changed := s.Expiry(testNow.Add(40*time.Second), Sure); changed {
		t.Errorf("the renewed session is %+v", got)
	}
}

func TestHalfSpent(t *testing.T) {
	for left, want := range map[time.Duration]bool{
		30 * time.Second: false, 15 * time.Second: false, 15*time.Second - time.Microsecond: true, -time.Hour: true,
	} {
		s := with2(testLive, func(s *Session) { s.ExpiresAt = testNow.Add(left) })
		if got := s.HalfSpent(testNow); got != want {
			t.Errorf("%s left of %s: got %v, want %v", left, s.Lease, got, want)
		}
	}
}

// TestUnlisted: a claim is taken for never received when two renewals that
// list claims passed it over, not one.
func TestUnlisted(t *testing.T) {
	for granted, want := range map[int64]bool{7: false, 6: false, 5: true, 0: true} {
		if got := testLive.Unlisted(granted); got != want {
			t.Errorf("granted at renewal %d of %d: got %v, want %v", granted, testLive.Renewals, got, want)
		}
	}
}
