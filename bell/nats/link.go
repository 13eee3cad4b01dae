package nats

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/daybookdev/daybook/internal/ring"
	natsgo "github.com/nats-io/nats.go"
)

// connectMost bounds one try to connect, and stuckMost one write.
const connectMost, stuckMost = 2 * time.Second, 2 * time.Second

// dialer makes connections that end with the bell, and that the bell can drop.
type dialer struct{ b *Bell }

// Dial is the client's.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	raw, err := (&net.Dialer{Timeout: connectMost}).DialContext(d.b.life, network, address)
	if err != nil {
		return nil, err
	}
	if !d.b.link.Use(raw) {
		return nil, net.ErrClosed
	}
	return raw, nil
}

// connect makes the client, which from then on connects by itself, until the
// bell is closed.
func (b *Bell) connect() {
	var pause ring.Pause
	for b.life.Err() == nil {
		nc, err := natsgo.Connect(strings.Join(b.target.servers, ","), b.clientOptions()...)
		if err == nil {
			<-b.life.Done()
			nc.Close()
			return
		}
		b.down(err)
		pause.Wait(b.life)
	}
}

func (b *Bell) clientOptions() []natsgo.Option {
	options := []natsgo.Option{
		natsgo.Name("daybook " + b.names.group), natsgo.SetCustomDialer(dialer{b}), natsgo.Timeout(connectMost),
		natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1), natsgo.IgnoreAuthErrorAbort(),
		natsgo.ReconnectBufSize(-1), // a ring that can't go now waits here, once per queue
		natsgo.FlusherTimeout(stuckMost), natsgo.ReconnectOnFlusherError(), natsgo.PingInterval(time.Minute),
		natsgo.CustomReconnectDelay(reconnectDelay),
		natsgo.ConnectHandler(b.upAgain), natsgo.ReconnectHandler(b.upAgain),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { b.down(err) }),
		natsgo.ReconnectErrHandler(func(_ *natsgo.Conn, err error) { b.down(err) }),
		natsgo.ErrorHandler(b.clientError),
	}
	if b.target.creds != "" {
		options = append(options, natsgo.UserCredentials(b.target.creds))
	}
	return options
}

// reconnectDelay is how long to wait after so many tries of all servers.
func reconnectDelay(tries int) time.Duration {
	most := min(ring.PauseLeast<<min(tries, 10), ring.PauseMost)
	return most/2 + rand.N(most/2)
}

func (b *Bell) upAgain(nc *natsgo.Conn) {
	b.client.Store(nc)
	b.refused.ForgetAll()
	changed, first := b.link.Set(true)
	if changed && !first {
		b.log.Info("the bell is connected again; workers look for what was rung meanwhile")
	}
	b.noted.Poke()
	b.out.Poke()
}

func (b *Bell) down(cause error) {
	if b.life.Err() != nil {
		return
	}
	if changed, first := b.link.Set(false); changed || first {
		b.log.Warn("the bell can't be reached; it is tried again and again, and until then jobs start by polling",
			"cause", causeOf(cause))
	}
}

// causeOf is an error of the client for the log. It has no URL in it, and so no
// password.
func causeOf(err error) string {
	return strings.TrimPrefix(ring.Cause(err, nil), "nats: ")
}

// clientError hears what the client has to say besides.
func (b *Bell) clientError(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
	if errors.Is(err, natsgo.ErrSlowConsumer) {
		b.ears.CatchUp() // rings were lost
		return
	}
	// While a password is wrong the server says so at every try to connect.
	if cause := causeOf(err); b.refused.First(cause) {
		b.log.Warn("the server refuses something that the bell wants; look at its user, password and permissions",
			"cause", cause)
	}
}
