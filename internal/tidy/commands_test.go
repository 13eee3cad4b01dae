package tidy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// TestCommandsExist: each `daybook …` in the documents is a command of the
// binary, with flags that it has.
func TestCommandsExist(t *testing.T) {
	known := cli{binary: filepath.Join(binaries(t), "daybook"), pages: map[string]string{}}
	found := 0
	for _, f := range files(t, ".md") {
		for _, command := range commandsIn(f.text) {
			found++
			if wrong := known.check(t, command); wrong != "" {
				t.Errorf("%s: `%s`: %s", f.path, strings.Join(command, " "), wrong)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d commands in the documents; the search is broken", found)
	}
}

// bin is a folder for the command, which is built when a test first wants it.
var (
	bin   string
	built = sync.OnceValue(func() error {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, "daybook"), "./cmd/daybook")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building the command: %w\n%s", err, out)
		}
		return nil
	})
)

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "daybook-tidy-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// binaries is a folder with the command in it.
func binaries(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return bin
}

var (
	fence  = regexp.MustCompile("(?ms)^```(?:sh|bash|console)\n(.*?)^```")
	inline = regexp.MustCompile("`(daybook [^`]+)`")
	word   = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
)

// commandsIn finds the commands of a page, in fenced shell and in backticks,
// as words.
func commandsIn(text string) (commands [][]string) {
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		block := strings.ReplaceAll(m[1], "\\\n", " ")
		for _, line := range strings.Split(block, "\n") {
			line = strings.TrimSpace(line)
			line = strings.Replace(line, "go run ./cmd/daybook", "daybook", 1)
			if strings.HasPrefix(line, "daybook ") {
				commands = append(commands, words(line))
			}
		}
	}
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		commands = append(commands, words(m[1]))
	}
	return commands
}

// words splits a command as far as a pipe, a redirection, an ellipsis or a
// comment.
func words(line string) (out []string) {
	for _, w := range word.FindAllString(line, -1) {
		if strings.ContainsAny(w[:1], "|<>;&#…") {
			break
		}
		out = append(out, w)
	}
	return out
}

// cli asks the binary for its help pages, each once.
type cli struct {
	binary string
	pages  map[string]string
}

func (c cli) help(t *testing.T, path []string) string {
	t.Helper()
	key := strings.Join(path, " ")
	if page, ok := c.pages[key]; ok {
		return page
	}
	out, err := exec.Command(c.binary, append(path, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("daybook %s --help: %v\n%s", key, err, out)
	}
	c.pages[key] = string(out)
	return string(out)
}

// check walks down the commands as long as the words name one, and then looks
// for the flags.
func (c cli) check(t *testing.T, command []string) (wrong string) {
	t.Helper()
	var path []string
	rest := command[1:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		page := c.help(t, path)
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(rest[0]) + `\s`).MatchString(section(page, "Commands:")) {
			if section(page, "Commands:") != "" {
				return "there is no command " + rest[0]
			}
			break // an argument
		}
		path, rest = append(path, rest[0]), rest[1:]
	}
	page := c.help(t, path)
	for _, w := range rest {
		flag, _, _ := strings.Cut(w, "=")
		known := regexp.MustCompile(`(^|[\s,])` + regexp.QuoteMeta(flag) + `\b`)
		if strings.HasPrefix(flag, "-") && len(flag) > 1 && !known.MatchString(section(page, "Flags:")) {
			return "it has no flag " + flag
		}
	}
	return ""
}

// section is the part of a help page behind the lines that end in the heading.
func section(page, heading string) string {
	var b strings.Builder
	inside := false
	for _, line := range strings.Split(page, "\n") {
		if line != "" && line[0] != ' ' {
			inside = strings.HasSuffix(line, heading)
		} else if inside {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestCommandsIn(t *testing.T) {
	page := "Use `daybook job show ID` or:\n```sh\ngo run ./cmd/daybook demo\n" +
		"daybook enqueue --queue a \\\n  --args '{\"a\": 1}' | jq # x\n$ other\n```\n"
	var got []string
	for _, c := range commandsIn(page) {
		got = append(got, strings.Join(c, "|"))
	}
	want := "daybook|demo daybook|enqueue|--queue|a|--args|'{\"a\": 1}' daybook|job|show|ID"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}
