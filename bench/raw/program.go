package raw

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Rate is one result of a driver's program: how many jobs a second went
// through one operation.
type Rate struct {
	Operation   string  `json:"operation"`
	Batch       int     `json:"batch"`
	Synchronous string  `json:"synchronous"`
	PerSecond   float64 `json:"per_second"`
	Micros      float64 `json:"micros"` // of processor time a job; 0 where that isn't known
}

// Report is what a driver's program prints, as JSON.
type Report struct {
	SQLite string `json:"sqlite"` // the version of the library inside
	Rates  []Rate `json:"rates"`
}

// Main is the whole of a driver's program: it measures one round with the
// named database/sql driver.
func Main(driver string) {
	dir := flag.String("dir", "", "existing directory for the files")
	jobs := flag.Int("jobs", 20_000, "jobs at batch 100; a tenth of it at batch 1")
	flag.Parse()
	report, err := round(context.Background(), driver, *dir, *jobs)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func round(ctx context.Context, driver, dir string, jobs int) (r Report, err error) {
	for _, batch := range []int{1, 100} {
		for _, synchronous := range []string{"FULL", "NORMAL"} {
			n := jobs
			if batch == 1 {
				n = jobs / 10
			}
			file := filepath.Join(dir, fmt.Sprintf("%s-%d.db", synchronous, batch))
			t, err := Open(ctx, file, Options{Driver: driver, Synchronous: synchronous})
			if err != nil {
				return r, err
			}
			err = r.measure(ctx, t, n, batch, synchronous)
			t.Close()
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func (r *Report) measure(ctx context.Context, t *Table, n, batch int, synchronous string) error {
	if err := t.conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&r.SQLite); err != nil {
		return err
	}
	var all [][]Claimed
	for _, step := range []struct {
		operation string
		run       func() error
	}{
		{"enqueue", func() error { return t.Enqueue(ctx, n, batch) }},
		{"claim", func() (err error) { all, err = t.ClaimAll(ctx, batch); return err }},
		{"complete", func() error { return t.CompleteAll(ctx, all) }},
		{"", func() error { return t.Enqueue(ctx, n, 100) }},
		{"both", func() error { return t.Work(ctx, batch, true) }},
	} {
		begun, cpu := time.Now(), ProcessorTime()
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.operation, err)
		}
		if step.operation != "" {
			rate := float64(n) / time.Since(begun).Seconds()
			used := float64((ProcessorTime() - cpu).Microseconds()) / float64(n)
			r.Rates = append(r.Rates, Rate{step.operation, batch, synchronous, rate, used})
		}
	}
	return nil
}
