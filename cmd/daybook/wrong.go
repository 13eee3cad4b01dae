package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
)

// flagProblem says in our words what is wrong with a flag. It stands in for
// what the flag library says, which shows its insides.
func flagProblem(err error) string {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return "--" + e.GetFlag().Name + ": " + valueProblem(e)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return "--" + e.GetFlag().Name + ": wants a value"
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			name = "-" + e.GetSpecifiedName()
		}
		return "there is no flag " + name
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Sprintf("%q is not how a flag is written", e.GetSpecifiedFlag())
	}
	return err.Error()
}

// valueProblem says which values a flag takes, and what it was given.
func valueProblem(e *pflag.InvalidValueError) string {
	if own, ok := errors.AsType[*daybook.Error](e); ok {
		return own.Text
	}
	given, wants := cut(e.GetValue(), cellMax), "another value"
	switch kind := e.GetFlag().Value.Type(); {
	case errors.Is(e, strconv.ErrRange):
		return fmt.Sprintf("is past every limit, got %s", given)
	case kind == "bool":
		wants = "true or false"
	case strings.HasPrefix(kind, "uint"):
		wants = "a whole number of 0 or more"
	case strings.HasPrefix(kind, "int"):
		wants = "a whole number"
	}
	return fmt.Sprintf("wants %s, got %q", wants, given)
}

// argsProblem says in our words that a command got other arguments than it takes.
func argsProblem(c *cobra.Command, args []string) error {
	what := fmt.Sprintf("can't take %q", cut(strings.Join(args, " "), cellMax))
	if len(args) == 0 {
		what = "wants an argument"
	}
	use := strings.TrimSpace(strings.TrimSuffix(c.CommandPath(), c.Name()) + c.Use)
	return usage("%s %s; use it as %s", c.CommandPath(), what, use)
}

// flagOf names the flags whose field in the API is called differently.
var flagOf = map[string]string{"in_seconds": "in", "retry_in_seconds": "retry-in",
	"timeout_seconds": "timeout", "queues": "queue", "weights": "queue", "worker ttl": "worker-ttl"}

// errorText is an error as the command line tells it: where a flag is to blame
// it is named as a flag and not as a field, and durations are readable.
func errorText(cmd *cobra.Command, err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*daybook.Error](err); ok && e.Field != "" && cmd != nil {
		name := flagOf[e.Field]
		if name == "" {
			name = strings.ReplaceAll(e.Field, "_", "-")
		}
		if rest, found := strings.CutPrefix(text, e.Field+": "); found && cmd.Flags().Lookup(name) != nil {
			text = "--" + name + ": " + rest
		}
	}
	return longDuration.ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(s)
		if err != nil {
			return s
		}
		return shortDuration(d)
	})
}

// longDuration is a duration as Go writes it: 8760h0m0s, 1m0s.
var longDuration = regexp.MustCompile(`\b(\d+h)?\d+m\d+(\.\d+)?s\b`)
