package nats

import "strings"

// names are the subjects of one namespace. A queue's name may have dots, which
// separate a subject's tokens; each is written as one token, with ~ for a dot,
// which no name has. (Older servers don't bear % in the name of a stream.)
type names struct {
	group   string // the queue group of all listeners
	rings   string // before the queue, for rings that are passed by
	keeps   string // before the queue, for rings that the stream keeps
	stream  string
	replies string // before what comes back to one bell alone
}

func newNames(name string) names {
	token := escape(name)
	return names{group: token, rings: token + ".ring.", keeps: token + ".keep.", stream: token + "-rings",
		replies: token + ".reply."}
}

func escape(name string) string       { return strings.ReplaceAll(name, ".", "~") }
func unescape(token string) string    { return strings.ReplaceAll(token, "~", ".") }
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// queueOf is the queue of a subject with rings.
func (n names) queueOf(subject string) (queue string, ok bool) {
	token, ok := strings.CutPrefix(subject, n.rings)
	if !ok {
		token, ok = strings.CutPrefix(subject, n.keeps)
	}
	return unescape(token), ok && token != ""
}
