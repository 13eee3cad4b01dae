package oldredis

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// An Envelope is a job with where it lay, as the held list has it. In bytes it is
// one line of words and what they announce:
//
//	1 FROM SCORE NUMBER LENGTH… newline, then the parts, one behind the other
type Envelope struct {
	From   string // where it lay, in the source's own words: lower-case letters
	Score  string // in a sorted set, as Redis prints it; "" is none
	Number int64  // tells equal jobs in the held list apart; 0 while a job isn't held
	Parts  [][]byte
}

// Bytes is the envelope as it lies in the held list.
func (e Envelope) Bytes() []byte {
	var b bytes.Buffer
	score := e.Score
	if score == "" {
		score = "-"
	}
	fmt.Fprintf(&b, "1 %s %s %d", e.From, score, e.Number)
	for _, p := range e.Parts {
		fmt.Fprintf(&b, " %d", len(p))
	}
	b.WriteByte('\n')
	for _, p := range e.Parts {
		b.Write(p)
	}
	return b.Bytes()
}

// ParseEnvelope reads what Bytes or a script made. The parts share raw's memory.
func ParseEnvelope(raw []byte) (Envelope, error) {
	wrong := daybook.Fail(daybook.CodeInvalid, "what was kept of a job of the old system isn't whole: "+
		"%d bytes that are no envelope", len(raw))
	line, rest, found := bytes.Cut(raw, []byte("\n"))
	words := strings.Split(string(line), " ")
	if !found || len(words) < 5 || words[0] != "1" {
		return Envelope{}, wrong
	}
	e := Envelope{From: words[1], Score: words[2]}
	if e.Score == "-" {
		e.Score = ""
	}
	var err error
	if e.Number, err = strconv.ParseInt(words[3], 10, 64); err != nil {
		return Envelope{}, wrong
	}
	for _, w := range words[4:] {
		n, err := strconv.Atoi(w)
		if err != nil || n < 0 || n > len(rest) {
			return Envelope{}, wrong
		}
		e.Parts, rest = append(e.Parts, rest[:n:n]), rest[n:]
	}
	if len(rest) > 0 {
		return Envelope{}, wrong
	}
	return e, nil
}

// ScoreTime reads the score as seconds since 1970.
func (e Envelope) ScoreTime() daybook.Time {
	f, err := strconv.ParseFloat(e.Score, 64)
	if err != nil {
		return 0
	}
	return Seconds(f)
}

// Seconds turns seconds since 1970, as many systems keep them, into a time. What
// can't be one is none.
func Seconds(s float64) daybook.Time {
	if !(s > 0) || s > float64(daybook.TimeMax)/1e6 {
		return 0
	}
	return daybook.Time(s*1e6 + 0.5)
}

// prelude is what all scripts begin with. hold puts a job into the held list
// before its caller takes it out of where it lies: if the store is full, hold
// fails and nothing has changed. Two keys belong to it: the list and the counter
// of its numbers.
const prelude = `
local function hold(list, counter, from, score, parts)
	local line = {'1', from, score or '-', string.format('%.0f', redis.call('INCR', counter))}
	for _, part in ipairs(parts) do
		line[#line + 1] = string.format('%.0f', #part)
	end
	local envelope = table.concat(line, ' ') .. '\n' .. table.concat(parts)
	redis.call('RPUSH', list, envelope)
	return envelope
end
`

// NewScript makes a fenced script that has hold(list, counter, from, score, parts).
// It runs by its hash, and by its text where the store has forgotten it.
func NewScript(body string) *redis.Script { return Fenced(prelude + body) }

// TakeMost bounds what one script takes, so that the store isn't held up: jobs,
// and bytes of them after which it stops.
const (
	TakeMost      = 250
	TakeMostBytes = 8 << 20
)

// Hold is the held list of one queue.
type Hold struct {
	Store   *Store
	List    string // keys
	Counter string

	stage, name string // that was begun last, of which cutover; "" is none
}

// Held reads up to n envelopes, oldest first.
func (h Hold) Held(ctx context.Context, n int) ([][]byte, error) {
	var all [][]byte
	for bytes := 0; len(all) < n && bytes < 64<<20; {
		from := int64(len(all))
		some, err := h.Store.LRange(ctx, h.List, from, min(int64(n), from+TakeMost)-1).Result()
		if err != nil {
			return nil, h.Store.Err("reading the held list", err)
		}
		for _, e := range some {
			all, bytes = append(all, []byte(e)), bytes+len(e)
		}
		if len(some) < min(n-int(from), TakeMost) {
			break
		}
	}
	return all, nil
}

// Count is how many jobs are held.
func (h Hold) Count(ctx context.Context) (int64, error) {
	n, err := h.Store.LLen(ctx, h.List).Result()
	return n, h.Store.Err("counting the held list", err)
}

// dropScript takes envelopes out of the held list. KEYS are the list; ARGV they.
var dropScript = Fenced(`
for _, envelope in ipairs(ARGV) do redis.call('LREM', KEYS[1], 1, envelope) end
return 1
`)

// Drop takes envelopes out; those that aren't there are passed by.
func (h *Hold) Drop(ctx context.Context, envelopes [][]byte) error {
	for len(envelopes) > 0 {
		var args []any
		for bytes := 0; len(args) < min(len(envelopes), TakeMost) && bytes < TakeMostBytes; {
			bytes += len(envelopes[len(args)])
			args = append(args, envelopes[len(args)])
		}
		envelopes = envelopes[len(args):]
		if _, err := h.Run(ctx, "emptying the held list", dropScript, []string{h.List}, args...); err != nil {
			return err
		}
	}
	return nil
}

// Envelopes turns a script's answer into the envelopes it took.
func Envelopes(answer any) [][]byte {
	list, _ := answer.([]any)
	all := make([][]byte, 0, len(list))
	for _, one := range list {
		if text, ok := one.(string); ok {
			all = append(all, []byte(text))
		}
	}
	return all
}
