package daybook

import "time"

// Every limit of the book, with the reason for its value. Past a limit the
// caller gets an error that names the field, the limit and what was given;
// input is never cut silently.
const (
	// ArgsMax bounds a job's args, in bytes: a claim of a hundred jobs must
	// fit in memory, and larger input belongs in object storage.
	ArgsMax = 1 << 20
	// ResultMax bounds a job's result, in bytes; a larger one fails the
	// attempt for good, since running again would make the same one.
	ResultMax = 1 << 20
	// ErrorMax bounds the error text of an attempt, in bytes. Longer text is
	// cut on a rune and marked as cut: a diagnosis is not input.
	ErrorMax = 16 << 10
	// KeyMax bounds a request key, in bytes (the length Stripe allows).
	KeyMax = 255
	// NameMax bounds queue, kind and effect names, in bytes.
	NameMax = 128
	// WorkerMax bounds a worker's name, in bytes.
	WorkerMax = 255
	// ReasonMax bounds the reason and the actor of a person's action, in bytes.
	ReasonMax = 1024
	// EffectsMax bounds the effects of one job.
	EffectsMax = 1000
	// EnqueueMax bounds the jobs of one EnqueueMany, and EnqueueBytesMax their
	// args together, in bytes: a transaction that a database takes in stride.
	EnqueueMax, EnqueueBytesMax = 100_000, 256 << 20
	// BatchMax bounds the jobs of one request for a batch, claims of one claim call
	// and outcomes of one finish call.
	BatchMax = 10_000
	// BatchBytesMax bounds the args of one request for a batch together, in bytes.
	BatchBytesMax = 32 << 20
	// ProgressMax bounds an owner's progress note, in bytes.
	ProgressMax = 4 << 10
	// PriorityMin and PriorityMax bound the priority; higher goes first.
	PriorityMin, PriorityMax = -32768, 32767
	// MaxFailuresMax bounds max_failures; the least is 1.
	MaxFailuresMax = 10_000
	// LeaseMin and LeaseMax bound a session's lease.
	LeaseMin, LeaseMax = time.Second, 24 * time.Hour
	// TimeoutMax bounds a run limit.
	TimeoutMax = 365 * 24 * time.Hour
	// CallKept is how long a claim call whose jobs have all ended can be repeated
	// while its session lives: a lost answer is asked for again within seconds.
	CallKept = 10 * time.Minute
	// DelayMax bounds a delay: anything longer passes year 9999 anyway.
	DelayMax = 100 * 365 * 24 * time.Hour
	// QueuesMax bounds the queues named in one claim.
	QueuesMax = 10_000
	// ListMax bounds one page of a list; ListDefault is what a caller gets
	// that names no limit.
	ListMax, ListDefault = 1000, 100
	// ArgsDepthMax bounds the nesting of args, so that no reader's stack is
	// at the mercy of an enqueuer.
	ArgsDepthMax = 512

	// TimeMax is the end of year 9999, the last instant RFC 3339 can write.
	TimeMax Time = 253402300799999999
)

// Defaults, for what a request or a worker leaves open.
const (
	LeaseDefault       = 30 * time.Second
	GraceDefault       = 25 * time.Second
	PollDefault        = 5 * time.Second
	TimeoutDefault     = 24 * time.Hour
	MaxFailuresDefault = 20
	// CrashesMax is the most crashes a job may cause; at most max_failures.
	CrashesMax = 5
	// SnoozeMax ends endless snoozing: this long after the first claim since
	// enqueue or revive, the next release to a later time sets aside.
	SnoozeMax = 30 * 24 * time.Hour
	// RetentionDefault is how long finished jobs stay, and RetentionMin what
	// it can't go below, since an owner may report as late as its lease
	// (LeaseMax + 1 day).
	RetentionDefault = 7 * 24 * time.Hour
	RetentionMin     = LeaseMax + 24*time.Hour
	// KeyRetention is how long a request key answers after its job ended; it
	// never goes before the job's row does.
	KeyRetention = 30 * 24 * time.Hour
	// MarkMax is how long a session stays marked before it is ended, at most;
	// a shorter lease shortens it.
	MarkMax = 30 * time.Second
	// FoldAge is how old a counting row gets before the reconciler folds it.
	FoldAge = time.Minute
	// OldestEvery makes one claim call in so many take the oldest jobs
	// whatever their priority, so that low priority can't starve.
	OldestEvery = 8
)
