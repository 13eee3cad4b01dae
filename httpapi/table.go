package httpapi

import (
	"net/http"
	"reflect"

	"github.com/daybookdev/daybook"
)

// Parts of the examples. They are of one book: a mail job, claimed once.
const (
	egID      = `0190a2b4-7c1e-7000-8000-000000000001`
	egSession = `0190a2b4-7c1e-7000-8000-0000000000aa`
	egOwner   = `"session":"` + egSession + `","generation":1`
	egRef     = `{"id":"` + egID + `","generation":1}`
	egWaiting = `{"id":"` + egID + `","queue":"mail","kind":"welcome","args":{"to":"ada@example.org"},` +
		`"state":"waiting","priority":0,"run_at":"2026-12-24T18:00:00.000000Z","generation":0,"failures":0,` +
		`"crashes":0,"max_failures":20,"on_lost":"retry","key":"signup-4711",` +
		`"enqueued_at":"2026-12-24T18:00:00.000000Z"}`
	egRunning = `{"id":"` + egID + `","queue":"mail","kind":"welcome","args":{"to":"ada@example.org"},` +
		`"state":"running","priority":0,"run_at":"2026-12-24T18:00:00.000000Z","generation":1,"failures":0,` +
		`"crashes":0,"max_failures":20,"on_lost":"retry","session":"` + egSession + `","worker":"mailer-1",` +
		`"lease_until":"2026-12-24T18:00:31.000000Z","enqueued_at":"2026-12-24T18:00:00.000000Z",` +
		`"claimed_at":"2026-12-24T18:00:01.000000Z"}`
	egClaims = `{"session":"` + egSession + `","lease_until":"2026-12-24T18:00:31.000000Z","claims":[{"job":` +
		egRunning + `,"generation":1,"lease_until":"2026-12-24T18:00:31.000000Z","timeout_seconds":86400}]}`
	egEnded  = `{"id":"` + egID + `","state":"succeeded","already":false}`
	egEffect = `{"job":"` + egID + `","name":"charge","policy":"keyed","state":"open","generation":1,` +
		`"key":"9f86d081884c7d659a2feaa0c55ad015","begun_at":"2026-12-24T18:00:02.000000Z"}`
	egReason  = `{"reason":"address corrected"}`
	egCutover = `{"name":"mail","system":"sidekiq","store":"redis://localhost:6379/0","old_queue":"mail",` +
		`"queue":"mail","phase":"shadow","may_claim":"old","since":"2026-12-24T18:00:00.000000Z",` +
		`"steps":[{"at":"2026-12-24T18:00:00.000000Z","phase":"shadow","actor":"ada","reason":"Redis goes away"}]}`
)

// Bodies that hold a document of a user's may be so large.
const (
	bodyJob     = daybook.ArgsMax + 64<<10
	bodyResult  = 4 << 20 // a result past its limit must reach the book, which says so in the attempt
	bodyOutcome = daybook.BatchBytesMax
)

var (
	limitParam  = param{name: "limit", kind: "integer", about: "how many at most (1…1000)"}
	cursorParam = param{name: "cursor", kind: "string", about: "go on behind the page that answered this"}
)

// traceHeaders are those of W3C Trace Context. What breaks the standard is
// ignored, as that says.
var traceHeaders = []param{
	{name: "traceparent", kind: "string", about: "trace that jobs without a traceparent of their own belong to"},
	{name: "tracestate", kind: "string", about: "and what goes with it"},
}

func words[T ~string](of []T) []string {
	out := make([]string, len(of))
	for i, w := range of {
		out[i] = string(w)
	}
	return out
}

// table is the API.
func (s *Server) table() []route {
	var all []route
	for _, part := range [][]route{s.jobRoutes(), s.decideRoutes(), s.holdRoutes(), s.claimRoutes(),
		s.sessionRoutes(), s.outcomeRoutes(), s.effectRoutes(), s.seeRoutes(), s.ownRoutes()} {
		all = append(all, part...)
	}
	return all
}

