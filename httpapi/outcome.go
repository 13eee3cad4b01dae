package httpapi

import (
	"encoding/json"
	"time"

	"github.com/daybookdev/daybook"
)

// Owner names the claim that an owner's write belongs to.
type Owner struct {
	Session    daybook.ID `json:"session"`
	Generation int64      `json:"generation" minimum:"1"`
}

func (o Owner) owner() (daybook.Owner, error) {
	switch {
	case o.Session.IsZero():
		return daybook.Owner{}, daybook.Invalid("session", "is missing; give the session that claimed the job")
	case o.Generation < 1:
		return daybook.Owner{}, daybook.Invalid("generation", "wants the claim's generation, 1 or more")
	}
	return daybook.Owner{Session: o.Session, Generation: o.Generation}, nil
}

// owned reads whose write it is.
func (c *call) owned(o Owner) (id daybook.ID, owner daybook.Owner, err error) {
	if id, err = c.id("id"); err != nil {
		return id, owner, err
	}
	owner, err = o.owner()
	return id, owner, err
}

// Ended says what became of an outcome.
type Ended struct {
	ID      daybook.ID    `json:"id"`
	State   daybook.State `json:"state" doc:"of the job now"`
	Already bool          `json:"already" doc:"it was recorded before: what was said first stays"`
}

func ended(a daybook.Answer, err error) (Ended, error) { return Ended{a.Job, a.State, a.Already}, err }

// CompleteBody ends an attempt well.
type CompleteBody struct {
	Owner
	Result json.RawMessage `json:"result,omitempty" doc:"any JSON document, at most 1 MiB"`
}

func (s *Server) complete(c *call, in CompleteBody) (Ended, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return Ended{}, err
	}
	return ended(s.book.Complete(c.ctx(), id, owner, in.Result))
}

// FailBody ends an attempt that failed.
type FailBody struct {
	Owner
	Error          *string  `json:"error" mended:"true" nullable:"false" doc:"what went wrong; cut past 16 KiB and marked"`
	ErrorKind      string   `json:"error_kind,omitempty" mended:"true" doc:"a class of errors, like a type's name"`
	Trace          string   `json:"trace,omitempty" mended:"true" doc:"where it happened; cut like error"`
	Cut            bool     `json:"cut,omitempty" doc:"the error's text was cut before"`
	Permanent      bool     `json:"permanent,omitempty" doc:"trying again is useless: set aside"`
	RetryInSeconds *float64 `json:"retry_in_seconds,omitempty" minimum:"0" doc:"else a growing pause"`
}

func (b FailBody) retryIn() (*time.Duration, error) {
	if b.RetryInSeconds == nil {
		return nil, nil
	}
	d, err := daybook.Seconds("retry_in_seconds", *b.RetryInSeconds)
	return &d, err
}

// problem is the error as the book keeps it.
func (b FailBody) problem() *daybook.Problem {
	text := ""
	if b.Error != nil {
		text = *b.Error
	}
	p := daybook.NewProblem(text, b.ErrorKind, b.Trace)
	p.Cut = p.Cut || b.Cut
	return p
}

func (s *Server) fail(c *call, in FailBody) (Ended, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return Ended{}, err
	}
	if in.Error == nil {
		return Ended{}, daybook.Invalid("error", "is missing; say what went wrong")
	}
	retryIn, err := in.retryIn()
	if err != nil {
		return Ended{}, err
	}
	f := daybook.Failure{Problem: in.problem(), Permanent: in.Permanent}
	return ended(s.book.Fail(c.ctx(), id, owner, f, retryIn))
}

// ReleaseBody gives a claim back.
type ReleaseBody struct {
	Owner
	InSeconds *float64 `json:"in_seconds,omitempty" minimum:"0" doc:"not before so much later; now without"`
}

func (s *Server) release(c *call, in ReleaseBody) (Ended, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return Ended{}, err
	}
	d, err := seconds("in_seconds", in.InSeconds)
	if err != nil {
		return Ended{}, err
	}
	return ended(s.book.Release(c.ctx(), id, owner, d))
}

// ProgressBody says how far an attempt is.
type ProgressBody struct {
	Owner
	Progress json.RawMessage `json:"progress" doc:"any JSON document, at most 4 KiB; it replaces the one before"`
}

func (s *Server) progress(c *call, in ProgressBody) (none, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return none{}, err
	}
	if len(in.Progress) == 0 {
		return none{}, daybook.Invalid("progress", "is missing; it wants a JSON document")
	}
	return none{}, s.book.Progress(c.ctx(), id, owner, in.Progress)
}

