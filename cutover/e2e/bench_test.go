package e2e

import (
	"path/filepath"
	"testing"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/asynq"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/oldqueue"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/store/postgres"
)

// benchJobs is how many jobs a measured move has.
const benchJobs = 20_000

// BenchmarkMove measures the move of a queue that nobody works on, from the
// inventory to the last job: go test -bench Move -benchtime 1x ./cutover/e2e
func BenchmarkMove(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchMove(b, func() string { return filepath.Join(b.TempDir(), "book.db") }) })
	if pgtest.Wanted() {
		b.Run("postgres", func(b *testing.B) {
			benchMove(b, func() string {
				db := pgtest.Database(b)
				if _, err := postgres.Up(b.Context(), db, postgres.Options{}, nil); err != nil {
					b.Fatal(err)
				}
				return db
			})
		})
	}
}

func benchMove(b *testing.B, db func() string) {
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := b.Context()
	for b.Loop() {
		b.StopTimer()
		server := brokertest.StartRedis(b)
		queue, err := oldqueue.Open(server.URL()+"/0", "mail")
		must(err)
		must(queue.Many(ctx, benchJobs))
		old, err := asynq.Open(asynq.Options{URL: server.URL() + "/0", Queue: "mail"})
		must(err)
		book, err := openBook(ctx, db())
		must(err)
		e := cutover.New(book, old, "mail", cutover.Options{})
		_, err = e.MakePlan(ctx, "mail", cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk,
			NoRollback: true})
		must(err)
		_, err = e.Shadow(ctx, 0)
		must(err)
		_, err = e.Gate(ctx, patience)
		must(err)
		b.StartTimer()
		moved, err := e.Move(ctx)
		b.StopTimer()
		must(err)
		if moved.Taken != benchJobs {
			b.Errorf("moved %+v", moved)
		}
		must(book.Close())
		must(old.Close())
		must(queue.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(benchJobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
}
