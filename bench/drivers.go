package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook/bench/raw"
)

// build is what it takes to have a driver in a program.
type build struct {
	Driver  string  `json:"driver"`
	Module  string  `json:"module"`
	Version string  `json:"version"`
	SQLite  string  `json:"sqlite"`
	C       bool    `json:"needs_c_compiler"`
	Seconds float64 `json:"build_seconds,omitempty"` // from an empty cache that has the standard library
	Bytes   int64   `json:"binary_bytes"`            // stripped
	Windows bool    `json:"builds_for_windows"`      // from here, with what is installed here
	Failed  string  `json:"failed,omitempty"`        // why it could not be measured

	program string
}

// measureDrivers builds one small program per driver, since two of them claim
// the same name in database/sql, and runs them in turns.
func measureDrivers(ctx context.Context, c config, dir string, out io.Writer) error {
	if _, err := os.Stat("drivers"); err != nil {
		return errors.New("the programs in drivers/ are built from source: run it as go -C bench run . -drivers")
	}
	t := newTable(c, dir)
	t.Builds = []*build{{Driver: "modernc", Module: "modernc.org/sqlite"},
		{Driver: "ncruces", Module: "github.com/ncruces/go-sqlite3"},
		{Driver: "mattn", Module: "github.com/mattn/go-sqlite3", C: true}}
	if err := buildAll(ctx, c, t.Builds, dir); err != nil {
		return err
	}
	for round := range c.rounds {
		for i := range t.Builds {
			b := t.Builds[(i+round)%len(t.Builds)]
			if b.Failed != "" {
				continue
			}
			fmt.Fprintf(c.log, "round %d of %d: %s\n", round+1, c.rounds, b.Driver)
			if err := t.runDriver(ctx, c, b, dir); err != nil {
				return fmt.Errorf("%s: %w", b.Driver, err)
			}
		}
	}
	t.compare("ncruces", "modernc")
	t.compare("mattn", "modernc")
	t.Notes = []string{"the raw table of -sqlite, one connection",
		"both: one transaction completes a batch and claims the next"}
	return t.finish(c, out)
}

func (t *table) runDriver(ctx context.Context, c config, b *build, dir string) error {
	files, err := os.MkdirTemp(dir, b.Driver)
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	printed, err := command(ctx, nil, b.program, "-dir", files, "-jobs", strconv.Itoa(c.jobs/2))
	if err != nil {
		return err
	}
	var report raw.Report
	if err := json.Unmarshal(printed, &report); err != nil {
		return err
	}
	b.SQLite = report.SQLite
	for _, r := range report.Rates {
		name := fmt.Sprintf("%s, batch %d, %s", r.Operation, r.Batch, r.Synchronous)
		if !c.only.MatchString(name) {
			continue
		}
		if t.add(name, perSecond, b.Driver, r.PerSecond); r.Micros > 0 {
			t.add(name, perJob, b.Driver, r.Micros)
		}
	}
	return nil
}

// buildAll builds the programs and notes what that took. One that can't be
// built here is left out with the reason.
func buildAll(ctx context.Context, c config, builds []*build, dir string) error {
	var env []string
	if !c.quick {
		env = append(env, "GOCACHE="+filepath.Join(dir, "cache"))
		fmt.Fprintln(c.log, "building the standard library into an empty cache")
		for _, cgo := range []string{"CGO_ENABLED=0", "CGO_ENABLED=1"} {
			if _, err := command(ctx, append(env, cgo), "go", "build", "./raw"); err != nil {
				return err
			}
		}
	}
	for _, b := range builds {
		fmt.Fprintln(c.log, "building", b.Driver)
		if err := b.build(ctx, env, dir); err != nil {
			b.Failed = err.Error()
			continue
		}
		if c.quick {
			b.Seconds = 0 // the cache did the work
		}
	}
	return nil
}

func (b *build) build(ctx context.Context, env []string, dir string) error {
	version, err := command(ctx, nil, "go", "list", "-m", "-f", "{{.Version}}", b.Module)
	if err != nil {
		return err
	}
	b.Version = strings.TrimSpace(string(version))
	b.program = filepath.Join(dir, b.Driver+".exe")
	cgo := "CGO_ENABLED=0"
	if b.C {
		cgo = "CGO_ENABLED=1"
	}
	env = append(env, cgo)
	args := []string{"build", "-tags", b.Driver, "-ldflags", "-s -w", "-o", b.program, "./drivers/" + b.Driver}
	begun := time.Now()
	if _, err := command(ctx, env, "go", args...); err != nil {
		return err
	}
	b.Seconds = time.Since(begun).Seconds()
	info, err := os.Stat(b.program)
	if err != nil {
		return err
	}
	b.Bytes = info.Size()
	args[len(args)-2] = filepath.Join(dir, "windows.exe")
	_, err = command(ctx, append(env, "GOOS=windows", "GOARCH=amd64"), "go", args...)
	b.Windows = err == nil
	return ctx.Err()
}
