package nats

import (
	"math/rand/v2"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// echo is one that came back.
type echo struct {
	took time.Duration
	at   time.Time
}

// echoPatience is how long an echo may take. A connection that was forgotten on
// the way gives no error: its silence is all there is to notice.
func echoPatience(every time.Duration) time.Duration {
	return min(max(every, time.Second), 5*time.Second)
}

// echoLoop sends echoes until the bell is closed. One that stays out ends the
// connection, and the client makes another.
func (b *Bell) echoLoop() {
	for n := 0; ; n++ {
		if !b.pause(b.echo*3/4 + rand.N(b.echo/2+1)) {
			return
		}
		nc, epoch, up := b.link.current()
		if !up || !b.subs.settled() {
			continue
		}
		if !b.echoed(nc, strconv.Itoa(n)) {
			if _, now, up := b.link.current(); up && now == epoch && b.life.Err() == nil {
				b.down(errSilent)
				b.link.drop()
			}
		}
	}
}

type silent struct{}

func (silent) Error() string { return "the server doesn't answer" }

var errSilent silent

// echoed sends one echo, and reports whether it came back in time.
func (b *Bell) echoed(nc *natsgo.Conn, number string) bool {
	begun := time.Now()
	late := time.NewTimer(echoPatience(b.echo))
	defer late.Stop()
	// The client may be stuck in a write, with its lock: this goroutine isn't.
	sent := make(chan error, 1)
	b.work.Go(func() {
		sent <- nc.Publish(b.names.replies+b.token+"."+replyEcho+"."+number, nil)
	})
	for {
		select {
		case err := <-sent:
			if err != nil {
				return false
			}
			sent = nil
		case got := <-b.echoes:
			if got == number {
				b.last.Store(&echo{took: time.Since(begun), at: time.Now()})
				return true
			}
		case <-late.C:
			return false
		case <-b.life.Done():
			return true
		}
	}
}
