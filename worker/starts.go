package worker

import (
	"context"

	"github.com/daybookdev/daybook"
)

// startAsk is a slot's wish to have its start recorded.
type startAsk struct {
	run    *run
	answer chan bool
}

// begun records the start of an attempt whose loss a person must judge, before
// its handler begins: what has no start recorded never began, and is simply
// eligible again. It reports whether the handler may begin.
func (e *engine) begun(r *run) bool {
	if r.job.OnLost != daybook.LostSetAside {
		return true
	}
	ask := startAsk{r, make(chan bool, 1)}
	select {
	case e.starts <- ask:
	case <-r.ctx.Done():
		return false
	}
	select {
	case may := <-ask.answer:
		return may && r.ctx.Err() == nil
	case <-r.ctx.Done():
		return false
	}
}

// recordStarts records starts, one write for all that wait for one.
func (e *engine) recordStarts() {
	for {
		var asks []startAsk
		select {
		case <-e.hard.Done():
			return
		case ask := <-e.starts:
			asks = append(asks, ask)
		}
		for more := true; more && len(asks) < daybook.BatchMax; {
			select {
			case ask := <-e.starts:
				asks = append(asks, ask)
			default:
				more = false
			}
		}
		for session, of := range bySession(asks) {
			e.recordStart(session, of)
		}
	}
}

func bySession(asks []startAsk) map[daybook.ID][]startAsk {
	by := map[daybook.ID][]startAsk{}
	for _, a := range asks {
		by[a.run.owner.Session] = append(by[a.run.owner.Session], a)
	}
	return by
}

// recordStart tries until the book answers; a slot whose context ends meanwhile
// has left.
func (e *engine) recordStart(session daybook.ID, asks []startAsk) {
	refs := make([]daybook.ClaimRef, len(asks))
	for i, a := range asks {
		refs[i] = a.run.ref()
	}
	again := retry{log: e.log, doing: "recording starts"}
	for {
		ctx, cancel := context.WithTimeout(e.hard, e.patience())
		lost, err := e.book.Started(ctx, session, refs)
		cancel()
		if err == nil {
			again.healed()
			e.answerStarts(asks, lost)
			return
		}
		if !sleep(e.hard, again.after(err)) {
			return
		}
	}
}

func (e *engine) answerStarts(asks []startAsk, lost []daybook.ClaimRef) {
	gone := make(map[daybook.ClaimRef]bool, len(lost))
	for _, ref := range lost {
		gone[ref] = true
	}
	for _, a := range asks {
		if gone[a.run.ref()] {
			e.lose(a.run.ref())
		}
		a.answer <- !gone[a.run.ref()]
	}
}
