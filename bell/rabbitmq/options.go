package rabbitmq

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Options of a bell. The zero value is ready for use.
type Options struct {
	// Name is the namespace of the rings: ends with the same name hear each
	// other. It begins the names of the server's queues. "" is "daybook".
	// Letters, digits, . _ - : as in a queue's name.
	Name string
	// Log gets what people should know: the server is away, or there again. nil
	// is slog.Default.
	Log *slog.Logger
	// Echo is how often the bell asks for an echo of its own through the
	// server, ±25 %. A connection that doesn't answer is made anew. 0 is EchoDefault.
	Echo time.Duration
	// Acknowledge is how long a listener may take to act on a ring before it is
	// rung again. 0 is AcknowledgeDefault.
	Acknowledge time.Duration
	// Age is how long a ring waits that nobody hears, and how long the server
	// keeps a queue that nobody listens to. All ends of a bell should agree. 0
	// is AgeDefault.
	Age time.Duration
}

// Defaults, for what Options leave open.
const (
	EchoDefault        = 10 * time.Second
	AcknowledgeDefault = 30 * time.Second
	AgeDefault         = time.Hour
)

// urlWanted has no at sign: what hides passwords would take it for the end of one.
const urlWanted = "wants amqp://HOST, amqp://HOST:PORT/VHOST, or amqps://…; a user and a password stand before " +
	"HOST as in any URL, with %2F for a slash and %40 for an at sign in them"

// settings are what may stand behind the question mark: the client knows them.
// Those that would change what this package promises aren't among them.
var settings = map[string]bool{"certfile": true, "keyfile": true, "cacertfile": true,
	"server_name_indication": true, "auth_mechanism": true, "connection_timeout": true}

// parse checks a URL, and returns what of it may be shown. No error shows what
// stands in it: there may be a password.
func parse(text string) (shown string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", daybook.Invalid("bell", "%s; this one can't be read", urlWanted)
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return "", daybook.Invalid("bell", "%s", urlWanted)
	}
	if u.Hostname() == "" || u.Opaque != "" {
		return "", daybook.Invalid("bell", "%s; this one has no host", urlWanted)
	}
	if strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") { // of a password that wasn't escaped
		return "", daybook.Invalid("bell", "%s; this one has an at sign behind the host", urlWanted)
	}
	for key := range u.Query() {
		if !settings[key] {
			return "", daybook.Invalid("bell", "the URL of a RabbitMQ bell has no setting of that name; it knows "+
				"certfile, keyfile, cacertfile, server_name_indication, auth_mechanism and connection_timeout")
		}
	}
	parsed, err := amqp.ParseURI(text)
	if err != nil || parsed.Port < 1 || parsed.Port > 65535 || parsed.ConnectionTimeout < 0 {
		return "", daybook.Invalid("bell", "%s; this one can't be read", urlWanted)
	}
	return strings.TrimSuffix((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/"), nil
}
