package procs

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"

	"github.com/daybookdev/daybook"
)

// Lines writes values as lines of JSON, from any goroutine: what parent and
// child say to each other.
type Lines struct {
	W  io.Writer
	mu sync.Mutex
}

// Write writes one value.
func (l *Lines) Write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.W.Write(append(line, '\n'))
	return err
}

// ReadLines decodes one value a line until the end. A line that is cut off,
// because its writer was killed, is the end too; the error is a whole line that
// is something else.
func ReadLines[T any](r *bufio.Reader, each func(T)) error {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return daybook.Invalid("line", "%.80q is not what these processes say to each other", line)
		}
		each(v)
	}
}
