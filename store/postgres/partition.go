package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// The history is in partitions by day, so that old days go as a whole: a
// million rows cost what one costs, and leave nothing to be vacuumed. What
// happens to a partition wants locks that keep every reader of the history
// waiting, so each step is one transaction that is sent at once and gives up
// soon. What couldn't be done is left to the next pass.

// daysAhead is for how many days after today there is a partition: as long as
// somebody may keep the history locked without any harm.
const daysAhead = 3

// Upkeep does what no transaction of a caller can do: it makes the history's
// next days, brings its indexes up to date, and drops the days that ended before
// keep and have no job left to remove. It wants to be called every minute or so;
// that several processes do is harmless.
func (s *Store) Upkeep(ctx context.Context, keep time.Duration) error {
	var now daybook.Time
	err := s.Read(ctx, upkeeping, func(v daybook.View) error {
		now = v.Now()
		return nil
	})
	if err != nil {
		return err
	}
	cutoff := now.Add(-max(keep, daybook.RetentionMin))
	// One that fails doesn't keep the others from their work.
	return s.schema.friendly(upkeeping, cmp.Or(s.makeDays(ctx, now), s.indexDays(ctx), s.dropDays(ctx, now, cutoff)))
}

const upkeeping = "keeping the history"

// short is one transaction of one statement, sent as a whole: nothing that
// happens to this process makes it last.
func (s *Store) short(ctx context.Context, scan func(row []any) error, query string, args ...any) error {
	return s.transact(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", func(u *unit) error {
		u.kept = append(u.kept, statement{query: u.schema.in(query), args: args, scan: scan, want: anyCount})
		return nil
	})
}

// inTheWay tells a lock that somebody else holds from a fault.
func inTheWay(err error) bool { return stateOf(err) == stateLockTimeout || passing(err) }

// makeDays makes the partitions of today and the next days. A day that can't be
// had is filed in ended_rest; that is told when it is tomorrow.
func (s *Store) makeDays(ctx context.Context, now daybook.Time) error {
	for n := range daysAhead + 1 {
		made := true
		day := now.Add(time.Duration(n) * 24 * time.Hour)
		err := s.short(ctx, func(row []any) error {
			made = row[0] == nil || truth(row[0]) // nil: somebody else is at it
			return nil
		}, "SELECT daybook.make_day($1::bigint)", int64(day))
		if err != nil && (!inTheWay(err) || n == 1) {
			return err
		}
		if !made && n == 1 {
			return daybook.Fail(daybook.CodeBusy, "the history of %.10s has no partition: ended_rest is in its way", day)
		}
	}
	return nil
}

// indexDays brings the indexes by time up to date.
func (s *Store) indexDays(ctx context.Context) error {
	return s.short(ctx, nil, "SELECT daybook.index_history()")
}

// dropDays drops the days before the cutoff that retention is through with, the
// oldest first.
func (s *Store) dropDays(ctx context.Context, now, cutoff daybook.Time) error {
	var days []string
	err := s.short(ctx, func(row []any) error {
		days = append(days, text(row[0]))
		return nil
	}, `SELECT h.name FROM daybook.history_day h WHERE h.to_at <= $1::bigint AND h.walked
		ORDER BY h.from_at`, int64(cutoff))
	for _, day := range days {
		if err == nil {
			err = s.short(ctx, nil, "SELECT daybook.await_history()")
		}
		if err == nil {
			err = s.short(ctx, nil, "SELECT daybook.drop_day($1::text, $2::bigint)", day, int64(now))
		}
	}
	if inTheWay(err) {
		return nil
	}
	return err
}