// OutcomeRow is how one attempt of a batch ended.
type OutcomeRow struct {
	ID daybook.ID `json:"id"`
	FailBody
	Error     string              `json:"error,omitempty" mended:"true" doc:"of failed"` // FailBody requires its own
	Outcome   daybook.OutcomeKind `json:"outcome" enum:"succeeded,failed,released"`
	Result    json.RawMessage     `json:"result,omitempty" doc:"of succeeded"`
	InSeconds *float64            `json:"in_seconds,omitempty" minimum:"0" doc:"of released"`
	Reason    daybook.Reason      `json:"reason,omitempty" enum:"permanent,timeout,undecodable" doc:"if permanent"`
}

// OutcomeAnswer says what became of one row.
type OutcomeAnswer struct {
	ID      daybook.ID    `json:"id"`
	State   daybook.State `json:"state,omitempty"`
	Already bool          `json:"already"`
	Code    daybook.Code  `json:"code,omitempty" doc:"why it was refused; without, it is recorded"`
	Detail  string        `json:"detail,omitempty"`
}

func (b OutcomeRow) outcome() (o daybook.Outcome, err error) {
	if b.ID.IsZero() {
		return o, daybook.Invalid("id", "is missing; name the job")
	}
	switch b.Outcome {
	case daybook.OutcomeSucceeded, daybook.OutcomeFailed, daybook.OutcomeReleased:
	default: // before what belongs to it
		return o, daybook.Invalid("outcome", "wants succeeded, failed or released")
	}
	o = daybook.Outcome{Job: b.ID, Kind: b.Outcome, Result: b.Result, Permanent: b.Permanent}
	switch o.Reason = b.Reason; b.Reason {
	case "", daybook.ReasonPermanent, daybook.ReasonTimeout, daybook.ReasonUndecodable:
	default:
		return o, daybook.Invalid("reason", "wants permanent, timeout or undecodable")
	}
	if o.Owner, err = b.owner(); err != nil {
		return o, err
	}
	if err = b.belongs(); err != nil {
		return o, err
	}
	if o.RetryIn, err = b.retryIn(); err != nil {
		return o, err
	}
	if b.Outcome == daybook.OutcomeFailed {
		failed := b.FailBody
		failed.Error = &b.Error // the row's own hides it
		o.Problem = failed.problem()
	}
	o.In, err = seconds("in_seconds", b.InSeconds)
	return o, err
}

// belongs refuses what another outcome takes. Left aside it would be lost in
// silence: a pause that isn't made, a result that isn't kept, an error unseen.
func (b OutcomeRow) belongs() error {
	failed, released := b.Outcome == daybook.OutcomeFailed, b.Outcome == daybook.OutcomeReleased
	switch {
	case b.Result != nil && string(b.Result) != "null" && (failed || released):
		return daybook.Invalid("result", "belongs to succeeded; this is %s", b.Outcome)
	case b.InSeconds != nil && !released:
		return daybook.Invalid("in_seconds", "belongs to released; failed takes retry_in_seconds")
	case failed:
		return nil
	case b.RetryInSeconds != nil:
		return daybook.Invalid("retry_in_seconds", "belongs to failed; released takes in_seconds")
	case b.Error != "" || b.ErrorKind != "" || b.Trace != "":
		return daybook.Invalid("error", "belongs to failed; this is %s", b.Outcome)
	case b.Permanent || b.Reason != "":
		return daybook.Invalid("permanent", "belongs to failed; this is %s", b.Outcome)
	}
	return nil
}

// outcomes records a batch. A row that can't be meant is answered like one that
// is refused: the others' work is done and must be recorded.
func (s *Server) outcomes(c *call, in []OutcomeRow) ([]OutcomeAnswer, error) {
	answers := make([]OutcomeAnswer, len(in))
	refused := func(i int, err error) {
		p := problemOf(err, "")
		answers[i].Code, answers[i].Detail = p.Code, p.Detail
	}
	var good []daybook.Outcome
	var places []int
	for i, row := range in {
		answers[i].ID = row.ID
		o, err := row.outcome()
		if err != nil {
			refused(i, err)
			continue
		}
		good, places = append(good, o), append(places, i)
	}
	got, err := s.book.Finish(c.ctx(), good)
	if err != nil {
		return nil, err
	}
	for n, a := range got {
		i := places[n]
		if a.Err != nil {
			refused(i, a.Err)
			continue
		}
		answers[i].State, answers[i].Already = a.State, a.Already
	}
	return answers, nil
}
