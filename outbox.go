package daybook

// Counts are the numbers of one queue. The first seven say how many jobs stand
// where; the rest are flows that only grow, pruned jobs included. A row of
// changes to them is written by every transaction, and the reconciler folds
// the rows, so that counting needs no hot row and no scan of finished jobs.
type Counts struct {
	Waiting   int64 `json:"waiting"`
	Running   int64 `json:"running"`
	SetAside  int64 `json:"set_aside"`
	Succeeded int64 `json:"succeeded"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	MovedOut  int64 `json:"moved_out"`

	Accepted      int64 `json:"accepted"`
	MovedIn       int64 `json:"moved_in"`
	Attempts      int64 `json:"attempts"`
	EverSetAside  int64 `json:"ever_set_aside"`
	EverCancelled int64 `json:"ever_cancelled"`
	EverExpired   int64 `json:"ever_expired"`
	Revived       int64 `json:"revived"`
}

// OutboxRow is one transaction's mark on one queue: the changed counts, and the
// ring that says work became eligible there.
type OutboxRow struct {
	Queue  string
	Ring   bool
	Counts Counts
}

// Add sums two counts.
func (c *Counts) Add(d Counts) {
	into, from := c.Fields(), d.Fields()
	for i := range into {
		*into[i] += *from[i]
	}
}

// CountNames are the fields in the order of [Counts.Fields]; stores name their
// columns by them.
var CountNames = []string{"waiting", "running", "set_aside", "succeeded", "cancelled", "expired", "moved_out",
	"accepted", "moved_in", "attempts", "ever_set_aside", "ever_cancelled", "ever_expired", "revived"}

// Fields are the counts one by one, for stores to read and write.
func (c *Counts) Fields() []*int64 {
	return []*int64{&c.Waiting, &c.Running, &c.SetAside, &c.Succeeded, &c.Cancelled, &c.Expired, &c.MovedOut,
		&c.Accepted, &c.MovedIn, &c.Attempts, &c.EverSetAside, &c.EverCancelled, &c.EverExpired, &c.Revived}
}

// Balanced is the conservation law: every job that came in stands somewhere or
// went out.
func (c Counts) Balanced() bool {
	return c.Accepted+c.MovedIn ==
		c.Waiting+c.Running+c.SetAside+c.Succeeded+c.Cancelled+c.Expired+c.MovedOut
}

func (c *Counts) stand(s State) *int64 {
	switch s {
	case Waiting:
		return &c.Waiting
	case Running:
		return &c.Running
	case SetAside:
		return &c.SetAside
	case Succeeded:
		return &c.Succeeded
	case Cancelled:
		return &c.Cancelled
	case Expired:
		return &c.Expired
	}
	return &c.MovedOut
}

// Delta is what the change does to its queue's counts. Pruning does nothing:
// what was counted stays counted.
func (c Change) Delta() Counts {
	var d Counts
	if c.Move == MovePrune {
		return d
	}
	switch c.Move {
	case MoveEnqueue:
		d.Accepted++
	case MoveImport:
		d.MovedIn++
	case MoveClaim:
		d.Attempts++
	case MoveRevive:
		d.Revived++
	}
	if c.Was.State != "" {
		*d.stand(c.Was.State)--
	}
	*d.stand(c.Now.State)++
	if c.Was.State != c.Now.State {
		switch c.Now.State {
		case SetAside:
			d.EverSetAside++
		case Cancelled:
			d.EverCancelled++
		case Expired:
			d.EverExpired++
		}
	}
	return d
}

// Eligible reports whether the change made the job claimable now, so that its
// queue wants a ring after the commit.
func (c Change) Eligible(now Time) bool {
	return c.Now.State == Waiting && c.Now.HeldBy == "" && c.Now.RunAt <= now
}
