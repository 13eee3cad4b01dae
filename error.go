package daybook

import (
	"errors"
	"fmt"
	"strconv"
)

// Code says to a program what went wrong; the error's text says it to a person.
type Code string

// The codes. They are also the `code` of HTTP problems, and decide the exit
// status of the command line.
const (
	CodeMalformed   Code = "malformed"
	CodeInvalid     Code = "invalid"
	CodeTooLarge    Code = "too_large"
	CodeNotFound    Code = "not_found"
	CodeFenced      Code = "fenced"
	CodeRefused     Code = "refused"
	CodeEffectOpen  Code = "effect_open"
	CodeKeyConflict Code = "key_conflict"
	CodeBusy        Code = "busy"
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"

	// CodeEffectNameReused: an effect's name was begun twice in one attempt.
	CodeEffectNameReused Code = "effect_name_reused"
)

// Error is every error a caller of this package sees. Raw errors of a driver
// stay inside (Unwrap) and are never part of the text.
type Error struct {
	Code  Code
	Field string // which input, when one is to blame
	Text  string // what, which, and what to do
	Err   error  // the cause, for logs and tests
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Text
	}
	if e.Text == "" {
		return string(e.Code)
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrFenced) true for any error of that code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Text == "" && t.Code == e.Code
}

// Sentinels, for errors.Is.
var (
	// ErrFenced: generation or session is not the current one of the job.
	ErrFenced = &Error{Code: CodeFenced}
	// ErrRefused: the job's state doesn't allow the move.
	ErrRefused = &Error{Code: CodeRefused}
	// ErrEffectOpen: an effect was begun and nobody knows how it ended.
	ErrEffectOpen = &Error{Code: CodeEffectOpen}
	// ErrEffectNameReused: an effect's name was begun twice in one attempt.
	ErrEffectNameReused = &Error{Code: CodeEffectNameReused}
	// ErrNotFound: no such job, session, queue or key.
	ErrNotFound = &Error{Code: CodeNotFound}
	// ErrKeyConflict: the key or id belongs to another request.
	ErrKeyConflict = &Error{Code: CodeKeyConflict}
	// ErrInvalid: the input breaks a rule that the text names.
	ErrInvalid = &Error{Code: CodeInvalid}
	// ErrBusy: somebody holds the row; try again.
	ErrBusy = &Error{Code: CodeBusy}
	// ErrUnavailable: the database can't be reached, or its answer was lost.
	ErrUnavailable = &Error{Code: CodeUnavailable}
)

// CodeOf is the code of err, CodeInternal for an error of anybody else, and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Invalid is the refusal of one field of the input.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Text: fmt.Sprintf(format, args...)}
}

// Fail makes an error of a code with a sentence for people.
func Fail(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Unavailable wraps a driver's error: its text stays out of sight.
func Unavailable(doing string, err error) *Error {
	return &Error{Code: CodeUnavailable, Text: "the database did not answer while " + doing + "; try again",
		Err: err}
}

// quote shows hostile input in an error: escaped, and cut with a mark.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return strconv.QuoteToASCII(s)
}