func (s *Server) jobRoutes() []route {
	one := post(daybook.ScopeEnqueue, "/v1/jobs", "enqueue", "Put one job in",
		func(*call, none) (r daybook.Receipt, err error) { return r, err }).
		most(bodyJob).
		shows(`{"queue":"mail","kind":"welcome","args":{"to":"ada@example.org"},"key":"signup-4711"}`,
			`{"id":"`+egID+`","replayed":false}`)
	one.in = reflect.TypeFor[JobBody]()
	one.do = func(c *call) (any, error) { return s.enqueue(c) }
	one.header = []param{{name: keyHeader, kind: "string", about: `request key, "a1" or a1: the same key with the same ` +
		"queue, kind and args (whatever the order of keys, 1.0 as 1) is the same job; other input is key_conflict. " +
		"It expires 30 days after the job's end, or with its row if that is later: then it is a new request"}}
	one.header = append(one.header, traceHeaders...)
	one.also = []int{http.StatusCreated}
	many := post(daybook.ScopeEnqueue, "/v1/jobs/batch", "enqueueBatch", "Put many jobs in, all or none", s.enqueueBatch).
		most(daybook.BatchBytesMax).
		shows(`[{"queue":"mail","kind":"welcome","args":{"n":1}},{"queue":"mail","kind":"welcome","args":{"n":2}}]`,
			`{"jobs":[{"id":"`+egID+`","replayed":false},{"id":"0190a2b4-7c1e-7000-8000-000000000002","replayed":false}]}`)
	many.in, many.header = reflect.TypeFor[[]JobBody](), traceHeaders
	return []route{one, many,
		get("/v1/jobs", "listJobs", "List jobs: waiting ones in the order they run, else the newest first", s.jobs).
			asks(param{name: "queue", kind: "string", about: "only of this queue"},
				param{name: "kind", kind: "string", about: "only of this kind"},
				param{name: "state", kind: "string", about: "only in this state", words: words(daybook.States)},
				param{name: "reason", kind: "string", about: "only set aside for this", words: words(daybook.Reasons)},
				param{name: "key", kind: "string", about: "only the job of this request key"},
				param{name: "held", kind: "boolean", about: "only held ones"}, limitParam, cursorParam).
			shows("", `{"jobs":[`+egWaiting+`],"cursor":""}`),
		get("/v1/jobs/{id}", "getJob", "Show one job", s.job).shows("", egWaiting),
		get("/v1/jobs/{id}/timeline", "getTimeline", "List all that happened to a job", s.timeline).
			shows("", `{"events":[{"at":"2026-12-24T18:00:00.000000Z","what":"accepted",`+
				`"detail":"queue mail, kind welcome"}]}`),
		get("/v1/jobs/{id}/why", "whyJob", "Say why a job stands where it stands", s.why).
			shows("", `{"id":"`+egID+`","state":"waiting","because":"ready","since":"2026-12-24T18:00:00.000000Z",`+
				`"sentence":"ready since 2026-12-24T18:00:00.000000Z; a worker will claim it"}`),
		get("/v1/jobs/{id}/attempts", "listAttempts", "List a job's attempts that ended", s.attempts).
			shows("", `{"attempts":[{"generation":1,"session":"`+egSession+`","worker":"mailer-1",`+
				`"claimed_at":"2026-12-24T18:00:01.000000Z","ended_at":"2026-12-24T18:00:02.000000Z",`+
				`"outcome":"failed","error":{"text":"no such address"}}]}`),
	}
}

func (s *Server) decideRoutes() []route {
	return []route{
		post(daybook.ScopeOperate, "/v1/jobs/{id}/cancel", "cancelJob", "Cancel a job; a running one is asked to stop",
			s.cancel).shows(`{"force":false,"reason":"sent by hand"}`, egWaiting),
		post(daybook.ScopeOperate, "/v1/jobs/{id}/revive", "reviveJob", "Send a job that ended back to waiting", s.revive).
			shows(egReason, egWaiting),
		post(daybook.ScopeOperate, "/v1/jobs/cancel", "cancelJobs", "Cancel all jobs that a filter matches", s.cancelMany).
			takesLong().shows(`{"filter":{"queue":"mail","state":"waiting"},"reason":"campaign called off"}`,
			`{"states":["waiting"],"matched":2,"done":2}`),
		post(daybook.ScopeOperate, "/v1/jobs/revive", "reviveJobs", "Revive all jobs that a filter matches", s.reviveMany).
			takesLong().shows(`{"filter":{"queue":"mail","reason":"failures"},"dry_run":true}`,
			`{"states":["set_aside"],"matched":2,"done":0,"review":{"matched":2,"safe":2,"unsafe":[]},"dry_run":true}`),
	}
}

