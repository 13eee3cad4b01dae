package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// JobBody asks for one job. It is here for the description: daybook.DecodeRequest
// reads it, the same as a line of enqueue --from.
type JobBody struct {
	Queue          string          `json:"queue" pattern:"^[A-Za-z0-9._:-]{1,128}$" doc:"the lane it waits in"`
	Kind           string          `json:"kind" pattern:"^[A-Za-z0-9._:-]{1,128}$" doc:"what sort of job it is"`
	Args           json.RawMessage `json:"args,omitempty" doc:"its input, any JSON document of at most 1 MiB; {} without"`
	ID             *daybook.ID     `json:"id,omitempty" doc:"chosen by the caller; the same again is a replay"`
	Key            *string         `json:"key,omitempty" minLength:"1" maxLength:"255" doc:"or Idempotency-Key"`
	RunAt          *daybook.Time   `json:"run_at,omitempty" doc:"not before this time"`
	InSeconds      *float64        `json:"in_seconds,omitempty" minimum:"0" doc:"not before so much later; or run_at"`
	ExpiresAt      *daybook.Time   `json:"expires_at,omitempty" doc:"never started after this"`
	Priority       *int            `json:"priority,omitempty" minimum:"-32768" maximum:"32767" doc:"higher first"`
	MaxFailures    *int            `json:"max_failures,omitempty" minimum:"1" maximum:"10000" doc:"20 without"`
	OnLost         *daybook.OnLost `json:"on_lost,omitempty" enum:"retry,set_aside" doc:"retry without"`
	TimeoutSeconds *float64        `json:"timeout_seconds,omitempty" minimum:"0.001" doc:"run limit; 24 h without"`
	Traceparent    *string         `json:"traceparent,omitempty" doc:"W3C Trace Context; that of the call without"`
	Tracestate     *string         `json:"tracestate,omitempty" doc:"and what goes with it, at most 512 bytes"`
}

// Receipts answer a batch.
type Receipts struct {
	Jobs []daybook.Receipt `json:"jobs" doc:"in the order of the requests"`
}

// keyHeader is the request key's header (IETF draft httpapi-idempotency-key).
const keyHeader = "Idempotency-Key"

// idempotencyKey reads the key of a call: a quoted string of RFC 8941, as the
// draft wants it, or the same without quotes. "" is none.
func (c *call) idempotencyKey() (string, error) {
	given := c.r.Header.Values(keyHeader)
	if len(given) == 0 {
		return "", nil
	}
	bad := func(text string) (string, error) {
		return "", problem(daybook.CodeMalformed, keyHeader+" "+text).parameter(keyHeader)
	}
	if len(given) > 1 {
		return bad("is given twice")
	}
	key := strings.TrimSpace(given[0])
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquote(key); !ok {
			return bad(`wants a string in quotes, with \" and \\ only behind a backslash`)
		}
	}
	if key == "" {
		return bad("is empty; leave it out for no key")
	}
	if err := daybook.CheckKey(key); err != nil {
		return "", problem(daybook.CodeInvalid, keyHeader+": "+errText(err)).parameter(keyHeader)
	}
	return key, nil
}

// errText is what an error of the book says of a field.
func errText(err error) string {
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		text, _ := clean(e)
		return text
	}
	return "can't be"
}

// fieldIn is the field that an error of the book blames.
func fieldIn(err error) string {
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		return e.Field
	}
	return ""
}

// unquote reads a whole string of RFC 8941.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}

// rivalMax is how long a call waits for another one with the same key.
const rivalMax = 2 * time.Second

func (s *Server) enqueue(c *call) (daybook.Receipt, error) {
	key, err := c.idempotencyKey()
	if err != nil {
		return daybook.Receipt{}, err
	}
	request, err := daybook.DecodeRequest(c.body)
	if err != nil {
		return daybook.Receipt{}, err
	}
	if key != "" && request.Key != "" && key != request.Key {
		return daybook.Receipt{}, daybook.Invalid("key", "is another one than %s says", keyHeader)
	}
	if key != "" {
		request.Key = key
	}
	receipt, err := s.enqueueBeside(c, request)
	if key != "" && daybook.CodeOf(err) == daybook.CodeKeyConflict && fieldIn(err) == "key" {
		err = problem(daybook.CodeKeyConflict, keyHeader+": "+errText(err)).parameter(keyHeader)
	}
	if err != nil {
		return receipt, err
	}
	c.w.Header().Set("Location", "/v1/jobs/"+receipt.ID.String())
	c.status = http.StatusCreated
	if receipt.Replayed {
		c.status = http.StatusOK
		c.w.Header().Set("Idempotency-Replayed", "true")
	}
	return receipt, nil
}

