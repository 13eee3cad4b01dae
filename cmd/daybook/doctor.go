package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

// finding is one thing that was looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Level  string `json:"level"` // ok; warn will hurt one day; bad hurts or loses jobs
	Value  string `json:"value"`
	Advice string `json:"advice,omitempty"`
}

// The levels of a finding that decide something.
const (
	levelOK  = "ok"
	levelBad = "bad"
)

// doctorMarks show a level at the beginning of a line.
var doctorMarks = map[string]string{levelOK: "ok", "warn": "!"}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for settings that lose data, and signs that some was lost; exit 1 when there is one",
		Example: example("daybook doctor", "daybook doctor -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.onDatabase(cmd.Context(), func(ctx context.Context, db database, book *daybook.Book) error {
			findings, err := db.doctor(ctx, book)
			if err != nil {
				return err
			}
			return a.showFindings(findings)
		})
	}
	return cmd
}

// showFindings shows all of them, and fails when one is bad. A warning doesn't
// fail: it may stand for long.
func (a *app) showFindings(findings []finding) error {
	bad := 0
	for _, f := range findings {
		if f.Level == levelBad {
			bad++
		}
	}
	whole := struct {
		OK       bool      `json:"ok"`
		Findings []finding `json:"findings"`
	}{bad == 0, orEmpty(findings)}
	err := showList(a, whole, findings, []string{"", "WHAT", "VALUE"}, func(t *table, f finding) {
		t.row(cmp.Or(doctorMarks[f.Level], "!!"), f.Name, f.Value)
		if f.Advice != "" {
			t.row("", "", f.Advice)
		}
	})
	if err == nil && bad > 0 {
		err = exitError{statusFailed, count(bad, "bad finding") + "; see the advice"}
	}
	return err
}
