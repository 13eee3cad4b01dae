package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// finding is one setting that was looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Value  string `json:"value"`
	Advice string `json:"advice,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for settings that lose data, and signs that some was lost",
		Example: example("daybook doctor", "daybook doctor -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		found, err := sqlite.Doctor(ctx, book)
		if err != nil {
			return err
		}
		findings, ok := make([]finding, 0, len(found)), true
		for _, f := range found {
			findings = append(findings, finding{f.Name, f.OK, f.Value, f.Advice})
			ok = ok && f.OK
		}
		whole := struct {
			OK       bool      `json:"ok"`
			Findings []finding `json:"findings"`
		}{ok, findings}
		// What it finds is advice, not a failure: a script asks the JSON for ok.
		return showList(a, whole, findings, []string{"", "WHAT", "VALUE", "ADVICE"}, func(t *table, f finding) {
			mark := "ok"
			if !f.OK {
				mark = "!!"
			}
			t.row(mark, f.Name, f.Value, f.Advice)
		})
	})
	return cmd
}
