package tidy

import (
	"regexp"
	"strings"
	"testing"
)

// A banned word, what to say instead, and what makes a line an exception.
type banned struct {
	word    *regexp.Regexp
	instead string
	unless  *regexp.Regexp // nil is never
}

func ban(word, instead, unless string) banned {
	b := banned{word: regexp.MustCompile(`(?i)` + word), instead: instead}
	if unless != "" {
		b.unless = regexp.MustCompile(unless)
	}
	return b
}

// bannedWords: one word per thing, in code, SQL, commands and docs. Other
// systems' names stand in GLOSSARY.md, beside ours.
var bannedWords = []banned{
	ban(`\bheart-?beat`, "renew, renewal", `reliable-fetcher-heartbeat`),
	ban(`\bdequeu`, "claim", ""),
	ban(`\bDLQ\b`, "set aside", ""),
	ban(`\bdead-?letter`, "set aside", `search|operators|other systems`),
	ban(`\brescuer`, "reconciler", ""),
	ban(`\bvisibility timeout`, "lease", `celery|SQS`),
	ban(`\bnack(s|ed)?\b`, "release", ""),
	// A moved job's origin has the hash of what another system calls so, and
	// GitHub calls a delivery's body so.
	ban(`payload`, "args", `PayloadHash|payload_hash|json:"payload"|GitHub|n\.Payload`),
	ban(`\bexactly[- ]once\b`, "at least once; say where once means once", `same (database )?transaction|P10`),
	ban(`\b(mocks?|mocked)\b`, "the real thing", `[Nn]o mocks`),
	ban(`\b(TODO|FIXME|XXX|HACK)\b`, "an issue", ""),
}

// notOurs: words of somebody's machine, which mean nothing to anybody else.
var notOurs = []banned{
	ban(`(^|[\s"'=(])/(root|work|home/[a-z]+|Users/[A-Za-z]+)/`, "a relative path", ""),
	ban(`\b[A-Z]:\\Users`, "a relative path", ""),
	ban(`\bGO(PROXY|SUMDB|NOSUMDB|PRIVATE|NOPROXY)\b`, "nothing: it is the reader's own setting", ""),
}

func TestWords(t *testing.T) {
	for _, f := range files(t, ".go", ".md", ".sql", ".txt", ".sh", ".toml", ".yml", "Makefile", "run") {
		own := strings.HasPrefix(f.path, "internal/tidy/")
		for n, line := range f.lines() {
			if !own && !isTest(f) && f.path != "GLOSSARY.md" {
				complain(t, f, n, line, bannedWords)
			}
			if !own {
				complain(t, f, n, line, notOurs)
			}
		}
	}
}

// isTest reports whether the file is for tests, which may speak of what other
// systems do.
func isTest(f file) bool {
	for _, dir := range []string{"store/storetest/", "internal/mutate/", "cutover/sourcetest/", "internal/oldworkers/"} {
		if strings.HasPrefix(f.path, dir) {
			return true
		}
	}
	return f.isTest()
}

func complain(t *testing.T, f file, n int, line string, rules []banned) {
	t.Helper()
	for _, b := range rules {
		if b.word.MatchString(line) && (b.unless == nil || !b.unless.MatchString(line)) {
			t.Errorf("%s:%d: %q; say %s", f.path, n+1, b.word.FindString(line), b.instead)
		}
	}
}

// TestWordRules: the rules above find what they are for and nothing else.
func TestWordRules(t *testing.T) {
	for line, want := range map[string]bool{
		"the Heartbeat goes":                                 true,
		"a worker renews its lease":                          false,
		"dequeued the job":                                   true,
		"PayloadHash string":                                 false,
		"the job's payload":                                  true,
		"runs exactly once":                                  true,
		"once, in the same transaction":                      false,
		"exactly once in this transaction":                   true,
		"exactly once, inside the same database transaction": false,
	} {
		got := false
		for _, b := range bannedWords {
			got = got || b.word.MatchString(line) && (b.unless == nil || !b.unless.MatchString(line))
		}
		if got != want {
			t.Errorf("%q: banned is %v, want %v", line, got, want)
		}
	}
}

// TestNoWaitingByTheClock: tests wait for signals, or in virtual time; they
// skip nothing.
func TestNoWaitingByTheClock(t *testing.T) {
	all := files(t, ".go")
	virtual := map[string]bool{} // packages whose tests run in virtual time
	for _, f := range all {
		virtual[f.dir()] = virtual[f.dir()] || strings.Contains(f.text, `"testing/synctest"`)
	}
	for _, f := range all {
		if !isTest(f) || strings.HasPrefix(f.path, "internal/tidy/") || strings.HasPrefix(f.path, "bench/") ||
			strings.HasPrefix(f.path, "internal/oldworkers/") {
			continue
		}
		generated := strings.Contains(f.text, `"pgregory.net/rapid"`) // there a skip draws another move
		for n, line := range f.lines() {
			if strings.Contains(line, "time.Sleep(") && !virtual[f.dir()] {
				t.Errorf("%s:%d: sleeps outside virtual time; wait for a signal", f.path, n+1)
			}
			skips := strings.Contains(line, ".Skip(") || strings.Contains(line, ".SkipNow(")
			asked := strings.Contains(line, "; give -") // a measurement behind its own flag
			if skips && !generated && !asked {
				t.Errorf("%s:%d: skips; a test that can't run fails", f.path, n+1)
			}
		}
	}
}
