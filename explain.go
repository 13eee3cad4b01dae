package daybook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Counter writes a number as a setting keeps it.
func Counter(n int64) string { return strconv.FormatInt(n, 10) }

// Why explains where a job stands: one code for programs, one sentence for
// people.
type Why struct {
	Job      ID     `json:"id"`
	State    State  `json:"state"`
	Because  string `json:"because"` // later, paused, held, no_worker, unsaid, ready, running, lapsed, …
	Since    Time   `json:"since,omitzero"`
	Sentence string `json:"sentence"`
	Safe     *Safe  `json:"safe_to_retry,omitempty"`
	// Fact is the sentence without the command to type, for who has a button instead.
	Fact string `json:"-"`
}

// Safe answers whether a set-aside job may be retried, and on what grounds.
type Safe struct {
	Yes     bool     `json:"yes"`
	Grounds string   `json:"grounds"`
	Open    []string `json:"open,omitempty"` // effects that nobody knows the end of
}

// SafeToRetry is the one function that answers for a job that a person looks
// at, from its effects.
func SafeToRetry(j Job, effects []Effect, now Time) Safe {
	var open, again, doubtful []string
	happened := false
	for _, e := range effects {
		late, contradicted := e.contradicted()
		switch {
		case contradicted:
			doubtful = append(doubtful, fmt.Sprintf("%s is recorded absent, and generation %d said too late that it happened",
				e.Name, late.Generation))
		case e.State != EffectIsOpen:
		case e.Policy == PolicyRepeatable:
			again = append(again, e.Name+" is repeatable")
		case e.Policy == PolicyKeyed && now < e.SafeUntil:
			again = append(again, e.Name+" has a key that its destination knows until "+e.SafeUntil.String())
		default:
			open = append(open, e.Name)
		}
		happened = happened || e.Name == HandlerEffect && e.State == EffectDone
	}
	switch {
	case happened:
		return Safe{Grounds: "its work happened, a person said; running again would do it again"}
	case len(open) > 0:
		return Safe{Open: open, Grounds: "effect " + strings.Join(open, ", ") +
			" was begun and nobody knows whether it happened; settle it first"}
	case len(doubtful) > 0:
		return Safe{Grounds: "effect " + strings.Join(doubtful, "; ") + "; its next begin asks"}
	case len(again) > 0:
		return Safe{Yes: true, Grounds: "calling again is safe: effect " + strings.Join(again, "; ") +
			"; ask the destination and settle it, then revive"}
	case len(effects) == 0:
		return Safe{Yes: true, Grounds: "the job records no effects; its handler must bear running again"}
	}
	return Safe{Yes: true, Grounds: "every effect is done or absent"}
}

// WhyOf explains a job from what one snapshot holds.
func WhyOf(j Job, queue Queue, sessions []Session, effects []Effect, now Time) Why {
	w := Why{Job: j.ID, State: j.State}
	say := func(because string, since Time, format string, args ...any) Why {
		w.Because, w.Since, w.Fact = because, since, fmt.Sprintf(format, args...)
		w.Sentence = w.Fact
		return w
	}
	switch j.State {
	case Running:
		if j.LeaseUntil != 0 && j.LeaseUntil <= now {
			return say("lapsed", j.LeaseUntil,
				"the lease of worker %s, which owns it at generation %d, ran out at %s; "+
					"the reconciler will take the claim back", quote(j.Worker), j.Generation, j.LeaseUntil)
		}
		return say("running", j.ClaimedAt,
			"running under worker %s at generation %d since %s; its lease runs until %s",
			quote(j.Worker), j.Generation, j.ClaimedAt, j.LeaseUntil)
	case SetAside:
		safe := SafeToRetry(j, effects, now)
		w.Safe = &safe
		return say(string(j.Reason), j.EndedAt,
			"set aside (%s) since %s", j.Reason, j.EndedAt).advised("a person decides: daybook job revive or cancel")
	case Waiting:
	case Cancelled, Expired:
		return say(string(j.State), j.EndedAt, "%s since %s", j.State, j.EndedAt).
			advised("daybook job revive brings it back")
	default:
		return say(string(j.State), j.EndedAt, "%s since %s", j.State, j.EndedAt)
	}
	switch {
	case j.HeldBy != "":
		return say("held", 0, "held by %s", quote(j.HeldBy)).advised("daybook job unhold lets it go")
	case j.ExpiresAt != 0 && j.ExpiresAt <= now:
		return say("expired", j.ExpiresAt, "past its expires_at %s; the reconciler will end it", j.ExpiresAt)
	case j.RunAt > now:
		return say("later", 0, "due at %s%s", j.RunAt, afterFailures(j.Failures))
	case queue.Paused:
		return say("paused", queue.PausedAt, "queue %s is paused since %s by %s%s", j.Queue, queue.PausedAt,
			quote(queue.PausedBy), given(queue.PausedReason))
	}
	taken, mute := takers(j, sessions)
	switch {
	case taken:
		return say("ready", j.RunAt, "ready since %s; a worker will claim it", j.RunAt)
	case mute:
		return say("unsaid", j.RunAt, "ready since %s, but no live worker says that it takes kind %s from queue %s; "+
			"some don't say what they take", j.RunAt, j.Kind, j.Queue)
	}
	return say("no_worker", j.RunAt, "ready since %s, but no live worker takes kind %s from queue %s", j.RunAt,
		j.Kind, j.Queue)
}

