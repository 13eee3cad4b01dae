package nats

import (
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Options of a bell. The zero value is ready for use.
type Options struct {
	// Name is the namespace of the rings: ends with the same name hear each
	// other. "" is "daybook". Letters, digits, . _ - : as in a queue's name.
	Name string
	// Log gets what people should know: the server is away, or there again. nil
	// is slog.Default.
	Log *slog.Logger
	// Echo is how often the bell asks for an echo of its own through the
	// server, ±25 %. A connection that doesn't answer is made anew. 0 is EchoDefault.
	Echo time.Duration
	// JetStream keeps the newest ring of each queue in a stream until a listener
	// has acted on it. ?jetstream=1 in the URL says the same.
	JetStream bool
	// Acknowledge is how long a listener may take to act on a ring that
	// JetStream keeps, before it is rung again elsewhere. 0 is AcknowledgeDefault.
	Acknowledge time.Duration
	// Age is how long JetStream keeps a ring that nobody hears. 0 is AgeDefault.
	Age time.Duration
}

// Defaults, for what Options leave open.
const (
	EchoDefault        = 10 * time.Second
	AcknowledgeDefault = 30 * time.Second
	AgeDefault         = time.Hour
)

// target is what a URL says.
type target struct {
	servers   []string // for the client
	shown     string   // for people: without secrets
	jetStream bool
	creds     string // a file of credentials
}

// urlWanted has no at sign: what hides passwords would take it for the end of one.
const urlWanted = "wants nats://HOST or nats://HOST:PORT, tls://… or wss://… too, several with commas between, " +
	"and then ?jetstream=1 and &creds=FILE; a user and a password stand before HOST as in any URL"

// parse reads a URL, or several with commas between. No error shows what stands
// in it: there may be a password.
func parse(text string) (target, error) {
	var t target
	var hosts []string
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			return t, daybook.Invalid("bell", "%s; this one can't be read", urlWanted)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return t, daybook.Invalid("bell", "%s", urlWanted)
		}
		if u.Hostname() == "" || u.Opaque != "" {
			return t, daybook.Invalid("bell", "%s; this one has no host", urlWanted)
		}
		if port := u.Port(); port != "" {
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				return t, daybook.Invalid("bell", "%s; a port is 1…65535", urlWanted)
			}
		}
		if err := t.settings(u.Query()); err != nil {
			return t, err
		}
		u.RawQuery, u.Fragment = "", ""
		hosts = append(hosts, u.Host)
		t.servers = append(t.servers, u.String())
	}
	t.shown = "nats://" + strings.Join(hosts, ",")
	return t, nil
}

// settings reads what stands behind the question mark.
func (t *target) settings(query url.Values) error {
	for key, values := range query {
		switch value := values[len(values)-1]; key {
		case "jetstream":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return daybook.Invalid("bell", "jetstream in the URL is 1 or 0")
			}
			t.jetStream = on
		case "creds":
			t.creds = value
		default:
			return daybook.Invalid("bell", "the URL of a NATS bell has the settings jetstream and creds only")
		}
	}
	return nil
}
