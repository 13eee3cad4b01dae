package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// The ledger by hand: what a command under work --exec, or a worker in any
// language, says before and behind each of its outside calls.

// ledger is what an owner's effects need of a book.
type ledger interface {
	BeginEffect(ctx context.Context, job daybook.ID, o daybook.Owner, b daybook.Begin) (daybook.Begun, error)
	FinishEffect(ctx context.Context, job daybook.ID, o daybook.Owner, f daybook.EffectEnd) (daybook.EffectEnded, error)
}

var _, _ ledger = (*daybook.Book)(nil), (*client.Client)(nil)

// effectOwner says whose effect it is: a claim, under work --exec the command's own.
type effectOwner struct {
	ownerFlags
	job string
}

func (o *effectOwner) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.job, "job", "", "the claimed job's id (default DAYBOOK_JOB)")
	o.ownerFlags.register(cmd)
}

func (o *effectOwner) resolve(cmd *cobra.Command) (daybook.ID, daybook.Owner, error) {
	var args []string
	if o.job != "" {
		args = []string{o.job}
	}
	return o.ownerFlags.resolve(cmd, args)
}

func (a *app) effectBeginCommand() *cobra.Command {
	var o effectOwner
	var b daybook.Begin
	var policy string
	cmd := &cobra.Command{
		Use:   "begin NAME --policy keyed|checked|repeatable|ask",
		Short: "Ask the ledger's leave to do something outside, and record that it begins",
		Long: "Ask the ledger's leave to do something outside, and record that it begins.\n\n" +
			"The answer is what to do: call (with the key, then say effect finish), done (it happened before: here is its\n" +
			"result), probe (ask the destination, then say effect finish). When an earlier call may still show, wait exits\n" +
			"75, which under work --exec gives the job back for later; when only a person can tell, the job is set aside and\n" +
			"the status is 4.",
		Example: example(
			`daybook effect begin charge --policy keyed --window 24h --job "$JOB" --session "$SESSION" --generation 1`,
			`daybook effect begin legacy --policy ask --job "$JOB" --session "$SESSION" --generation 1 -o json`),
		Args: cobra.ExactArgs(1),
	}
	fs := cmd.Flags()
	fs.StringVar(&policy, "policy", "",
		"what an open effect means later: keyed, checked, repeatable or ask (no default; later begins may only be stricter)")
	durationVar(fs, &b.Window, "window", 0,
		"keyed: how long the destination knows a key, from the first begin (more than 0)")
	durationVar(fs, &b.Quiet, "quiet", 0, "checked: how long after a call's end its trace may come late (default 0s)")
	durationVar(fs, &b.Limit, "call", 0,
		"the call is given up by then (default what the lease has left, which is also the most)")
	fs.StringVar(&b.Fingerprint, "fingerprint", "",
		"of the input; another one in a later attempt sets the job aside (default none; at most 255 bytes)")
	fs.BoolVar(&b.NextKey, "next-key", false, "call with a new key after the call before was absent (default false)")
	fs.Var(idFlag{&b.Call}, "call-id", "repeating a begin by this UUID gives the same answer (default a new one)")
	o.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.Name, b.Policy = args[0], daybook.Policy(policy)
		job, owner, err := o.resolve(cmd)
		if err != nil {
			return err
		}
		return on(cmd.Context(), a, func(ctx context.Context, book ledger) error {
			begun, err := book.BeginEffect(ctx, job, owner, b)
			if err != nil {
				return err
			}
			if err := a.show(begun, func(t *table) { t.row(begunWords(begun)...) }); err != nil {
				return err
			}
			return begunStatus(b.Name, begun)
		})
	}
	return cmd
}

// begunWords are what a script reads: the decision, and what it needs for it.
func begunWords(b daybook.Begun) []any {
	switch b.Decision {
	case daybook.DecisionDone:
		return []any{b.Decision, string(b.Result)}
	case daybook.DecisionWait:
		return []any{b.Decision, b.WaitUntil}
	}
	return []any{b.Decision, b.Key}
}

// begunStatus is how the command ends when there is nothing to call.
func begunStatus(name string, b daybook.Begun) error {
	switch b.Decision {
	case daybook.DecisionWait:
		return exitError{exitTryLater, "effect " + name + " is settling: an earlier call may show until " +
			b.WaitUntil.String() + "; release the job until then"}
	case daybook.DecisionAsk:
		if b.Reason == daybook.ReasonEffectChanged {
			return exitError{statusRefused, "effect " + name + " was begun with other input before; the job is set aside"}
		}
		return exitError{statusRefused, "effect " + name + " may have happened; the job is set aside until a person " +
			"says so: daybook effect settle"}
	}
	return nil
}

func (a *app) effectFinishCommand() *cobra.Command {
	var o effectOwner
	var end daybook.EffectEnd
	var outcome, result string
	cmd := &cobra.Command{
		Use:   "finish NAME --outcome done|absent|unknown",
		Short: "Record what an outside call, or a probe, came to",
		Example: example(
			`daybook effect finish mail --outcome unknown --job "$JOB" --session "$SESSION" --generation 1`,
			`daybook effect finish mail --outcome done --result '"m-1"' --job "$JOB" --session "$SESSION" --generation 1`),
		Args: cobra.ExactArgs(1),
	}
	fs := cmd.Flags()
	fs.StringVar(&outcome, "outcome", "",
		"done; absent, when it certainly didn't happen; unknown leaves it open: a timeout is not a no (no default)")
	fs.StringVar(&result, "result", "",
		"what the call answered, a JSON document (with done; default none; at most 1 MiB)")
	o.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		end.Name, end.Outcome = args[0], daybook.EffectOutcome(outcome)
		if fs.Changed("result") {
			if err := daybook.CheckJSON("result", []byte(result)); err != nil {
				return err
			}
			end.Result = json.RawMessage(result)
		}
		job, owner, err := o.resolve(cmd)
		if err != nil {
			return err
		}
		return on(cmd.Context(), a, func(ctx context.Context, book ledger) error {
			ended, err := book.FinishEffect(ctx, job, owner, end)
			if err != nil {
				return err
			}
			state := string(ended.State)
			if ended.Already {
				state += " (already recorded)"
			}
			if err := a.show(ended, func(t *table) { t.row(end.Name, state) }); err != nil {
				return err
			}
			if ended.Job != daybook.Running {
				return begunStatus(end.Name, daybook.Begun{Decision: daybook.DecisionAsk})
			}
			return nil
		})
	}
	return cmd
}
