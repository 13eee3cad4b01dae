package tidy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// TestGapsPage: docs/gaps.md is what daybook.Gaps says.
func TestGapsPage(t *testing.T) {
	current(t, "docs/gaps.md", gapsPage(t))
}

const gapsHead = `# The gaps

<!-- Generated from gap.go by internal/tidy: change it there and run make gen. -->

A process can die between any two steps, and a message can be lost on any way.
These are all the places on the path from a request to its acknowledgement. At
each number below, the process on either side may be gone the next moment, for
good or only for a while.

` + "```text" + `
`

// gapsPath is the path, drawn once. {name} is where a gap lies; its number is
// its place in daybook.Gaps.
const gapsPath = `
caller        the book              bell            worker           outside
  |               |                   |                |                |
  |-- request --->|                   |                |                |
  |   {accept}    |                   |                |                |
  |               | committed         |                |                |
  |<-- receipt ---|                   |                |                |
  |               |   {publish}       |                |                |
  |               |-- ring ---------->|                |                |
  |               |   {mark}          | {deliver}      |                |
  |               | ring row removed  |-- look now --->|                |
  |               |                   |   {claim}      |                |
  |               |<-- claim --------------------------|                |
  |               | committed         |                |                |
  |               |   {grant}         |                |                |
  |               |-- the job and its generation ----->|                |
  |               |                   |                | {start}        |
  |               |                   |                | handler begins |
  |               |<-- this effect begins -------------|                |
  |               |                   |                | {begin}        |
  |               |                   |                |-- do it ------>|
  |               |                   |                |       it happens
  |               |                   |                | {record}       |
  |               |<-- it is done ---------------------|                |
  |               |                   |                | {complete}     |
  |               |<-- complete -----------------------|                |
  |               | committed         |                |                |
  |               |   {reply}         |                |                |
  |               |-- recorded ----------------------->|                |
  |               |                   | {ack}          |                |
  |               |                   |<-- had it -----|                |
  |               |                   |                |                |
{pause}   anywhere on its line the worker may stop for longer than its lease,
          and then go on as if nothing had happened
`

const gapsTail = "```" + `

Each gap has a hook of its name in the code (` + "`Book.Reached`" + `), which costs nothing
in production; demo and tests stop or kill a real process right there.

The bell's gaps are here because a bell may be outside of the process (a broker);
with the bell inside the process there is no message to lose.

`

func gapsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(gapsHead)
	b.WriteString(strings.TrimPrefix(drawGaps(t), "\n"))
	b.WriteString(gapsTail)
	for i, g := range daybook.Gaps {
		fmt.Fprintf(&b, "## %d. %s\n\nBetween %s.\n\n", i+1, g.Name, g.Between)
		fmt.Fprintf(&b, "* Left behind: %s.\n* Found: %s.\n* Repaired by: %s.\n\n", g.Left, g.Found, g.Repaired)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// drawGaps puts number and name into the path, in the room of the mark and the
// blank behind it, so that the lines stay straight. Every gap stands there once.
func drawGaps(t *testing.T) string {
	t.Helper()
	drawing := gapsPath
	for i, g := range daybook.Gaps {
		mark := "{" + g.Name + "} "
		if strings.Count(drawing, mark) != 1 {
			t.Fatalf("gap %s stands %d times in the drawing", g.Name, strings.Count(drawing, mark))
		}
		numbered := fmt.Sprintf("%d %s", i+1, g.Name)
		drawing = strings.Replace(drawing, mark, fmt.Sprintf("%-*s", len(mark), numbered), 1)
	}
	if left := regexp.MustCompile(`\{[a-z]+\}`).FindString(drawing); left != "" {
		t.Fatalf("the drawing has %s, which is no gap", left)
	}
	return drawing
}
