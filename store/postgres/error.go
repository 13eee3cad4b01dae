package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
)

// SQLSTATEs that something depends on. The OB class is ours: see sql/.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateReadOnly      = "25006"
	stateIdle          = "25P03" // see idleMost
	stateTxTimeout     = "25P04" // transaction_timeout, and the connection ends
	stateIdleSession   = "57P05" // idle_session_timeout
	stateLockTimeout   = "55P03"
	stateUnique        = "23505"
	stateNotNull       = "23502"
	stateNoTable       = "42P01"
	stateNoFunction    = "42883"
	stateNoSchema      = "3F000"
	stateFenced        = "OB001"
	stateKeyConflict   = "OB002"
	stateRefused       = "OB003"
	stateInvalid       = "OB004"
)

// stateOf is the SQLSTATE of an error that the server sent, or "".
func stateOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	var other interface{ SQLState() string } // of other drivers, under EnqueueSQL
	if errors.As(err, &other) {
		return other.SQLState()
	}
	return ""
}

// passing reports a conflict with another transaction that the same work,
// begun again, doesn't meet.
func passing(err error) bool {
	state := stateOf(err)
	return state == stateSerialization || state == stateDeadlock
}

// away reports that the server can't do its work now: the connection is gone,
// it is starting or stopping, it has become a read-only node, it has no room, or it
// doesn't let us in, for whatever reason: that says nothing of what was to be done.
func away(err error) bool {
	state := stateOf(err)
	switch {
	case isConnect(err), errors.Is(err, errBroken):
		return true
	case state == "":
		var netErr net.Error
		return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled) || pgconn.SafeToRetry(err)
	case state == stateReadOnly, state == stateIdle, state == stateIdleSession, state == stateTxTimeout,
		state == "57P01", state == "57P02", state == "57P03", state == "57014":
		return true
	}
	class := state[:2]
	return class == "08" || class == "53" || class == "58"
}

func isConnect(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// errBroken marks a connection that died while something was on its way.
var errBroken = errors.New("the connection broke")

// friendly turns a driver's error into one for people. The driver's stays
// inside, for logs and tests.
func (s schema) friendly(doing string, err error) error {
	if err == nil {
		return nil
	}
	if own, ours := errors.AsType[*daybook.Error](err); ours {
		if own != err && errors.Is(err, errBroken) { // the driver's words stand around it
			return wrapped(own.Code, err, "%s", own.Text)
		}
		return err
	}
	state := stateOf(err)
	switch {
	case away(err) && isConnect(err) && state != "":
		return wrapped(daybook.CodeUnavailable, err, "the database refused a connection for %s (SQLSTATE %s)", doing, state)
	case away(err):
		return daybook.Unavailable(doing, err)
	case state == stateLockTimeout, passing(err):
		return wrapped(daybook.CodeBusy, err, "somebody else holds what %s needs; try again", doing)
	case state == stateNoTable, state == stateNoSchema, state == stateNoFunction:
		return wrapped(daybook.CodeInvalid, err, "schema %s has no book, or an older one; run daybook schema up", s.quoted())
	}
	if state == "42501" {
		return wrapped(daybook.CodeRefused, err,
			"the database's user may not do this (%s) in schema %s; grant it, or use another",
			doing, s.quoted())
	}
	for ours, code := range map[string]daybook.Code{stateFenced: daybook.CodeFenced, stateRefused: daybook.CodeRefused,
		stateKeyConflict: daybook.CodeKeyConflict, stateInvalid: daybook.CodeInvalid} {
		if state == ours {
			return wrapped(code, err, "%s", ownWords(err))
		}
	}
	if state == "" {
		return daybook.Unavailable(doing, err)
	}
	return wrapped(daybook.CodeInternal, err, "the database refused %s (SQLSTATE %s)", doing, state)
}

// ownWords is the message of an error that a function of ours raised.
func ownWords(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	return err.Error()
}

func wrapped(code daybook.Code, err error, format string, args ...any) error {
	return &daybook.Error{Code: code, Text: fmt.Sprintf(format, args...), Err: err}
}

// redact takes what may be a password out of an error about a URL.
func redact(err error, url string) string {
	return strings.ReplaceAll(err.Error(), url, "the URL")
}
