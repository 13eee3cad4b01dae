package ring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Cause says in a few words, on one line, why a bell's server wasn't reached, for
// the log: what drivers say has addresses, users and line ends in it. said is what
// the server itself answered, when the driver's error holds that.
func Cause(err error, said func(error) (string, bool)) string {
	if err == nil {
		return "the connection was closed"
	}
	if said != nil {
		if words, ok := said(err); ok {
			return oneLine(words)
		}
	}
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "no such host: " + oneLine(dns.Name)
	case errors.As(err, &record):
		return "the server doesn't speak TLS there"
	case errors.As(err, &verify), errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.HostnameError)):
		return "the server's certificate isn't trusted"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return "the connection was closed"
	}
	return oneLine(err.Error())
}

// oneLine bounds what is said, and takes out what could end a line of the log.
func oneLine(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
