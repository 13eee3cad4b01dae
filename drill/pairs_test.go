package drill

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// A claim that comes too late for a job that expires, as on a busy machine, isn't
// taken for what comes of a claim before the expiry.
func TestLateClaimIsMadeAnew(t *testing.T) {
	where := filepath.Join(t.TempDir(), "book.db")
	book, err := openFile(t.Context(), where, daybook.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	l := &lane{drill: &drill{book: book}, stand: &stand{held: whileHeldFile}, queue: "late"}
	expire, claim := decisions[3], ownerMoves[0]
	calls, prompt := 0, claim.call
	claim.call = func(ctx context.Context, m *meeting) (string, error) {
		if calls++; calls == 1 {
			pause(ctx, time.Until(m.job.ExpiresAt.Std())+time.Millisecond)
		}
		return prompt(ctx, m)
	}
	got, err := l.inTurn(t.Context(), expire, claim, [2]move{claim, expire.move}, false)
	if err != nil || got.State != daybook.Running || got.Generation != 1 || calls < 2 {
		t.Errorf("got %+v, %v after %d claims", got, err, calls)
	}
}