// enqueueBeside enqueues, and waits for a rival with the same key only so long.
func (s *Server) enqueueBeside(c *call, request daybook.Request) (daybook.Receipt, error) {
	if request.Key == "" {
		return s.book.Enqueue(c.ctx(), request)
	}
	ctx, cancel := context.WithTimeout(c.ctx(), rivalMax)
	defer cancel()
	receipt, err := s.book.Enqueue(ctx, request)
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		err = daybook.Fail(daybook.CodeBusy, "another call with this key is under way; send the same again")
	}
	return receipt, err
}

func (s *Server) enqueueBatch(c *call, in []json.RawMessage) (Receipts, error) {
	if c.r.Header.Get(keyHeader) != "" {
		return Receipts{}, problem(daybook.CodeInvalid, "a batch has no key of its own; give each job its key").
			parameter(keyHeader)
	}
	requests := make([]daybook.Request, len(in))
	for i, doc := range in {
		var err error
		if requests[i], err = daybook.DecodeRequest(doc); err != nil {
			return Receipts{}, problemOf(err, "/"+strconv.Itoa(i))
		}
	}
	if len(requests) == 0 {
		return Receipts{Jobs: []daybook.Receipt{}}, nil
	}
	receipts, err := s.book.EnqueueMany(c.ctx(), requests)
	if err != nil && len(requests) == 1 { // a batch of one is refused bare
		return Receipts{}, problemOf(err, "/0")
	}
	return Receipts{receipts}, err
}

// JobPage is part of a list.
type JobPage struct {
	Jobs   []daybook.Job `json:"jobs"`
	Cursor string        `json:"cursor" doc:"give it to read on; empty on the last page"`
}

func (s *Server) jobs(c *call) (JobPage, error) {
	limit, cursor, err := c.page()
	if err != nil {
		return JobPage{}, err
	}
	page, err := s.book.Jobs(c.ctx(), daybook.Filter{Queue: c.asked("queue"), Kind: c.asked("kind"),
		State: daybook.State(c.asked("state")), Reason: daybook.Reason(c.asked("reason")), Key: c.asked("key"),
		Held: c.asked("held") == "true", Limit: limit, Cursor: cursor})
	return JobPage{orEmpty(page.Items), page.Cursor}, inQuery(err)
}

// inQuery blames a parameter for what the book says of a filter.
func inQuery(err error) error {
	e, ok := errors.AsType[*daybook.Error](err)
	if !ok || e.Field == "" {
		return err
	}
	return problem(e.Code, e.Field+": "+errText(e)).parameter(e.Field)
}

func (s *Server) job(c *call) (daybook.Job, error) {
	id, err := c.id("id")
	if err != nil {
		return daybook.Job{}, err
	}
	return s.book.Job(c.ctx(), id)
}

// Timeline is all that happened to a job.
type Timeline struct {
	Events []daybook.Event `json:"events" doc:"in time order"`
}

func (s *Server) timeline(c *call) (Timeline, error) {
	id, err := c.id("id")
	if err != nil {
		return Timeline{}, err
	}
	events, err := s.book.Timeline(c.ctx(), id)
	return Timeline{orEmpty(events)}, err
}

func (s *Server) why(c *call) (daybook.Why, error) {
	id, err := c.id("id")
	if err != nil {
		return daybook.Why{}, err
	}
	return s.book.Why(c.ctx(), id)
}

// Attempts are a job's attempts that ended.
type Attempts struct {
	Attempts []daybook.Attempt `json:"attempts" doc:"the oldest first; runs of releases are folded"`
}

func (s *Server) attempts(c *call) (Attempts, error) {
	id, err := c.id("id")
	if err != nil {
		return Attempts{}, err
	}
	attempts, err := s.book.Attempts(c.ctx(), id)
	return Attempts{orEmpty(attempts)}, err
}

// What people decide.

// DecideBody is a decision about a queue.
type DecideBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1024" doc:"why, for the record: 1–1024 bytes"`
}

// ReviveBody sends one job back to waiting.
type ReviveBody struct {
	Unsafe bool   `json:"unsafe,omitempty" doc:"also if its work happened, as a person said"`
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"why, for the record: 1–1024 bytes; a dry run needs none"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only answer with the job as it would become"`
}

// CancelBody is a cancel of one job.
type CancelBody struct {
	Force  bool   `json:"force,omitempty" doc:"revoke a running claim at once instead of asking"`
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"why, for the record: 1–1024 bytes; a dry run needs none"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only answer with the job as it would become"`
}

func (s *Server) cancel(c *call, in CancelBody) (daybook.Job, error) {
	k := daybook.Bulk{Move: daybook.MoveCancel, Force: in.Force}
	return s.decide(c, in.Reason, in.DryRun, k, func(id daybook.ID, by daybook.By) (daybook.Job, error) {
		return s.book.Cancel(c.ctx(), id, by, in.Force)
	})
}

func (s *Server) revive(c *call, in ReviveBody) (daybook.Job, error) {
	k := daybook.Bulk{Move: daybook.MoveRevive, Unsafe: in.Unsafe}
	return s.decide(c, in.Reason, in.DryRun, k, func(id daybook.ID, by daybook.By) (daybook.Job, error) {
		if in.Unsafe {
			return s.book.ReviveUnsafe(c.ctx(), id, by)
		}
		return s.book.Revive(c.ctx(), id, by)
	})
}

