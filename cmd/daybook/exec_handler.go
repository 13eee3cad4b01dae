package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// execHandler runs the command for each job, and says how the attempt ended.
func (a *app) execHandler(where []string, text string) worker.Handler {
	base := append(slices.DeleteFunc(os.Environ(), ofTrace), where...)
	return func(ctx context.Context, job daybook.Job) daybook.Outcome {
		lines := &lineLog{out: a.stderr, job: job.ID}
		f := command{text: text, args: job.Args, env: environOf(ctx, base, job), stderr: lines}.run(ctx)
		lines.flush()
		if f.short() {
			lines.line([]byte(f.how + ", and is tried again later: " + shortageOf(f.err)))
		}
		return outcomeOf(context.Cause(ctx), job, f)
	}
}

// environOf tells the command whose job it works on, so that daybook works
// inside it.
func environOf(ctx context.Context, base []string, job daybook.Job) []string {
	env := append(base[:len(base):len(base)],
		envJob+"="+job.ID.String(),
		envGeneration+"="+strconv.FormatInt(job.Generation, 10),
		envSession+"="+job.Session.String(),
		"DAYBOOK_ATTEMPT="+strconv.Itoa(job.Failures+job.Crashes+1),
		"DAYBOOK_QUEUE="+job.Queue,
		"DAYBOOK_KIND="+job.Kind,
		"DAYBOOK_EFFECT_KEY="+daybook.EffectKey(job.ID, "main", 0),
	)
	if t := daybook.TraceOf(ctx); !t.IsZero() {
		env = append(env, envTraceparent+"="+t.Parent)
		if t.State != "" {
			env = append(env, envTracestate+"="+t.State)
		}
	}
	return env
}

// ofTrace finds the variables of the trace that the worker itself was started in:
// no job belongs to that.
func ofTrace(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == envTraceparent || name == envTracestate
}

// shortageOf is what the machine is short of.
func shortageOf(err error) string {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno.Error()
}

// outcomeOf says what a command's end means for the job. cause is why it was
// told to stop, or nil.
func outcomeOf(cause error, job daybook.Job, f finished) daybook.Outcome {
	switch {
	case f.status == 0:
		return daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: f.result()}
	case f.status == exitDataError:
		return daybook.Outcome{Kind: daybook.OutcomeFailed, Permanent: true, Problem: f.problem()}
	case f.status == exitTryLater, f.short():
		// Later each time, by the same curve as failures: the generation rises
		// with every attempt, also those that count nothing.
		tries := job.Generation % daybook.GenerationStep
		return daybook.Outcome{Kind: daybook.OutcomeReleased,
			In: daybook.BackoffDefault.Delay(tries, rand.Float64())}
	case errors.Is(cause, worker.ErrCancelRequested):
		return daybook.Outcome{Kind: daybook.OutcomeReleased} // the book makes it cancelled
	}
	p := f.problem()
	if errors.Is(cause, worker.ErrRunLimit) {
		p = daybook.NewProblem(fmt.Sprintf("the command ran past its run limit and was ended (%s)", f.how),
			"timeout", f.stderr)
	}
	return daybook.Outcome{Kind: daybook.OutcomeFailed, Problem: p}
}
