package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionAnswer says which build of the program this is.
type versionAnswer struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
	// Databases begin the URLs of the books that this build works on.
	Databases []string `json:"databases"`
}

func versionOf() versionAnswer {
	v := versionAnswer{Version: "devel", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Databases: databaseSchemes}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Example: example("daybook version", "daybook version -o json"),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionOf()
			return a.show(v, func(t *table) {
				t.row("daybook " + v.Version + " " + v.Go + " " + v.System)
				t.row("books: " + dbForms)
			})
		},
	}
}