func (s *Server) claimRoutes() []route {
	claim := post(daybook.ScopeWork, "/v1/claims", "claim", "Claim waiting jobs, or wait for some", s.claim).most(1<<20).
		shows(`{"queues":["mail"],"worker":"mailer-1","limit":10,"lease_seconds":30,"wait_seconds":20}`, egClaims)
	one := post(daybook.ScopeWork, "/v1/jobs/{id}/claim", "claimJob", "Claim the job that a message named", s.claimJob).
		most(1<<20).shows(`{"worker":"mailer-1"}`, egClaims)
	key := []param{{name: keyHeader, kind: "string", about: "the same call with the same key gives the same claims " +
		"again, as long as the session owns them"}}
	claim.header, one.header = key, key
	return []route{claim, one,
		post(daybook.ScopeWork, "/v1/sessions/{session}/renew", "renew", "Extend a session's lease for all it claimed",
			s.renew).most(2<<20).mayLackBody().shows(`{"claims":[`+egRef+`]}`,
			`{"lease_until":"2026-12-24T18:00:31.000000Z","lost":[],"cancel":[`+egRef+`]}`),
		post(daybook.ScopeWork, "/v1/sessions/{session}/started", "started", "Record that handlers begin", s.started).
			most(2<<20).shows(`[`+egRef+`]`, ""),
		post(daybook.ScopeWork, "/v1/sessions/{session}/end", "endSession",
			"End a session, and give back what it still owns", s.endSession).mayLackBody(),
	}
}

func (s *Server) outcomeRoutes() []route {
	return []route{
		post(daybook.ScopeWork, "/v1/jobs/{id}/complete", "complete", "End an attempt well", s.complete).most(bodyResult).
			shows(`{`+egOwner+`,"result":{"sent":true}}`, egEnded),
		post(daybook.ScopeWork, "/v1/jobs/{id}/fail", "fail", "End an attempt that failed", s.fail).most(bodyResult).
			shows(`{`+egOwner+`,"error":"no such address","retry_in_seconds":60}`,
				`{"id":"`+egID+`","state":"waiting","already":false}`),
		post(daybook.ScopeWork, "/v1/jobs/{id}/release", "release", "Give a claim back without blame", s.release).
			shows(`{`+egOwner+`,"in_seconds":10}`, `{"id":"`+egID+`","state":"waiting","already":false}`),
		post(daybook.ScopeWork, "/v1/jobs/{id}/progress", "progress", "Say how far an attempt is", s.progress).
			shows(`{`+egOwner+`,"progress":{"sent":3,"of":10}}`, ""),
		post(daybook.ScopeWork, "/v1/outcomes", "outcomes", "End many attempts, each with an answer of its own",
			s.outcomes).most(bodyOutcome).
			shows(`[{"id":"`+egID+`",`+egOwner+`,"outcome":"succeeded","result":{"sent":true}}]`, `[`+egEnded+`]`),
	}
}

func (s *Server) effectRoutes() []route {
	return []route{
		post(daybook.ScopeWork, "/v1/jobs/{id}/effects/{name}/begin", "beginEffect",
			"Ask leave to do something outside, and record that it begins", s.begin).
			shows(`{`+egOwner+`,"policy":"keyed","window_seconds":86400}`,
				`{"decision":"call","key":"9f86d081884c7d659a2feaa0c55ad015","call_until":"2026-12-24T18:00:31.000000Z"}`),
		post(daybook.ScopeWork, "/v1/jobs/{id}/effects/{name}/finish", "finishEffect",
			"Record what an outside call, or a probe, came to", s.finish).most(bodyResult).
			shows(`{`+egOwner+`,"outcome":"done","result":{"charge":"ch_1"}}`, `{"state":"done","job":"running"}`),
		post(daybook.ScopeOperate, "/v1/jobs/{id}/effects/{name}/settle", "settleEffect",
			"Say what an open effect did, so that its job can go on", s.settle).most(bodyResult).
			shows(`{"generation":1,"outcome":"absent","reason":"not on the statement"}`, egWaiting),
		get("/v1/effects", "listEffects", "List the effects that jobs recorded", s.effects).
			asks(param{name: "open", kind: "boolean", about: "only those that nobody knows the end of"},
				param{name: "job", kind: idKind, about: "only of this job"}, limitParam, cursorParam).
			shows("", `{"effects":[`+egEffect+`],"cursor":""}`),
	}
}

// Examples of a cutover: its phase board, and one of the old system's jobs.
const (
	egBoard = `{"cutover":` + egCutover + `,"plan":{"intake":"deploy","owners":"finish","owners_wait_seconds":600,` +
		`"rollback":[]},"notes":{},"what":"The old system works; what it does is watched.","balance":{"seen":120,` +
		`"arrived":3,"returned":0,"again":0,"still":100,"moved":0,"finished":20,"dead":0,"open":0,"kept":0,` +
		`"inferred":0,"balanced":true},"questions":[],"gauges":[],"next":["gate"]}`
	egItem = `{"id":"4f1c0a9d","occurrence":1,"first":"waiting","last":"waiting","class":"Welcome","term":"still",` +
		`"hash":"9b74c9897bac770f","place":0,"arrived":false,"asked":false,"proved":false,` +
		`"first_at":"2026-12-24T18:00:00.000000Z"}`
)

