package cutover

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// Place names one queue of an old system. Store is a name that stays the same
// and bears no password, such as redis://10.0.0.5:6379/0.
type Place struct {
	System  string `json:"system"`
	Version string `json:"version,omitempty"` // "" where the system doesn't keep it
	Store   string `json:"store"`
	Queue   string `json:"queue"`
}

// Scan says of one inventory what its jobs don't.
type Scan struct {
	At    daybook.Time // the old store's clock when the ids were read, all at one instant
	Jobs  int64
	Notes []string // what the system keeps no trace of, or this scan couldn't see
}

// CanaryClass is the class of the job that proves a gate. Old workers don't know
// it.
const CanaryClass = "daybook.canary"

// Claimant is somebody who can take work out of the old queue.
type Claimant struct {
	Name  string       `json:"name"`  // OldJob.Owner is this, or this with a colon and more behind it
	Quiet bool         `json:"quiet"` // takes nothing new, by its own word
	Seen  daybook.Time `json:"seen"`
	Busy  int          `json:"busy"` // jobs in its hands
}

// GateState is what can be seen of a gate.
type GateState struct {
	Closed    bool       `json:"closed"` // by the old system's own record
	How       string     `json:"how"`    // the mechanism, for people
	Claimants []Claimant `json:"claimants,omitempty"`
	Leaks     []string   `json:"leaks,omitempty"` // known ways around it that are open now, one sentence each
}

// Source reads one queue of an old system and changes nothing there.
type Source interface {
	// Place is answered without a call. Check looks whether the store can be
	// reached and holds a version that this source knows; an unknown one is
	// CodeRefused and names it.
	Place() Place
	Check(ctx context.Context) (Place, error)
	// Scan reads the ids of every state at one instant, then the bodies, and
	// calls visit once for each job, with its State and, where it has an owner,
	// Owner and OwnerSeen. A body that can't be read has Unreadable and is
	// visited all the same. Jobs of one list come in the order in which workers
	// would take them. asOf judges leases and due times, 0 is now. A job that is
	// gone when its body is read is visited with State OldGone.
	Scan(ctx context.Context, asOf daybook.Time, visit func(daybook.OldJob) error) (Scan, error)
	// Owned is a quick look at the jobs in the hands of workers, lost ones too.
	Owned(ctx context.Context) ([]daybook.OldJob, error)
	// Find tells where these ids are now; those that are nowhere are OldGone.
	// What lies in the held list is nowhere.
	Find(ctx context.Context, ids []string) (map[string]daybook.OldJob, error)
	// Patience is how long an owner may be silent and yet be alive.
	Patience() time.Duration
	// Slip is how long a worker may have a job in its hands before Owned shows it.
	// 0 is where a job that a worker takes stays in the store's own lists until it
	// ends, or Find answers those that slipped with State OldGone and their Body: a
	// job that is nowhere was in nobody's hands then when they died.
	Slip() time.Duration
	// Fades is for how long after its last sign of life a worker that died is among
	// GateState's claimants; who says farewell is none at once. 0 where Slip is.
	Fades() time.Duration
	// Now is the old store's clock, by which all its times are.
	Now(ctx context.Context) (daybook.Time, error)
	Close() error
}

// Gate closes the way by which old workers take jobs. All calls may be repeated.
type Gate interface {
	CloseGate(ctx context.Context) error
	OpenGate(ctx context.Context) error
	GateState(ctx context.Context) (GateState, error)
	// PutCanary puts a job there that no worker should get, at the taking end,
	// and answers its id; CanaryThere reports whether it lies there still;
	// DropCanary takes it away. Scan, Take and Owned pass by it. Its class is
	// CanaryClass: an old worker that takes it fails.
	PutCanary(ctx context.Context, id string) error
	CanaryThere(ctx context.Context, id string) (bool, error)
	DropCanary(ctx context.Context, id string) error
	// LongestTake is how long a worker's take that began before the gate may
	// still be served: a canary must lie longer than that.
	LongestTake() time.Duration
}

// Mover takes jobs out of the old queue and puts them back. Taken jobs lie in a
// held list in the old store until they are dropped, so that a mover that dies
// leaves each job in exactly one place of the old store.
type Mover interface {
	// Take moves up to n jobs that no worker has (waiting, later, retrying and
	// dead ones) into the held list, atomically one by one or all at once, in
	// the order in which workers would take them, and answers them.
	Take(ctx context.Context, n int) ([]daybook.OldJob, error)
	// TakeLost moves one job whose owner is lost, or which is blocked, into the
	// held list, as Find told of it. It answers false, and has changed nothing, if
	// the owner gives a sign of life after all or the job went elsewhere; that is
	// judged more strictly than for OldOwnerLost where the system has both a quick
	// sign and a slow one, such as a lease. Where the system keeps such a job only
	// in its owner's own record, that stays and the held list gets a copy.
	TakeLost(ctx context.Context, job daybook.OldJob) (bool, error)
	// Held lists up to n jobs of the held list, oldest first.
	Held(ctx context.Context, n int) ([]daybook.OldJob, error)
	// Drop takes jobs out of the held list; those that aren't there are passed
	// by. What stays behind makes a late producer of the same id stumble, where
	// the system has such a thing.
	Drop(ctx context.Context, jobs []daybook.OldJob) error
	// Return puts one job back to where it came from (a waiting one to the end
	// where workers take), unless the old store has a job of that id: then it
	// answers false. It goes by OldJob.Raw alone, whether the job is still held
	// or was dropped long ago, and takes it out of the held list. Who returns
	// many goes from the last taken to the first: then their order is restored.
	Return(ctx context.Context, job daybook.OldJob) (bool, error)
	// BeginTake says in the old store that the cutover of that name takes from the
	// queue, BeginReturn that it gives back, and EndReturn that this is over. The store
	// knows only the newest. Each way of this source to change something there (but
	// DropCanary and Forget) goes by what this source began last: when the store has
	// another by then, it is CodeFenced and changes nothing, also when it was called
	// before, since both are one step. A cutover goes forward only: BeginTake is
	// CodeFenced once BeginReturn was called for its name, BeginReturn once EndReturn
	// was. EndReturn does nothing where another cutover has begun. Where nothing was
	// begun, nothing is asked for.
	BeginTake(ctx context.Context, name string) error
	BeginReturn(ctx context.Context, name string) error
	EndReturn(ctx context.Context, name string) error
	// Left counts what is left of the queue in the old store, by where it lies,
	// the held list too, and without those that are done; Forget takes away what
	// the cutover itself left there.
	// While jobs are held, Forget is refused.
	Left(ctx context.Context) (map[string]int64, error)
	Forget(ctx context.Context) error
}

// Old is all of it: what each old system's folder implements.
type Old interface {
	Source
	Gate
	Mover
}
