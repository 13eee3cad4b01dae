package daybook

import (
	"testing"
	"time"
)

func oldJob(id, body string, s OldState) OldJob { return OldJob{ID: id, Body: []byte(body), State: s} }

// TestPhases: the table is whole, one authority a phase, and every phase that
// isn't over leads somewhere that exists.
func TestPhases(t *testing.T) {
	for _, r := range PhaseRules {
		if r.What == "" || r.Claims == "" {
			t.Errorf("phase %s says too little", r.Phase)
		}
		for _, next := range r.Next {
			if next.Rule().Phase != next {
				t.Errorf("%s leads to %s, which isn't there", r.Phase, next)
			}
			if r.Claims == BookMayClaim && next.Rule().Claims == OldMayClaim ||
				r.Claims == OldMayClaim && next.Rule().Claims == BookMayClaim {
				t.Errorf("from %s to %s authority goes over without a phase in which nobody has it", r.Phase, next)
			}
		}
	}
	c := Cutover{Name: "c", Phase: PhasePlan}
	if _, err := c.To(PhaseMove, By{}, 1); CodeOf(err) != CodeRefused {
		t.Errorf("plan leads to move: %v", err)
	}
	next, err := c.To(PhaseShadow, By{Actor: "a", Reason: "r"}, 7)
	if err != nil || next.Claims != OldMayClaim || next.EnteredAt(PhaseShadow) != 7 || len(c.Steps) != 0 {
		t.Errorf("to shadow: %+v, %v", next, err)
	}
}

// TestArrive: what of the old system becomes a job, what is known, and what a
// person is asked about.
func TestArrive(t *testing.T) {
	still := Sighted(nil, oldJob("1", "a", OldWaiting), false, 1, 1)
	as := func(term Term, change func(*Item)) []Item {
		i := still
		i.Term = term
		if change != nil {
			change(&i)
		}
		return []Item{i}
	}
	proved := func(i *Item) { i.Proved = true }
	for _, tt := range []struct {
		name        string
		known       []Item
		body        string
		take, asked bool
		occurrence  int
	}{
		{"never seen", nil, "a", true, false, 0},
		{"seen before", as(TermStill, nil), "a", true, false, 0},
		{"moved already", as(TermMoved, nil), "a", false, false, 0},
		{"carried as dead", as(TermDead, nil), "a", false, false, 0},
		{"open", as(TermOpen, nil), "a", false, false, 0},
		{"finished, as its record says", as(TermFinished, proved), "a", false, false, 0},
		{"was only nowhere", as(TermFinished, nil), "a", true, true, 0},
		{"id used again while the first moved", as(TermMoved, nil), "b", true, true, 1},
		{"id used again after the first finished", as(TermFinished, proved), "b", true, true, 1},
		{"id used again while the first is there", as(TermStill, nil), "b", true, true, 1},
	} {
		i, take := Arrive(tt.known, oldJob("1", tt.body, OldWaiting), true, 9)
		if take != tt.take || i.Asked != tt.asked || i.Occurrence != tt.occurrence {
			t.Errorf("%s: take %v, asked %v, occurrence %d", tt.name, take, i.Asked, i.Occurrence)
		}
		if !take && i.Again != 1 {
			t.Errorf("%s: met again %d times", tt.name, i.Again)
		}
	}
}

