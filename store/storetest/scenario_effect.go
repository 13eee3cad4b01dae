package storetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// What an owner does with the ledger in a scenario.

// keyName gives the key of an effect's round a name to be shown by.
func (s *stage) keyName(job daybook.ID, effect string, round int) string {
	name := "key-" + effect + "-" + fmt.Sprint(round)
	s.keys[daybook.EffectKey(job, effect, round)] = name
	return name
}

// begin SESSION JOB EFFECT keyed|checked|repeatable|ask [window quiet limit
// input next-key call=NAME generation=N].
func (s *stage) begin(l *line) string {
	id, o := s.owned(l)
	b := daybook.Begin{Name: l.name(), Policy: daybook.Policy(l.name()), Window: l.duration("window"),
		Quiet: l.duration("quiet"), Limit: l.duration("limit"), Fingerprint: l.text("input", ""),
		NextKey: l.flag("next-key")}
	if call, found := l.given("call"); found {
		if _, known := s.calls[call]; !known {
			s.calls[call] = daybook.NewID()
		}
		b.Call = s.calls[call]
	}
	for round := range 3 {
		s.keyName(id, b.Name, round)
	}
	got, err := s.w.book.BeginEffect(s.w.ctx, id, o, b)
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s", got.Decision, got.Key)
	if got.CallUntil != 0 {
		fmt.Fprintf(&out, " until %s", since(got.CallUntil))
	}
	if got.WaitUntil != 0 {
		fmt.Fprintf(&out, " until %s", since(got.WaitUntil))
	}
	if len(got.Result) > 0 {
		fmt.Fprintf(&out, " result=%s", got.Result)
	}
	return s.answer(out.String(), err)
}

// finish SESSION JOB EFFECT done|absent|unknown [generation=N], with the result
// on the lines below.
func (s *stage) finish(l *line) string {
	id, o := s.owned(l)
	got, err := s.w.book.FinishEffect(s.w.ctx, id, o, daybook.EffectEnd{Name: l.name(),
		Outcome: daybook.EffectOutcome(l.name()), Result: json.RawMessage(l.td.Input)})
	doubled := ""
	if got.Doubled {
		doubled = ", doubled"
	}
	return s.answer(fmt.Sprintf("%s%s; the job is %s", got.State, doubled, got.Job), err)
}
