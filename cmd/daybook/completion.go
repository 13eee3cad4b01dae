package main

import (
	"github.com/spf13/cobra"
)

// completeURLs tells shells how the values of --db and --bell begin.
func completeURLs(root *cobra.Command) {
	for flag, values := range map[string][]string{"db": databaseSchemes, "bell": bellSchemes, "schema": nil} {
		// It fails only for a flag that isn't there.
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values,
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	}
}

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a script that completes commands in a shell",
		Example:   example("daybook completion bash > daybook.bash", "daybook completion zsh > _daybook"),
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			}
			return root.GenPowerShellCompletionWithDesc(a.stdout)
		},
	}
}
