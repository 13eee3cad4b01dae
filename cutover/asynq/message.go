package asynq

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/daybookdev/daybook"
)

// The fields of Asynq's message.
const (
	fieldType      = 1
	fieldArgs      = 2
	fieldID        = 3
	fieldQueue     = 4
	fieldRetry     = 5
	fieldRetried   = 6
	fieldError     = 7
	fieldTimeout   = 8
	fieldUnique    = 10
	fieldFailedAt  = 11
	fieldCompleted = 13
	fieldHeaders   = 15
	fieldLast      = 15
)

// message is what is in one.
type message struct {
	text   map[protowire.Number][]byte
	number map[protowire.Number]int64
	kept   [][]byte // what doesn't change while the job lives, each field with its tag
	newest protowire.Number
}

var errMessage = errors.New("asynq: not a message")

// readMessage reads the wire format of protocol buffers.
func readMessage(raw []byte) (message, error) {
	m := message{text: map[protowire.Number][]byte{}, number: map[protowire.Number]int64{}}
	if len(raw) == 0 {
		return m, errMessage
	}
	var headers [][]byte
	for len(raw) > 0 {
		field, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return m, errMessage
		}
		size := protowire.ConsumeFieldValue(field, kind, raw[n:])
		if size < 0 {
			return m, errMessage
		}
		value := raw[n : n+size]
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			m.number[field] = int64(v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			m.text[field] = v
		}
		switch field {
		case fieldRetried, fieldError, fieldFailedAt, fieldCompleted:
		case fieldHeaders:
			headers = append(headers, raw[:n+size])
		default:
			m.kept = append(m.kept, raw[:n+size])
		}
		m.newest = max(m.newest, field)
		raw = raw[n+size:]
	}
	slices.SortFunc(headers, bytes.Compare) // a map: it is written in any order
	m.kept = append(m.kept, headers...)
	return m, nil
}

// jobOf reads a job: its id in the list, and its hash.
func jobOf(id string, fields map[string]string, state daybook.OldState) daybook.OldJob {
	job := daybook.OldJob{ID: id, State: state, Body: []byte(fields["msg"])}
	m, err := readMessage([]byte(fields["msg"]))
	switch {
	case len(fields) == 0:
		job.Unreadable = "its hash is gone"
		return job
	case err != nil || len(m.text[fieldType]) == 0 || string(m.text[fieldID]) != id:
		job.Unreadable = "its message isn't one of Asynq's"
		return job
	}
	job.Class = string(m.text[fieldType])
	job.Args, job.ArgsAs = argsOf(m.text[fieldArgs])
	job.Key = string(m.text[fieldUnique])
	job.Attempts, job.MaxAttempts = int(m.number[fieldRetried]), int(m.number[fieldRetry])+1
	job.Error = string(m.text[fieldError])
	if state == daybook.OldDead && (job.Error != "" || m.number[fieldFailedAt] != 0) {
		job.Attempts++ // the failure that archived it isn't counted
	}
	job.Timeout = time.Duration(min(m.number[fieldTimeout], int64(1<<63-1)/int64(time.Second))) * time.Second
	if ns, err := strconv.ParseInt(fields["pending_since"], 10, 64); err == nil {
		job.EnqueuedAt = daybook.Time(ns / 1000)
	}
	job.Body = bytes.Join(m.kept, nil)
	return job
}

// argsOf are the arguments, which Asynq takes for bytes. Most are JSON.
func argsOf(raw []byte) (json.RawMessage, daybook.OldArgs) {
	if len(raw) == 0 {
		return json.RawMessage("null"), daybook.OldArgsJSON
	}
	if json.Valid(raw) {
		return raw, daybook.OldArgsJSON
	}
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(raw) + `"`), daybook.OldArgsBytes
}

// server is what a server reports of itself.
type server struct {
	name   string
	queues []string
	status string
	busy   int
}

func readServer(raw []byte) (server, error) {
	m, err := readMessage(raw)
	if err != nil {
		return server{}, err
	}
	s := server{status: string(m.text[7]), busy: int(m.number[9]), name: string(m.text[1]) + ":" +
		strconv.FormatInt(m.number[2], 10) + ":" + string(m.text[3])}
	const fieldQueues = 5 // a map of their priorities; each entry is a message
	for len(raw) > 0 {
		field, kind, n := protowire.ConsumeTag(raw)
		size := protowire.ConsumeFieldValue(field, kind, raw[n:])
		if value, ok := protowire.ConsumeBytes(raw[n : n+size]); ok > 0 && field == fieldQueues {
			if entry, err := readMessage(value); err == nil {
				s.queues = append(s.queues, string(entry.text[1]))
			}
		}
		raw = raw[n+size:]
	}
	return s, nil
}
