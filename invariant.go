package daybook

// Invariant is one thing that must hold in every book at every moment. Each is
// local: one job with its rows, one key, one session or one queue's sums. The
// stores keep the query of the same name.
type Invariant struct {
	Name     string `json:"name"`
	Sentence string `json:"sentence"`
	Over     Scope  `json:"-"` // what it walks
}

// Scope is what an invariant walks.
type Scope string

// The scopes.
const (
	OverJobs     Scope = "jobs"
	OverKeys     Scope = "keys"
	OverSessions Scope = "sessions"
	OverQueues   Scope = "queues"
	OverRings    Scope = "rings"
)

// Invariants is the list. Sentences say what must be true.
var Invariants = []Invariant{
	{"one-place", "A job stands in exactly one place.", OverJobs},
	{"place-agrees", "What says that a job waits or runs agrees with the job.", OverJobs},
	{"known-state", "A job's state, and how each attempt ended, is one that the table has.", OverJobs},
	{"one-outcome", "A generation has one outcome.", OverJobs},
	{"final-stays", "A job that ended stays ended unless a person revived it.", OverJobs},
	{"generation-history", "A job's generation is the one its history accounts for.", OverJobs},
	{"running-session", "A running job has a session.", OverJobs},
	{"lost-revoked", "A claim of an ended session is revoked within two passes.", OverJobs},
	{"run-limit", "A job doesn't run past its run limit by more than two passes.", OverJobs},
	{"failures-limit", "A job whose failures or crashes reached the limit doesn't wait.", OverJobs},
	{"claim-after-end", "No session was given a claim after it ended.", OverJobs},
	{"success-effects", "A job that succeeded has no open effect.", OverJobs},
	{"effect-owner", "An effect was recorded by a generation that owned the job.", OverJobs},
	{"effect-doubled", "No effect happened twice.", OverJobs},
	{"paused-claim", "Nothing is claimed from a queue after it was paused.", OverJobs},
	{"held-claim", "No held job is running.", OverJobs},
	{"aside-reason", "A job that is set aside says why, and no other does.", OverJobs},
	{"cancel-kept", "A job asked to cancel doesn't run again unless a person revived it.", OverJobs},
	{"expired-claim", "A job that expired isn't claimed unless a person revived it.", OverJobs},
	{"moved-still", "A job that moved out never ran here after.", OverJobs},
	{"origin-once", "Two jobs never share an origin.", OverJobs},
	{"snooze-limit", "A job doesn't snooze past the limit.", OverJobs},
	{"size-limit", "Args, result, error and progress are within their limits.", OverJobs},
	{"args-json", "A job's args are a JSON document.", OverJobs},
	{"rows-with-job", "What belongs to a job goes when the job goes.", OverJobs},
	{"key-kept", "A job's key has its record while the job is there.", OverJobs},
	{"key-fingerprint", "A key is bound to the fingerprint of its job.", OverJobs},
	{"key-one-job", "One key is one job.", OverJobs},
	{"key-end", "A key whose job is gone says how the job ended.", OverKeys},
	{"lease-length", "A session's lease isn't longer than its length.", OverSessions},
	{"ring-queue", "A counting row belongs to a queue that exists.", OverRings},
	{"conservation", "What came in stands somewhere or went out.", OverQueues},
	{"counts-true", "A queue's counts are the rows that stand there.", OverQueues},
}

// Violation is one place where an invariant doesn't hold.
type Violation struct {
	Invariant string `json:"invariant"`
	Subject   string `json:"subject"` // a job id, key, session id or queue
	Detail    string `json:"detail,omitempty"`
	At        string `json:"-"` // the store's name of the row, for Inspection.Only
}
