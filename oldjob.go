package daybook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// OldState is where another system keeps a job.
type OldState string

// The states that jobs of another system are counted by.
const (
	OldWaiting   OldState = "waiting"
	OldLater     OldState = "later"      // waits for a time that its caller chose
	OldRetrying  OldState = "retrying"   // waits for its next try
	OldBlocked   OldState = "blocked"    // waits for other jobs, or to be grouped with them
	OldOwned     OldState = "owned"      // a live worker has it
	OldOwnerLost OldState = "owner_lost" // it was running, and its worker gives no sign of life
	OldDone      OldState = "done"
	OldDead      OldState = "dead" // failed for good, kept for a person
	OldGone      OldState = "gone" // was seen before, and is nowhere now
)

// OldStates lists them in the order in which people read them.
var OldStates = []OldState{OldWaiting, OldLater, OldRetrying, OldBlocked, OldOwned, OldOwnerLost, OldDone, OldDead,
	OldGone}

// Movable reports whether a job in this state may be taken out by a sweep:
// nobody works on it, and it isn't over.
func (s OldState) Movable() bool {
	return slices.Contains([]OldState{OldWaiting, OldLater, OldRetrying, OldDead}, s)
}

// OldArgs says what Args are where they aren't the job's own JSON: a JSON string
// that holds bytes in base64.
type OldArgs string

// What those bytes are.
const (
	OldArgsJSON   OldArgs = ""       // no bytes: Args are JSON as it was
	OldArgsBytes  OldArgs = "bytes"  // the system doesn't say; whoever wrote the job knows
	OldArgsPickle OldArgs = "pickle" // Python's own; nobody loads them here, since that runs code
)

// OldJob is one job as another system keeps it. Its times have that system's
// clock.
type OldJob struct {
	ID          string          `json:"id"` // "" where the system has none: the hash stands for it
	State       OldState        `json:"state"`
	Class       string          `json:"class"`          // class, type or name of the work
	Args        json.RawMessage `json:"args,omitempty"` // as JSON, where they can be read as that
	ArgsAs      OldArgs         `json:"args_as,omitempty"`
	Key         string          `json:"key,omitempty"` // what makes it unique over there
	Priority    int             `json:"priority,omitempty"`
	DueAt       Time            `json:"due_at,omitzero"` // of later and retrying
	EnqueuedAt  Time            `json:"enqueued_at,omitzero"`
	Attempts    int             `json:"attempts,omitempty"` // used, the running one not counted
	MaxAttempts int             `json:"max_attempts,omitempty"`
	Timeout     time.Duration   `json:"timeout,omitempty"`
	Error       string          `json:"error,omitempty"` // of its last failed try
	Owner       string          `json:"owner,omitempty"`
	OwnerSeen   Time            `json:"owner_seen,omitzero"` // the owner's last sign of life
	OwnerSilent time.Duration   `json:"-"`                   // how long ago that was when the job was read
	Unreadable  string          `json:"unreadable,omitempty"`
	// Foreign is one that can't be read and of which nobody knows that it is this
	// queue's: it is counted, and stays where it lies.
	Foreign bool `json:"foreign,omitempty"`
	// Nth tells a job without an id, once it is in the held list, from others that
	// are equal; else 0.
	Nth int64 `json:"nth,omitempty"`
	// Raw is what the old system needs to have the job back, by the source's
	// own rules, and where it lay: that of a job that was taken is what Return
	// wants, that of a job that was read is what TakeLost wants. Body is what
	// the job itself is, and the same while it lives.
	Raw  []byte `json:"-"`
	Body []byte `json:"-"`
}

// Hash tells one body from another.
func (o OldJob) Hash() string {
	sum := sha256.Sum256(o.Body)
	return hex.EncodeToString(sum[:])
}

// Name is the id, or for systems without ids the hash.
func (o OldJob) Name() string {
	if o.ID != "" {
		return o.ID
	}
	return o.Hash()
}

// keptOld is an OldJob with all that a rollback needs.
type keptOld struct {
	OldJob
	Raw  []byte `json:"raw,omitempty"`
	Body []byte `json:"body,omitempty"`
}

// Keep is the job as a store keeps it, and KeptOld reads that again; "" is nil.
func (o *OldJob) Keep() (string, error) {
	if o == nil {
		return "", nil
	}
	doc, err := json.Marshal(keptOld{OldJob: *o, Raw: o.Raw, Body: o.Body})
	return string(doc), err
}

// KeptOld reads what Keep wrote.
func KeptOld(doc string) (*OldJob, error) {
	if doc == "" {
		return nil, nil
	}
	var k keptOld
	if err := json.Unmarshal([]byte(doc), &k); err != nil {
		return nil, err
	}
	o := k.OldJob
	o.Raw, o.Body = k.Raw, k.Body
	return &o, nil
}
