package check

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/daybookdev/daybook"
)

// Acceptance says what became of ids that somebody was told are accepted.
type Acceptance struct {
	Accepted int64        `json:"accepted"` // lines with an id
	Missing  []daybook.ID `json:"missing"`  // not in the book, in the order of the lines
}

const (
	// lineMax bounds a line, in bytes; a job as JSON with its args fits.
	lineMax = daybook.ArgsMax + 64<<10
	// acceptedBatch is how many ids are asked for at once.
	acceptedBatch = 2000
)

// receipt is one line: an id alone, or JSON with an id and, if the request had
// one, its key.
type receipt struct {
	ID  daybook.ID `json:"id"`
	Key string     `json:"key"`
}

// Accepted reads ids from r, one a line, bare or as the id of a JSON object,
// and answers which of them the book doesn't know. A job is known by its row,
// or after its retention by the record of its key, when the line has the key
// too. Empty lines are skipped; a line without an id is refused with its
// number.
func Accepted(ctx context.Context, book *daybook.Book, r io.Reader) (Acceptance, error) {
	out := Acceptance{Missing: []daybook.ID{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineMax)
	batch := make([]receipt, 0, acceptedBatch)
	look := func() error {
		missing, err := unknown(ctx, book, batch)
		out.Missing = append(out.Missing, missing...)
		batch = batch[:0]
		return err
	}
	number := int64(0)
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		receipt, err := parseReceipt(line)
		if err != nil {
			return out, lineError(number, "has neither a job id nor JSON with one")
		}
		out.Accepted++
		if batch = append(batch, receipt); len(batch) == acceptedBatch {
			if err := look(); err != nil {
				return out, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return out, lineError(number+1, "is longer than "+strconv.Itoa(lineMax)+" bytes")
		}
		return out, &daybook.Error{Code: daybook.CodeInvalid, Field: "accepted", Text: "can't be read", Err: err}
	}
	return out, look()
}

func lineError(number int64, what string) error {
	return daybook.Invalid("accepted", "line %d %s", number, what)
}

func parseReceipt(line []byte) (r receipt, err error) {
	if line[0] == '{' {
		err = json.Unmarshal(line, &r)
		if err == nil && r.ID.IsZero() {
			err = daybook.ErrInvalid
		}
		return r, err
	}
	r.ID, err = daybook.ParseID(string(line))
	return r, err
}

// unknown looks for a batch of ids, and then for the keys of those without a
// job.
func unknown(ctx context.Context, book *daybook.Book, batch []receipt) (missing []daybook.ID, err error) {
	inspector, ok := book.Store().(daybook.Inspector)
	if !ok {
		return nil, noInspector(book)
	}
	ids := make([]daybook.ID, len(batch))
	for i, r := range batch {
		ids[i] = r.ID
	}
	known, err := inspector.Known(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, r := range batch {
		if !known[i] && r.Key != "" {
			k, err := book.Key(ctx, r.Key)
			if err != nil && !errors.Is(err, daybook.ErrNotFound) {
				return nil, err
			}
			known[i] = k.Job == r.ID
		}
		if !known[i] {
			missing = append(missing, r.ID)
		}
	}
	return missing, nil
}
