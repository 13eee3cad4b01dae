package storetest

import (
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/daybookdev/daybook"
)

// runScenarios plays every story in testdata.
func runScenarios(t *testing.T, open opener) {
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s (built with -trimpath?): %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := newStage(newWorld(t, open, Options{}))
			datadriven.RunTest(t, file, s.play)
		})
	}
}

// stage is a scenario's book, with the names that the scenario gave to jobs,
// sessions and calls.
type stage struct {
	w        *world
	line     *line
	jobs     map[string]daybook.ID
	sessions map[string]daybook.ID
	calls    map[string]daybook.ID
	names    map[daybook.ID]string
	keys     map[string]string // of effects, by the job's name, the effect's and the round
	// granted is the newest generation that a session was given, by the
	// session's name and the job's.
	granted map[[2]string]int64
}

func newStage(w *world) *stage {
	return &stage{w: w, jobs: map[string]daybook.ID{}, sessions: map[string]daybook.ID{},
		calls: map[string]daybook.ID{}, names: map[daybook.ID]string{}, granted: map[[2]string]int64{},
		keys: map[string]string{}}
}

// commands are the words of a scenario. Each answers what a person would want
// to know, in one line a job.
var commands = map[string]func(*stage, *line) string{
	"advance": (*stage).advance, "now": (*stage).now, "check": (*stage).check,
	"broken": (*stage).broken,
	// callers and workers
	"enqueue": (*stage).enqueue, "import": (*stage).imported, "hold": (*stage).hold,
	"session": (*stage).session, "end": (*stage).endSession, "quiet": (*stage).quiet,
	"claim": (*stage).claim, "renew": (*stage).renew, "started": (*stage).started,
	"progress": (*stage).progress, "complete": (*stage).complete, "fail": (*stage).failed,
	"release": (*stage).release, "snooze": (*stage).snooze, "begin": (*stage).begin, "finish": (*stage).finish,
	// people and the reconciler
	"cancel": (*stage).cancel, "revive": (*stage).revive, "unhold": (*stage).unhold,
	"settle": (*stage).settle, "pause": (*stage).pause, "resume": (*stage).resume,
	"restored": (*stage).restored, "reconcile": (*stage).reconcile, "expire": (*stage).expire,
	"prune": (*stage).prune, "sweep": (*stage).sweep,
	// what is to be seen
	"job": (*stage).showJob, "jobs": (*stage).showJobs, "attempts": (*stage).showAttempts,
	"timeline": (*stage).showTimeline, "backlog": (*stage).showBacklog, "why": (*stage).showWhy,
	"effects": (*stage).showEffects, "late": (*stage).showLate, "key": (*stage).showKey, "setting": (*stage).showSetting,
	"sessions": (*stage).listSessions,
}

// play carries out one command and returns what the scenario shows of it.
func (s *stage) play(t *testing.T, td *datadriven.TestData) string {
	run := commands[td.Cmd]
	if run == nil {
		td.Fatalf(t, "unknown command %q; known are %v", td.Cmd, slices.Sorted(maps.Keys(commands)))
	}
	s.line = newLine(t, td)
	out := run(s, s.line)
	s.line.end()
	return s.tidy(out)
}

var (
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)
	uuids  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	keys   = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
)

// tidy puts the scenario's names where the book has ids, and times since the
// beginning where it has dates, so that every run reads the same.
func (s *stage) tidy(out string) string {
	out = stamps.ReplaceAllStringFunc(out, func(stamp string) string {
		at, err := daybook.ParseTime("stamp", stamp)
		if err != nil {
			return stamp
		}
		return since(at)
	})
	for key, name := range s.keys {
		out = strings.ReplaceAll(out, key, name)
	}
	out = uuids.ReplaceAllStringFunc(out, func(text string) string {
		id, err := daybook.ParseID(text)
		if name := s.names[id]; err == nil && name != "" {
			return name
		}
		return "UUID"
	})
	return keys.ReplaceAllString(out, "KEY")
}

// since writes an instant as the time since the scenario began.
func since(at daybook.Time) string {
	d := at.Sub(daybook.At(epoch))
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	days := ""
	if n := d / (24 * time.Hour); n > 0 {
		days, d = strconv.Itoa(int(n))+"d", d%(24*time.Hour)
		if d == 0 {
			return sign + days
		}
	}
	return sign + days + d.String()
}

// answer is what a command says: the text, or the refusal with its code.
func (s *stage) answer(text string, err error) string {
	if err != nil {
		return string(daybook.CodeOf(err)) + ": " + err.Error()
	}
	return text
}

func (s *stage) job(name string) daybook.ID {
	s.line.t.Helper()
	id, found := s.jobs[name]
	if !found {
		s.line.fail("no job %q was enqueued", name)
	}
	return id
}

// called names an id, so that it is shown by that name from here on.
func (s *stage) called(name string, id daybook.ID) {
	if s.names[id] == "" {
		s.names[id] = name
	}
}

func (s *stage) advance(l *line) string {
	s.w.clock.advance(l.parseDuration(l.name()))
	return ""
}

func (s *stage) now(*line) string { return since(s.w.clock.time()) }

// broken INVARIANT…: what the scenario breaks on purpose.
func (s *stage) broken(l *line) string {
	s.w.broken = l.names()
	return ""
}

func (s *stage) check(*line) string {
	found, err := violations(s.w.ctx, s.w.book)
	if err != nil {
		return s.answer("", err)
	}
	out := ""
	for _, v := range found {
		out += v.Invariant + ": " + v.Subject + " " + v.Detail + "\n"
	}
	if out == "" {
		return "ok"
	}
	return out
}