// advised adds to the sentence what to do, where a person types commands.
func (w Why) advised(how string) Why {
	w.Sentence += "; " + how
	return w
}

// takers reports whether a session says that it takes a job, and whether there is
// one that may, and doesn't say which queues it takes.
func takers(j Job, sessions []Session) (taken, mute bool) {
	for _, s := range sessions {
		takes, says := s.Takes(j.Queue, j.Kind)
		taken, mute = taken || takes && says, mute || takes && !says
	}
	return taken, mute
}

// afterFailures says why a job is due later, if it failed.
func afterFailures(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", after 1 failed attempt"
	}
	return fmt.Sprintf(", after %d failed attempts", n)
}

// given shows the reason that a person gave: whole, on one line.
func given(reason string) string {
	if reason == "" {
		return ""
	}
	return ", reason " + strconv.Quote(reason)
}

// Takes reports whether the session may claim a job of a kind from a queue, and
// whether it says so: one that names no queues, like that of who claims jobs by
// their ids, may take any. Whether its lease holds is the caller's to look at.
func (s Session) Takes(queue, kind string) (takes, says bool) {
	says = len(s.Queues) > 0
	return s.Live() && !s.Quiet &&
		(!says || slices.Contains(s.Queues, queue)) &&
		(len(s.Kinds) == 0 || slices.Contains(s.Kinds, kind)), says
}

// Why explains one job.
func (b *Book) Why(ctx context.Context, id ID) (w Why, err error) {
	err = b.read(ctx, "explaining a job", func(v View) error {
		j, err := jobOf(ctx, v, id)
		if err != nil {
			return err
		}
		queue, _, err := v.Queue(ctx, j.Queue)
		if err != nil {
			return err
		}
		sessions, err := v.Sessions(ctx, SessionFilter{})
		if err != nil {
			return err
		}
		live := slices.DeleteFunc(sessions, func(s Session) bool { return s.ExpiresAt <= v.Now() })
		h, err := v.History(ctx, j)
		if err != nil {
			return err
		}
		w = WhyOf(j, queue, live, h.Effects, v.Now())
		return nil
	})
	return w, err
}

// Timeline lists all that happened to a job, in time order: request and
// replays, claims and how they ended, effects, fenced writes with what they
// said, people's actions.
func (b *Book) Timeline(ctx context.Context, id ID) ([]Event, error) {
	j, h, err := b.history(ctx, id)
	if err != nil {
		return nil, err
	}
	return TimelineOf(j, h), nil
}

