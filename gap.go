package daybook

// Gap is a place between two steps where a process can die. The list is data:
// the docs page, the demo and the drill read it from here.
type Gap struct {
	Name     string
	Between  string
	Left     string // what is left behind
	Found    string // how it is found
	Repaired string // who repairs it
}

// The names of the gaps.
const (
	GapAccept   = "accept"
	GapPublish  = "publish"
	GapMark     = "mark"
	GapDeliver  = "deliver"
	GapClaim    = "claim"
	GapGrant    = "grant"
	GapStart    = "start"
	GapBegin    = "begin"
	GapRecord   = "record"
	GapComplete = "complete"
	GapReply    = "reply"
	GapAck      = "ack"
	GapPause    = "pause"
)

// Gaps lists every gap on the way from a request to its acknowledgement.
var Gaps = []Gap{
	{GapAccept, "request received and committed", "nothing, or a job whose caller doesn't know of it",
		"the caller repeats the request with its key or job id", "the caller: the repeat is a read"},
	{GapPublish, "committed and rung", "a job that nobody heard of",
		"its outbox row; the reconciler if the outbox itself is gone", "the relay, then the reconciler"},
	{GapMark, "rung and outbox row removed", "a second ring",
		"the claim that it causes finds nothing to do", "nobody needs to"},
	{GapDeliver, "rung and heard", "a ring lost or late",
		"poll floor and reconciler", "the worker's poll"},
	{GapClaim, "heard and claimed", "an eligible job and a used ring",
		"the reconciler finds a queue with eligible work and no claim", "the reconciler rings the queue again"},
	{GapGrant, "claim committed and answer received", "a job owned by someone who doesn't know",
		"the same call id asks again; else two renewals don't list it; else the lease runs out",
		"the owner, then the reconciler"},
	{GapStart, "granted and handler begun", "a job owned and never started",
		"the lease runs out; nothing can have happened outside", "the reconciler"},
	{GapBegin, "effect recorded as begun and called", "an open effect",
		"the next attempt's begin meets it", "the effect's policy"},
	{GapRecord, "effect happened and recorded", "an open effect",
		"the next attempt's begin meets it", "the effect's policy"},
	{GapComplete, "effects recorded and job completed", "a running job whose effects are done",
		"the lease runs out", "the next attempt replays recorded results and repeats none"},
	{GapReply, "completion committed and answer received", "a worker that is unsure",
		"the same owner reports again", "the book answers: already done"},
	{GapAck, "job ended and message acknowledged", "a message that comes again",
		"the claim finds a finished job", "the consumer acknowledges it and counts it as stale"},
	{GapPause, "owner stopped past its lease and continued", "two processes that believe they own the job",
		"the old owner's generation is not the current one",
		"the book fences it, keeps what it said, and tells it"},
}

// Hook is called at a gap with the job concerned, for demos and drills that
// stop or kill the process right there. Nil in production.
type Hook func(gap string, job ID)