// TestFate: what became of a job in old hands. Whoever can't be sure says lost,
// never gone.
func TestFate(t *testing.T) {
	const second = Time(1e6)
	item := func(last OldState, seen, ownerSeen, missed Time) Item {
		return Item{Last: last, SeenAt: seen * second, OwnerSeen: ownerSeen * second, MissedAt: missed * second}
	}
	gone := OldJob{State: OldGone}
	look := Look{At: 1000 * second, Patience: 30 * time.Second}
	lives := look
	lives.OwnerLives = true
	died := look
	died.Slip, died.Deaths = 5*time.Second, []Death{{Worker: "w", Seen: 900 * second, Found: 910 * second}}
	confirmed := func(i Item, at Time) Item { i.GoneAt = at * second; return i }
	another := died // the owner that was seen isn't the one that died
	another.OwnerLives = true
	slipped := gone
	slipped.Body = []byte("here yet")
	for _, tt := range []struct {
		name  string
		item  Item
		found OldJob
		look  Look
		want  Fate
	}{
		{"in its done set", item(OldOwned, 900, 900, 0), OldJob{State: OldDone}, look, FateFinished},
		{"back in the queue", item(OldOwned, 900, 900, 0), OldJob{State: OldWaiting}, look, FateSweep},
		{"to be tried again", item(OldOwned, 900, 900, 0), OldJob{State: OldRetrying}, look, FateSweep},
		{"still in hand", item(OldOwned, 999, 999, 0), OldJob{State: OldOwned}, look, FateWait},
		{"its owner is lost", item(OldOwned, 999, 900, 0), OldJob{State: OldOwnerLost}, look, FateLost},
		{"gone from a living owner", item(OldOwned, 990, 990, 995), gone, lives, FateGone},
		{"gone with an owner that was silent before", item(OldOwned, 990, 950, 995), gone, look, FateLost},
		{"gone with its record, lost then", item(OldOwnerLost, 990, 990, 995), gone, lives, FateLost},
		{"gone just now", item(OldOwned, 990, 990, 995), gone, look, FateWait},
		{"gone for long, its owner left in order", item(OldOwned, 900, 900, 905), gone, look, FateGone},
		{"nobody looked for too long", item(OldOwned, 900, 900, 940), gone, look, FateLost},
		{"was waiting, is gone", item(OldWaiting, 900, 0, 905), gone, look, FateGone},
		{"was waiting, is gone, and a worker died since", item(OldWaiting, 900, 0, 905), gone, died, FateLost},
		{"was waiting, a worker died before", item(OldWaiting, 920, 0, 925), gone, died, FateGone},
		{"had gone before the worker's last sign", confirmed(item(OldWaiting, 880, 0, 885), 895), gone, died, FateGone},
		{"had gone as the last sign was sent", confirmed(item(OldWaiting, 880, 0, 885), 896), gone, died, FateLost},
		{"was missed before the last sign, once", item(OldWaiting, 880, 0, 885), gone, died, FateLost},
		{"lay there when the death was found", confirmed(item(OldWaiting, 910, 0, 915), 920), gone, died, FateLost},
		{"lay there after it", confirmed(item(OldWaiting, 911, 0, 915), 920), gone, died, FateGone},
		{"another had it, and may have given it back", item(OldOwned, 905, 905, 908), gone, another, FateLost},
		{"another had it by an old word", item(OldOwned, 915, 910, 918), gone, another, FateLost},
		{"another had it after the death was found", item(OldOwned, 915, 911, 918), gone, another, FateGone},
		{"another had it just now", item(OldOwned, 964, 964, 965), gone, another, FateWait},
		{"the same, and deaths until then are known", item(OldOwned, 963, 963, 964), gone, another, FateGone},
		{"left a living owner for no list, and has its body", item(OldOwned, 900, 900, 905), slipped, lives, FateLost},
		{"who had it left in order, and another died", item(OldOwned, 905, 905, 908), gone, died, FateLost},
		{"was done, and its record has run out", item(OldDone, 905, 0, 908), gone, died, FateFinished},
		{"is in no list and has its body", item(OldWaiting, 900, 0, 905), slipped, look, FateLost},
		{"the same just now", item(OldWaiting, 990, 0, 995), slipped, look, FateWait},
	} {
		if got := tt.item.FateOf(tt.found, tt.look); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestDeaths: who is found silent again and again died once, who spoke meanwhile
// died anew, and too many deaths become one of the two oldest.
func TestDeaths(t *testing.T) {
	var known []Death
	for _, tt := range []struct {
		d     Death
		fresh bool
	}{
		{Death{"w", 100, 130}, true},
		{Death{"w", 100, 140}, false},
		{Death{"w:thread", 90, 150}, false},
		{Death{"w", 0, 160}, false},
		{Death{"ww", 100, 170}, true},
		{Death{"w", 131, 180}, true},
		{Death{"w", 155, 190}, false}, // the same sign, by a slower look
		{Death{"w", 175, 210}, true},  // found silent, and yet it spoke before it was
	} {
		var fresh bool
		if known, fresh = AddDeath(known, tt.d); fresh != tt.fresh {
			t.Errorf("%+v is new: %v", tt.d, fresh)
		}
	}
	for n := range DeathsMax - 3 {
		known, _ = AddDeath(known, Death{Worker: ID{byte(n + 1)}.String(), Seen: 200, Found: 300})
	}
	if first := known[0]; len(known) != DeathsMax || first.Seen != 100 || first.Found != 170 {
		t.Errorf("%d deaths, the first %+v", len(known), first)
	}
}

// TestMissed: a job has gone when a look misses it again after a hand would have
// shown it, and is there when it is seen again.
func TestMissed(t *testing.T) {
	i := Sighted(nil, oldJob("1", "a", OldWaiting), false, 1, 1)
	for n, tt := range []struct{ since, at, missed, gone Time }{{8, 10, 10, 0}, {9, 16, 10, 0}, {14, 17, 10, 0},
		{15, 18, 10, 18}} {
		if i = i.missed(tt.since, 5*time.Microsecond, tt.at); i.MissedAt != tt.missed || i.GoneAt != tt.gone {
			t.Errorf("look %d: missed at %d, gone at %d", n, i.MissedAt, i.GoneAt)
		}
	}
	if i.Missed() != 2 || i.seen(oldJob("1", "a", OldWaiting), 19, 20).Missed() != 0 {
		t.Errorf("%+v", i)
	}
}

// TestGoBack: only what never ran here goes back.
func TestGoBack(t *testing.T) {
	from := func(j *Job) { j.Origin = &Origin{System: "sidekiq"} }
	fresh := with(waitingJob(), from, held, func(j *Job) { j.Generation = 0 })
	c, err := fresh.GoBack(By{Actor: "a"}, testNow)
	if err != nil || c.Now.State != Moved || c.Now.HeldBy != "" {
		t.Errorf("a waiting one: %+v, %v", c.Now, err)
	}
	dead := fresh.setAside(ReasonFailures, testNow)
	if c, err = dead.GoBack(By{Actor: "a"}, testNow); err != nil || c.Now.State != Cancelled {
		t.Errorf("a dead one: %+v, %v", c.Now, err)
	}
	open := dead
	open.OpenEffect = HandlerEffect
	ran := fresh
	ran.Generation = 1
	for name, j := range map[string]Job{"open": open, "ran": ran, "born here": with(waitingJob(), func(j *Job) {
		j.Generation = 0
	})} {
		if _, err := j.GoBack(By{}, testNow); CodeOf(err) != CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the old system's own record says is done isn't counted as without one, whatever
// was seen of it before.
func TestJudgedByRecord(t *testing.T) {
	for fate, want := range map[Fate]OldState{FateFinished: OldDone, FateGone: OldOwned} {
		i := Item{Last: OldOwned, Term: TermStill}.judged(fate, Item{}, "ended", 7)
		if i.Last != want || i.Term != TermFinished || i.Proved != (fate == FateFinished) {
			t.Errorf("%s: got %+v, want it last %s", fate, i, want)
		}
	}
}

// A plan that was changed in a phase isn't its beginning.
func TestPlanChangedStep(t *testing.T) {
	c := Cutover{Steps: []PhaseStep{{At: 3, Phase: PhaseShadow}, {At: 9, Phase: PhaseShadow, What: PlanChanged}}}
	if at := c.EnteredAt(PhaseShadow); at != 3 {
		t.Errorf("got %d, want 3", at)
	}
}

// Equal jobs without an id are one while they lie there, and one each when they are
// taken; one that is met again is known by its number.
func TestArriveWithoutID(t *testing.T) {
	lying := OldJob{State: OldWaiting, Body: []byte("same")}
	known := []Item{Sighted(nil, lying, false, testNow, testNow)}
	if again := Sighted(known, lying, false, testNow, testNow); again.Occurrence != 0 {
		t.Errorf("an equal one that lies there is %+v", again)
	}
	for n, tt := range []struct {
		nth        int64
		occurrence int
		take       bool
	}{{7, 0, true}, {8, 1, true}, {7, 0, false}, {9, 2, true}, {8, 1, false}} {
		held := lying
		held.Nth = tt.nth
		i, take := Arrive(known, held, true, testNow)
		if take != tt.take || i.Occurrence != tt.occurrence || i.Nth != tt.nth || i.Asked {
			t.Errorf("%d: take %v, %+v", n, take, i)
		}
		if take {
			i.Term = TermMoved
		}
		known = placed(known, i)
	}
	lies := Sighted(known, lying, true, testNow, testNow)
	if lies.Occurrence != 3 || lies.Term != TermStill || !lies.Arrived {
		t.Errorf("one that came since is %+v", lies)
	}
	gone := lies
	gone.Term = TermFinished // because it was nowhere
	lying.Nth = 10
	if i, take := Arrive(placed(known, gone), lying, true, testNow); !take || !i.Asked || i.Occurrence != 3 {
		t.Errorf("one that was thought to have ended: take %v, %+v", take, i)
	}
}

// A copy in the held list that was recorded before, and not dropped, didn't come again.
func TestArriveHeldSince(t *testing.T) {
	o := OldJob{ID: "a", State: OldWaiting, Body: []byte("b"), Raw: []byte("1 waiting - 7 1\nb")}
	i, _ := Arrive(nil, o, true, testNow)
	i = i.taken(o, Job{State: Waiting}, 1, testNow)
	i, take := Arrive([]Item{i}, o, true, testNow)
	if take || i.Again != 0 {
		t.Errorf("the same copy: take %v, %+v", take, i)
	}
	o.Raw = []byte("1 waiting - 8 1\nb")
	if i, take := Arrive([]Item{i}, o, true, testNow); take || i.Again != 1 {
		t.Errorf("another copy: take %v, %+v", take, i)
	}
}
