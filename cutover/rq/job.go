package rq

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// unpackMost bounds what is unpacked of one job.
const unpackMost = 64 << 20

// unpack undoes RQ's packing; what isn't packed stays as it is.
func unpack(raw []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, unpackMost))
	if err != nil || len(text) == unpackMost {
		return raw
	}
	return text
}

// jobOf reads a job: its id in the list, and its hash.
func jobOf(id string, fields map[string]string, state daybook.OldState) daybook.OldJob {
	job := daybook.OldJob{ID: id, State: state}
	if len(fields) == 0 {
		job.Unreadable = "its hash is gone"
		return job
	}
	data := unpack([]byte(fields["data"]))
	job.Body = append([]byte(fields["created_at"]+"\n"), data...)
	switch {
	case len(data) == 0:
		job.Unreadable = "its hash has no data"
		return job
	case data[0] == 0x80: // how each pickle begins
		job.Class = pickled(data)
		job.Args = json.RawMessage(`"` + base64.StdEncoding.EncodeToString(data) + `"`)
		job.ArgsAs = daybook.OldArgsPickle
	default:
		readJSON(&job, data)
	}
	if job.Class == "" {
		job.Class, _, _ = strings.Cut(fields["description"], "(")
	}
	if job.Class == "" && job.Unreadable == "" {
		job.Unreadable = "it names no function"
	}
	if fields["ended_at"] != "" || state == daybook.OldDead {
		job.Attempts = 1 // RQ doesn't count them: at the least
	}
	left, _ := strconv.Atoi(fields["retries_left"])
	job.MaxAttempts = job.Attempts + max(left, 0)
	if job.Attempts == 0 {
		job.MaxAttempts++
	}
	if n, err := strconv.ParseInt(fields["timeout"], 10, 64); err == nil && n > 0 && n < math.MaxInt64/int64(time.Second) {
		job.Timeout = time.Duration(n) * time.Second
	}
	if job.EnqueuedAt = stamp(fields["enqueued_at"]); job.EnqueuedAt == 0 {
		job.EnqueuedAt = stamp(fields["created_at"])
	}
	if text := fields["exc_info"]; text != "" { // before 1.12
		job.Error = lastLine(string(unpack([]byte(text))))
	}
	return job
}

// readJSON reads a call that was written with RQ's JSON serializer: function,
// instance, arguments, named arguments.
func readJSON(job *daybook.OldJob, data []byte) {
	var call []json.RawMessage
	if err := json.Unmarshal(data, &call); err != nil || len(call) != 4 || json.Unmarshal(call[0], &job.Class) != nil {
		job.Unreadable = "its data is neither a pickle nor a call in JSON"
		return
	}
	if job.Args = call[2]; string(call[3]) != "{}" {
		args, err := json.Marshal(map[string]json.RawMessage{"args": call[2], "kwargs": call[3]})
		if err == nil {
			job.Args = args
		}
	}
}

// pickled is the first text in a pickle, which RQ writes as the function's name.
// Nothing of it is loaded: a pickle is a program.
func pickled(data []byte) string {
	rest := data[min(len(data), 2):]
	if len(rest) > 9 && rest[0] == 0x95 { // the frame's length
		rest = rest[9:]
	}
	for len(rest) > 0 && rest[0] == '(' { // the mark before a tuple's parts
		rest = rest[1:]
	}
	var size int
	switch {
	case len(rest) > 2 && rest[0] == 0x8c:
		size, rest = int(rest[1]), rest[2:]
	case len(rest) > 5 && rest[0] == 'X':
		size, rest = int(binary.LittleEndian.Uint32(rest[1:])), rest[5:]
	}
	if size > len(rest) {
		return ""
	}
	return string(rest[:size])
}

// stamp reads a time as RQ writes them.
func stamp(text string) daybook.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0
	}
	return daybook.At(at)
}

// failure is the error in a result, which RQ packs and writes in base64.
func failure(packed string) string {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return ""
	}
	return lastLine(string(unpack(raw)))
}

// lastLine is where Python's traceback says what happened.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
