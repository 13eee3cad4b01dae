package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// later is a command that people know of and this version doesn't have. It
// answers that, whatever flags it is given: without it they would be told that
// there is no such command, or no such flag.
func later(path, instead string) *cobra.Command {
	words := strings.Fields(path)
	return &cobra.Command{
		Use: words[len(words)-1], Short: "Not in this version yet", Hidden: true, DisableFlagParsing: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // settings don't matter
		RunE: func(*cobra.Command, []string) error {
			return notYet("daybook "+path, instead)
		},
	}
}

// addLater adds the commands that aren't in this version yet.
func addLater(root *cobra.Command) {
	root.AddCommand(
		later("bench", "demo -o json tells jobs_per_second"),
	)
}