// egNumbers are a queue in numbers, for examples.
const egNumbers = `"queue":"mail","paused":false,"eligible":2,"later":1,"held":0,"oldest_eligible_seconds":0.8,` +
	`"set_aside_reasons":{"permanent":1},"open_effects":0,"doubled_effects":0,"kinds":[{"kind":"welcome","eligible":2,` +
	`"later":1,"held":0,"running":1,"oldest_eligible_at":"2026-12-24T18:00:14.200000Z"}],"waiting":3,"running":1,` +
	`"set_aside":1,"succeeded":40,"cancelled":0,"expired":0,"moved_out":0,"accepted":45,"moved_in":0,"attempts":44,` +
	`"ever_set_aside":1,"ever_cancelled":0,"ever_expired":0,"revived":0`

func (s *Server) seeRoutes() []route {
	all := []route{
		get("/v1/backlog", "getBacklog", "Show every queue in numbers", s.backlog).takesLong().
			shows("", `{"at":"2026-12-24T18:00:15.000000Z","queues":[{`+egNumbers+`}]}`),
		get("/v1/inventory", "getInventory", "Show what the book has, and beside it what lies in the bell", s.inventory).
			takesLong().shows("", `{"at":"2026-12-24T18:00:15.000000Z","sentence":"A ring only says that its queue has work.",`+
			`"queues":[{`+egNumbers+`,"rings":1}],"strays":[],"outbox_age_seconds":0}`),
		get("/v1/queues", "listQueues", "List the queues, and which are paused", s.queues).
			shows("", `{"queues":[{"name":"mail","paused":false}]}`),
		post(daybook.ScopeOperate, "/v1/queues/{queue}/pause", "pauseQueue", "Stop claims from a queue", s.pause).
			shows(`{"reason":"relay is down"}`, `{"name":"mail","paused":true}`),
		post(daybook.ScopeOperate, "/v1/queues/{queue}/resume", "resumeQueue", "Let claims take from a queue again",
			s.resume).shows(`{"reason":"relay is back"}`, `{"name":"mail","paused":false}`),
		get("/v1/sessions", "listSessions", "List the workers' sessions", s.sessions).
			asks(param{name: "worker", kind: "string", about: "only of this worker"},
				param{name: "ended", kind: "boolean", about: "ended ones too"}, limitParam).
			shows("", `{"at":"2026-12-24T18:00:15.000000Z","sessions":[{"id":"`+egSession+`","worker":"mailer-1",`+
				`"started_at":"2026-12-24T18:00:00.000000Z",`+
				`"renewed_at":"2026-12-24T18:00:10.000000Z","lease_until":"2026-12-24T18:00:40.000000Z","running":1}]}`),
	}
	all = append(all,
		get("/v1/cutovers", "listCutovers", "List the queues that move in from other systems", s.cutovers).
			shows("", `{"cutovers":[`+egCutover+`]}`),
		get("/v1/cutovers/{name}", "getCutover", "Show a cutover's phase board", s.cutover).shows("", egBoard),
		get("/v1/cutovers/{name}/items", "listCutoverItems", "List an old system's jobs, and what became of each",
			s.cutoverItems).asks(limitParam, cursorParam,
			param{name: "id", kind: "string", about: "only of this id in the old system"},
			param{name: "term", kind: "string", about: "only of this term of the balance", words: words(daybook.Terms)}).
			shows("", `{"items":[`+egItem+`],"cursor":""}`))
	if s.opts.Check != nil {
		check := get("/v1/check", "check", "Hold the book to its invariants, reading only", s.check).takesLong().
			asks(param{name: "full", kind: "boolean", about: "walk all rows, not only live ones and what ended lately"}).
			shows("", `{"violations":0,"full":false,"invariants":[{"name":"one-place",`+
				`"sentence":"A job stands in exactly one place.","rows":0,"walked":2}]}`)
		check.out = reflect.TypeFor[Checked]()
		all = append(all, check)
	}
	return all
}

// ownRoutes are about the server itself.
func (s *Server) ownRoutes() []route {
	health := get("/healthz", "healthz", "Say that the process lives", s.health).shows("", `{"status":"ok"}`)
	ready := get("/readyz", "readyz", "Say whether database and schema are there", s.ready).
		shows("", `{"status":"ready"}`)
	openapi := get("/openapi.json", "openapi", "This description", s.openapi)
	docs := get("/docs", "docs", "This description, for people", s.docs)
	docs.media = "text/html"
	all := []route{health, ready, openapi, docs}
	for i := range all {
		all[i].scope = ""
	}
	if s.opts.Metrics != nil {
		metrics := get("/metrics", "metrics", "Numbers for Prometheus", through(s.opts.Metrics))
		metrics.media = "text/plain"
		metrics.away = true // that it is away is what they say then
		all = append(all, metrics)
	}
	return all
}
