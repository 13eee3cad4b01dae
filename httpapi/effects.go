package httpapi

import (
	"encoding/json"

	"github.com/daybookdev/daybook"
)

// EffectPage is part of the ledger.
type EffectPage struct {
	Effects []daybook.Effect `json:"effects"`
	Cursor  string           `json:"cursor" doc:"give it to read on; empty on the last page"`
}

func (s *Server) effects(c *call) (EffectPage, error) {
	limit, cursor, err := c.page()
	if err != nil {
		return EffectPage{}, err
	}
	filter := daybook.EffectFilter{Open: c.asked("open") == "true", Limit: limit, Cursor: cursor}
	if job := c.asked("job"); job != "" {
		if filter.Job, err = daybook.ParseID(job); err != nil {
			return EffectPage{}, problem(daybook.CodeInvalid, "job wants a UUID").parameter("job")
		}
	}
	page, err := s.book.Effects(c.ctx(), filter)
	return EffectPage{orEmpty(page.Items), page.Cursor}, inQuery(err)
}

// BeginBody asks the ledger's leave to do something outside.
type BeginBody struct {
	Owner
	Policy        daybook.Policy `json:"policy" enum:"keyed,checked,repeatable,ask" doc:"what an open one means later"`
	WindowSeconds *float64       `json:"window_seconds,omitempty" doc:"keyed: how long the destination knows a key"`
	QuietSeconds  *float64       `json:"quiet_seconds,omitempty" doc:"checked: how late a call's trace may come"`
	CallSeconds   *float64       `json:"call_seconds,omitempty" doc:"the call is given up by then; else the lease's end"`
	Fingerprint   string         `json:"fingerprint,omitempty" doc:"of the input; another one later sets the job aside"`
	NextKey       bool           `json:"next_key,omitempty" doc:"call with a new key after the call before was absent"`
	Call          daybook.ID     `json:"call,omitzero" doc:"repeating a begin by it gives the same answer"`
}

func (s *Server) begin(c *call, in BeginBody) (daybook.Begun, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return daybook.Begun{}, err
	}
	name, err := c.name("name")
	if err != nil {
		return daybook.Begun{}, err
	}
	b := daybook.Begin{Name: name, Policy: in.Policy, Fingerprint: in.Fingerprint, NextKey: in.NextKey, Call: in.Call}
	if b.Window, err = seconds("window_seconds", in.WindowSeconds); err != nil {
		return daybook.Begun{}, err
	}
	if b.Quiet, err = seconds("quiet_seconds", in.QuietSeconds); err != nil {
		return daybook.Begun{}, err
	}
	if b.Limit, err = seconds("call_seconds", in.CallSeconds); err != nil {
		return daybook.Begun{}, err
	}
	return s.book.BeginEffect(c.ctx(), id, owner, b)
}

// FinishBody says what a call, or a probe, came to.
type FinishBody struct {
	Owner
	Outcome daybook.EffectOutcome `json:"outcome" enum:"done,absent,unknown" doc:"absent: it certainly didn't happen"`
	Result  json.RawMessage       `json:"result,omitempty" doc:"of done: any JSON document, at most 1 MiB"`
}

func (s *Server) finish(c *call, in FinishBody) (daybook.EffectEnded, error) {
	id, owner, err := c.owned(in.Owner)
	if err != nil {
		return daybook.EffectEnded{}, err
	}
	name, err := c.name("name")
	if err != nil {
		return daybook.EffectEnded{}, err
	}
	return s.book.FinishEffect(c.ctx(), id, owner, daybook.EffectEnd{Name: name, Outcome: in.Outcome, Result: in.Result})
}

// SettleBody says what an open effect did.
type SettleBody struct {
	Generation int64           `json:"generation,omitempty" minimum:"0" doc:"of the begin that is judged; 0 is the newest"`
	Outcome    string          `json:"outcome" enum:"happened,absent"`
	Result     json.RawMessage `json:"result,omitempty" doc:"of happened: any JSON document, at most 1 MiB"`
	Stay       bool            `json:"stay,omitempty" doc:"leave the job set aside"`
	Reason     string          `json:"reason" minLength:"1" maxLength:"1024" doc:"why, for the record: 1–1024 bytes"`
}

func (s *Server) settle(c *call, in SettleBody) (job daybook.Job, err error) {
	id, err := c.id("id")
	if err != nil {
		return job, err
	}
	name, err := c.name("name")
	if err != nil {
		return job, err
	}
	switch {
	case in.Outcome != "happened" && in.Outcome != "absent":
		return job, daybook.Invalid("outcome", "wants happened or absent")
	case in.Outcome == "absent" && len(in.Result) > 0:
		return job, daybook.Invalid("result", "belongs to happened")
	case in.Generation < 0:
		return job, daybook.Invalid("generation", "wants 1 or more")
	}
	by, err := c.by(in.Reason)
	if err != nil {
		return job, err
	}
	return s.book.Settle(c.ctx(), id, name, daybook.Verdict{Generation: in.Generation,
		Happened: in.Outcome == "happened", Result: in.Result, Stay: in.Stay}, by)
}