// decide carries one decision about one job out, or only says what would come
// of it.
func (s *Server) decide(c *call, reason string, dryRun bool, k daybook.Bulk,
	do func(id daybook.ID, by daybook.By) (daybook.Job, error)) (job daybook.Job, err error) {
	id, err := c.id("id")
	if err != nil {
		return job, err
	}
	by, err := c.byIf(!dryRun, reason)
	if err != nil {
		return job, err
	}
	if dryRun {
		k.By = by
		return s.book.Preview(c.ctx(), id, k)
	}
	return do(id, by)
}

// FilterBody selects jobs. What is given has to say something; see place.
type FilterBody struct {
	Queue  string         `json:"queue,omitempty" filled:"true" minLength:"1"`
	Kind   string         `json:"kind,omitempty" filled:"true" minLength:"1"`
	State  daybook.State  `json:"state,omitempty" filled:"true" enum:"waiting,running,set_aside,cancelled,expired"`
	Reason daybook.Reason `json:"reason,omitempty" filled:"true" doc:"why it is set aside"`
	Key    string         `json:"key,omitempty" filled:"true" minLength:"1"`
}

// BulkBody is a decision about all jobs that a filter matches.
type BulkBody struct {
	Filter FilterBody `json:"filter" doc:"at least one of its fields"`
	Reason string     `json:"reason,omitempty" maxLength:"1024" doc:"why: 1–1024 bytes; a dry run needs none"`
	DryRun bool       `json:"dry_run,omitempty" doc:"only say what it would do"`
	Force  bool       `json:"force,omitempty" doc:"of cancel: revoke running claims at once"`
	Unsafe bool       `json:"unsafe,omitempty" doc:"of revive: also jobs whose work happened"`
}

// BulkAnswer says what came of it, or would.
type BulkAnswer struct {
	States []daybook.State `json:"states" doc:"that were looked at"`
	daybook.BulkAnswer
	Review *daybook.Review `json:"review,omitempty" doc:"of revive: what is safe, and why the rest is not"`
	DryRun bool            `json:"dry_run,omitempty"`
}

// bulk decides about many. Without a state it looks at those given.
func (s *Server) bulk(c *call, in BulkBody, move daybook.Move, states ...daybook.State) (out BulkAnswer, err error) {
	f := in.Filter
	if f == (FilterBody{}) {
		return out, daybook.Invalid("filter", "is empty; say which jobs, at least by queue or state")
	}
	if f.State != "" {
		states = []daybook.State{f.State}
	}
	if f.Reason != "" && !slices.Contains(daybook.Reasons, f.Reason) {
		return out, problem(daybook.CodeInvalid, "reason is none that jobs are set aside for").at("#/filter/reason")
	}
	by, err := c.byIf(!in.DryRun, in.Reason)
	if err != nil {
		return out, err
	}
	out = BulkAnswer{States: states, DryRun: in.DryRun}
	out.Refused = map[daybook.Code]int64{}
	for _, state := range states {
		filter := daybook.Filter{Queue: f.Queue, Kind: f.Kind, State: state, Reason: f.Reason, Key: f.Key,
			Held: move == daybook.MoveUnhold}
		if err := filter.Check(); err != nil {
			return out, problem(daybook.CodeInvalid, errText(err)).at("#/filter/state")
		}
		if err := s.bulkOf(c, in, move, filter, by, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s *Server) bulkOf(c *call, in BulkBody, move daybook.Move, f daybook.Filter, by daybook.By,
	out *BulkAnswer) error {
	if move == daybook.MoveRevive && daybook.Allowed(move, f.State, daybook.Waiting) {
		review, err := s.book.Review(c.ctx(), f)
		if err != nil {
			return err
		}
		out.Review = &review
		if in.DryRun {
			out.Matched += review.Matched
			return nil
		}
	}
	if in.DryRun {
		n, err := s.book.Count(c.ctx(), f)
		out.Matched += n
		return err
	}
	answer, err := s.book.Decide(c.ctx(), daybook.Bulk{Move: move, Filter: f, By: by, Force: in.Force,
		Unsafe: in.Unsafe})
	out.Matched += answer.Matched
	out.Done += answer.Done
	for code, n := range answer.Refused {
		out.Refused[code] += n
	}
	if out.First == "" {
		out.First = answer.First
	}
	return err
}

func (s *Server) cancelMany(c *call, in BulkBody) (BulkAnswer, error) {
	return s.bulk(c, in, daybook.MoveCancel, daybook.Running, daybook.SetAside, daybook.Waiting)
}

func (s *Server) reviveMany(c *call, in BulkBody) (BulkAnswer, error) {
	return s.bulk(c, in, daybook.MoveRevive, daybook.SetAside)
}
