package main

import (
	"errors"
	"strings"
	"unicode"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// The exit statuses, for scripts.
const (
	statusDone        = 0
	statusFailed      = 1 // also: some lines of --from were refused
	statusUsage       = 2 // wrong usage or invalid input
	statusNotFound    = 3
	statusRefused     = 4 // by the state it is in, or not allowed
	statusViolation   = 5
	statusUnavailable = 6 // the database or server can't be reached
)

// exitError ends the program with a status that no code of the book stands for.
type exitError struct {
	status int
	text   string
}

func (e exitError) Error() string { return e.text }

// usage is the error of a command line that can't be carried out as written.
func usage(format string, args ...any) error {
	return daybook.Fail(daybook.CodeInvalid, format, args...)
}

// statusOf turns an error into the exit status.
func statusOf(err error) int {
	if err == nil {
		return statusDone
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return e.status
	}
	switch daybook.CodeOf(err) {
	case daybook.CodeInvalid, daybook.CodeMalformed, daybook.CodeTooLarge:
		return statusUsage
	case daybook.CodeNotFound:
		return statusNotFound
	case daybook.CodeFenced, daybook.CodeRefused, daybook.CodeEffectOpen, daybook.CodeKeyConflict,
		daybook.CodeEffectNameReused, client.CodeUnauthorized, client.CodeForbidden:
		return statusRefused
	case daybook.CodeUnavailable:
		return statusUnavailable
	}
	return statusFailed
}

// errorMax bounds the error line, in bytes: a megabyte given as a flag must not
// come back as a megabyte of error.
const errorMax = 2 << 10

// oneLine makes an error's text one line that can't steer a terminal and has no
// password in it.
func oneLine(text string) string {
	text = hidePasswords(text)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	if len(text) > errorMax {
		text = strings.ToValidUTF8(text[:errorMax], "") + "…"
	}
	return safe(text)
}
