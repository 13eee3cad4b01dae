package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/schollz/progressbar/v3"

	"github.com/daybookdev/daybook"
)

// One batch of lines: as many as make a commit cheap, and few enough bytes
// that a file of any length is read in the same memory.
const (
	batchLines = 500
	batchBytes = 4 << 20
	lineMax    = daybook.ArgsMax + 64<<10 // what DecodeRequest takes
)

// refusedLine is a line that is not in the book, and why.
type refusedLine struct {
	Line  int64        `json:"line"`
	Code  daybook.Code `json:"code"`
	Error string       `json:"error"`
}

// fromAnswer is what became of a file.
type fromAnswer struct {
	Accepted int64         `json:"accepted"`
	Replayed int64         `json:"replayed"`
	Refused  []refusedLine `json:"refused"`
}

// fromRun reads requests from lines and enqueues them in batches.
type fromRun struct {
	app     *app
	book    enqueuer
	lines   *lineReader
	bar     *progressbar.ProgressBar // nil unless somebody watches
	answer  fromAnswer
	refused int64
	untold  []refusedLine // of this batch, to be told in the order of their lines

	batch   []daybook.Request
	numbers []int64 // of the lines in batch
	bytes   int
	step    int // how many to try at once: less after a refusal
}

func (a *app) enqueueFrom(ctx context.Context, name string) error {
	from, size, err := a.openLines(name)
	if err != nil {
		return err
	}
	defer from.Close()
	return on(ctx, a, func(ctx context.Context, book enqueuer) error {
		run := &fromRun{app: a, book: book, lines: newLineReader(from), bar: a.progress(size, "enqueueing", true),
			step: batchLines}
		run.answer.Refused = []refusedLine{}
		if err := run.all(ctx); err != nil {
			return run.stopped(err)
		}
		if run.bar != nil {
			_ = run.bar.Finish()
		}
		return run.report()
	})
}

func (a *app) openLines(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, usage("--from %s can't be read; give an existing file, or - for standard input", name)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return nil, 0, errors.Join(usage("--from %s is a folder; give a file", name), f.Close())
	}
	if err != nil || !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// progress is a bar on a terminal, and nothing anywhere else.
func (a *app) progress(size int64, doing string, bytes bool) *progressbar.ProgressBar {
	if !a.watched() {
		return nil
	}
	bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionShowBytes(bytes), progressbar.OptionClearOnFinish())
	if !bytes {
		progressbar.OptionShowCount()(bar) // also where nobody knows of how many
	}
	// Else its clock would begin with the first step that is done, and the first
	// speed be that step's bytes in no time.
	bar.StartWithoutRender()
	return bar
}

