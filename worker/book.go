package worker

import (
	"context"
	"log/slog"

	"github.com/daybookdev/daybook"
)

// Book is what a worker needs of a book: a [daybook.Book] at hand, or a client
// of the server that has it. Every method is daybook.Book's of that name. A book
// that isn't at hand has loops of its own: the worker runs none beside it.
type Book interface {
	StartSession(ctx context.Context, r daybook.SessionRequest) (daybook.Session, error)
	QuietSession(ctx context.Context, id daybook.ID) error
	EndSession(ctx context.Context, id daybook.ID) error
	Claim(ctx context.Context, r daybook.ClaimRequest) (daybook.Claimed, error)
	Renew(ctx context.Context, session daybook.ID, claims []daybook.ClaimRef) (daybook.Renewal, error)
	Started(ctx context.Context, session daybook.ID, claims []daybook.ClaimRef) (lost []daybook.ClaimRef, err error)
	Finish(ctx context.Context, outcomes []daybook.Outcome) ([]daybook.Answer, error)
	Progress(ctx context.Context, job daybook.ID, o daybook.Owner, progress []byte) error
	BeginEffect(ctx context.Context, job daybook.ID, o daybook.Owner, b daybook.Begin) (daybook.Begun, error)
	FinishEffect(ctx context.Context, job daybook.ID, o daybook.Owner, f daybook.EffectEnd) (daybook.EffectEnded, error)
	Enqueue(ctx context.Context, r daybook.Request) (daybook.Receipt, error)
	// NextDue may say that nothing is known (0), where Bell rings for due jobs too.
	NextDue(ctx context.Context, queues []string, passed daybook.Time) (due, now daybook.Time, err error)
	Bell() daybook.Bell
	Log() *slog.Logger
	Reached(gap string, job daybook.ID)
}

var _ Book = (*daybook.Book)(nil)

// atHand is the book itself, or nil for a client of one.
func (w *Worker) atHand() *daybook.Book {
	book, _ := w.book.(*daybook.Book)
	return book
}

// outside is the end of a bell that other processes hear too, in this process.
func (w *Worker) outside() daybook.Outside {
	if book := w.atHand(); book != nil {
		return book.Outside()
	}
	return nil
}