// TimelineOf puts a job's history into one list.
func TimelineOf(j Job, h History) []Event {
	accepted := Event{At: j.EnqueuedAt, What: "accepted", Detail: "queue " + j.Queue + ", kind " + j.Kind}
	if j.Origin != nil {
		accepted.What = "moved in"
		accepted.Detail += ", from " + j.Origin.System + " id " + j.Origin.ID
	}
	events := []Event{accepted}
	if h.Key != nil && h.Key.Replays > 0 {
		events = append(events, Event{At: h.Key.LastReplayAt, What: "replayed",
			Detail: again(h.Key.Replays)})
	}
	for _, a := range h.Attempts {
		events = append(events, a.events()...)
	}
	if j.State == Running {
		events = append(events, Attempt{Generation: j.Generation, Session: j.Session, Worker: j.Worker,
			ClaimedAt: j.ClaimedAt, StartedAt: j.StartedAt}.events()...)
	}
	for _, e := range h.Effects {
		if e.Name == HandlerEffect { // the others have events of their own
			events = append(events, e.begun())
		}
	}
	for _, r := range h.Refusals {
		events = append(events, Event{At: r.At, What: "fenced", Generation: r.Generation, Session: r.Session,
			Detail: strings.TrimSpace(operationText(r.Operation) + " refused: " + notOwner + " " + r.Said)})
	}
	events = append(events, h.Events...)
	for _, e := range h.Effects {
		events = append(events, e.doubledBefore(h.Events)...)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// doubledBefore is the line about an effect that a finish showed to be doubled:
// what came too late had come before it. Evidence that comes after has a line of
// its own.
func (e Effect) doubledBefore(written []Event) []Event {
	if !e.Doubled || slices.ContainsFunc(written, func(w Event) bool {
		return w.What == "effect doubled" && w.Detail == e.Name
	}) {
		return nil
	}
	at := e.EndedAt
	for _, l := range e.Late {
		at = max(at, l.At)
	}
	return []Event{{At: at, What: "effect doubled", Generation: e.Generation, Detail: e.Name}}
}

// notOwner ends what the book says of a fenced write, before what the write said.
const notOwner = "not the owner any more."

// operationText is what a fenced owner wanted, in words.
func operationText(operation string) string {
	verb, name, about := strings.Cut(operation, ":")
	if !about {
		return operation
	}
	return strings.ReplaceAll(verb, "_", " ") + " " + name
}

// again says how often a request was repeated.
func again(n int64) string {
	if n == 1 {
		return "the same request came once more"
	}
	return fmt.Sprintf("the same request came %d more times; this was the last", n)
}

func (a Attempt) events() []Event {
	claimed := Event{At: a.ClaimedAt, What: "claimed", Generation: a.Generation, Session: a.Session,
		Detail: "by worker " + a.Worker}
	if a.Count > 1 {
		return []Event{{At: a.EndedAt, What: "released", Generation: a.Generation, Session: a.Session,
			Detail: fmt.Sprintf("%d attempts in a row, generations %d to %d, the first claimed at %s",
				a.Count, a.First, a.Generation, a.ClaimedAt)}}
	}
	events := []Event{claimed}
	if a.StartedAt != 0 {
		events = append(events, Event{At: a.StartedAt, What: "started", Generation: a.Generation,
			Session: a.Session})
	}
	if a.EndedAt == 0 {
		return events
	}
	ended := Event{At: a.EndedAt, What: string(a.Outcome), Generation: a.Generation, Session: a.Session,
		Detail: a.Why}
	if a.Error != nil {
		ended.Detail = strings.TrimSpace(ended.Detail + " " + a.Error.Text)
	}
	return append(events, ended)
}

// begun is the line about an effect that has no event of its own: that of a lost
// handler. How a person settled it has one.
func (e Effect) begun() Event {
	return Event{At: e.BegunAt, What: "effect begun", Generation: e.Generation,
		Detail: e.Name + ", policy " + string(e.Policy) + ", key " + e.Key}
}

// Backlog is one queue in numbers. Requests (accepted, moved in) and attempts
// are counted apart: one request may take many attempts.
type Backlog struct {
	Queue    string           `json:"queue"`
	Paused   bool             `json:"paused"`
	Eligible int64            `json:"eligible"` // waiting and due
	Later    int64            `json:"later"`    // waiting for a time
	Held     int64            `json:"held"`
	Oldest   float64          `json:"oldest_eligible_seconds"` // not of later, paused or held ones
	Reasons  map[Reason]int64 `json:"set_aside_reasons"`
	Open     int64            `json:"open_effects"`    // of jobs that still are in the book
	Doubled  int64            `json:"doubled_effects"` // happened twice, as evidence shows
	Kinds    []KindCounts     `json:"kinds"`
	Counts
}

// BacklogOf puts a counted queue into the words people read.
func BacklogOf(q Queue, now Time) Backlog {
	b := Backlog{Queue: q.Name, Paused: q.Paused, Eligible: q.Eligible, Later: q.Later, Held: q.Held,
		Counts: q.Counts, Kinds: q.Kinds, Reasons: map[Reason]int64{}, Open: q.OpenEffects, Doubled: q.Doubled}
	for _, k := range q.Kinds {
		for reason, n := range k.SetAside {
			b.Reasons[reason] += n
		}
	}
	if q.Oldest != 0 && !q.Paused {
		b.Oldest = now.Sub(q.Oldest).Seconds()
	}
	return b
}

// Backlog shows every queue in numbers, and the time at which they hold.
func (b *Book) Backlog(ctx context.Context) (at Time, backlog []Backlog, err error) {
	err = b.read(ctx, "reading the backlog", func(v View) error {
		at = v.Now()
		queues, err := v.Queues(ctx, true)
		backlog = make([]Backlog, 0, len(queues))
		for _, q := range queues {
			backlog = append(backlog, BacklogOf(q, at))
		}
		return err
	})
	return at, backlog, err
}