func (r *fromRun) all(ctx context.Context) error {
	for {
		line, number, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			return r.flush(ctx)
		}
		if err != nil && daybook.CodeOf(err) != daybook.CodeTooLarge {
			return err
		}
		r.take(line, number, err)
		if len(r.batch)+len(r.untold) >= batchLines || r.bytes >= batchBytes {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// take puts a line into the batch, or refuses it.
func (r *fromRun) take(line []byte, number int64, err error) {
	var request daybook.Request
	if err == nil {
		request, err = daybook.DecodeRequest(line)
	}
	if err != nil {
		r.refuse(number, err)
		return
	}
	r.batch, r.numbers = append(r.batch, request), append(r.numbers, number)
	r.bytes += len(line)
}

// flush enqueues what was collected. A refused line is taken out and the rest
// tried again, in smaller steps: in a file where every line is refused, the
// work of one good line isn't done over and over for its neighbours.
func (r *fromRun) flush(ctx context.Context) error {
	defer r.tell()
	at := 0
	for at < len(r.batch) {
		n := min(r.step, len(r.batch)-at)
		receipts, err := r.book.EnqueueMany(ctx, r.batch[at:at+n])
		if err == nil {
			r.count(receipts)
			at, r.step = at+n, min(2*r.step, batchLines)
			continue
		}
		if statusOf(err) != statusUsage && statusOf(err) != statusRefused {
			return err
		}
		bad := daybook.BatchIndex(err)
		switch {
		case n == 1 || bad == 0:
			r.refuse(r.numbers[at], err)
			at, r.step = at+1, max(1, n/2)
		case bad > 0:
			r.step = bad // what stands before it is good
		default:
			r.step = n / 2 // nobody said which: look closer
		}
	}
	if r.bar != nil {
		_ = r.bar.Set64(r.lines.read)
	}
	clear(r.batch) // lets go of the args
	r.batch, r.numbers, r.bytes = r.batch[:0], r.numbers[:0], 0
	return nil
}

// tell says on standard error which lines were refused since the last time.
func (r *fromRun) tell() {
	sortLines(r.untold)
	for _, line := range r.untold {
		r.app.note("line %d: %s", line.Line, line.Error)
	}
	r.untold = r.untold[:0]
}

func sortLines(lines []refusedLine) {
	slices.SortFunc(lines, func(a, b refusedLine) int { return cmp.Compare(a.Line, b.Line) })
}

func (r *fromRun) count(receipts []daybook.Receipt) {
	for _, receipt := range receipts {
		if receipt.Replayed {
			r.answer.Replayed++
		} else {
			r.answer.Accepted++
		}
	}
}

// refuse keeps a refusal for the JSON answer, or until the lines before it are
// told too. Only refusals take memory, and only of as many lines as a batch has
// unless they must be reported at the end.
func (r *fromRun) refuse(line int64, err error) {
	r.refused++
	refused := refusedLine{line, daybook.CodeOf(err), oneLine(err.Error())}
	if r.app.json() {
		r.answer.Refused = append(r.answer.Refused, refused)
		return
	}
	if r.untold = append(r.untold, refused); len(r.batch) == 0 {
		r.tell() // nothing before it is undecided
	}
}

func (r *fromRun) report() error {
	sortLines(r.answer.Refused)
	err := r.app.show(r.answer, func(t *table) {
		t.head = []string{"ACCEPTED", "REPLAYED", "REFUSED"}
		t.row(r.answer.Accepted, r.answer.Replayed, r.refused)
	})
	if err != nil {
		return exitError{statusFailed, fmt.Sprintf("%s in the book, but the answer can't be printed: %s",
			areStored(r.answer), err)}
	}
	if r.refused > 0 {
		err = exitError{statusFailed, fmt.Sprintf("%s refused; correct them and run again",
			count(r.refused, "line"))}
	}
	return err
}

// areStored says how many lines of a file are in the book.
func areStored(answer fromAnswer) string {
	if n := answer.Accepted + answer.Replayed; n != 1 {
		return count(n, "line") + " are"
	}
	return "1 line is"
}

// stopped says how far the file got before something else than a line failed.
func (r *fromRun) stopped(err error) error {
	done := r.answer.Accepted + r.answer.Replayed
	code := daybook.CodeOf(err)
	return &daybook.Error{Code: code, Err: err, Text: fmt.Sprintf(
		"stopped at line %d with %s in the book: %s (lines with a key or an id can be given again)",
		r.lines.number, count(done, "line"), oneLine(err.Error()))}
}

// lineReader reads lines of bounded length and counts them.
type lineReader struct {
	r      *bufio.Reader
	line   []byte
	number int64 // of the last line read, from 1
	read   int64 // bytes so far
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next reads one line that isn't blank; it is valid until the next call. A
// line past lineMax is skipped whole and answered with CodeTooLarge.
func (l *lineReader) next() ([]byte, int64, error) {
	for {
		size, err := l.readLine()
		if err != nil {
			return nil, l.number, err
		}
		l.number++
		if l.number == 1 {
			l.line = bytes.TrimPrefix(l.line, []byte("\xef\xbb\xbf")) // some editors begin a file with it
		}
		if size > lineMax+2 { // the line's end doesn't count
			return nil, l.number, &daybook.Error{Code: daybook.CodeTooLarge, Field: "body",
				Text: fmt.Sprintf("at most %d bytes a line, got %d", lineMax, size)}
		}
		if line := bytes.Trim(l.line, " \t\r\n"); len(line) > 0 {
			return line, l.number, nil
		}
	}
}

// readLine fills l.line up to lineMax bytes and returns how long the line is.
func (l *lineReader) readLine() (size int64, err error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		size += int64(len(part))
		l.read += int64(len(part))
		if size <= lineMax+2 {
			l.line = append(l.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size > 0:
			return size, nil
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, exitError{statusFailed, "the input stopped in the middle"}
		}
		return size, nil
	}
}
