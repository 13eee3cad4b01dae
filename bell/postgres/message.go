package postgres

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// message is one notification. Its text has a bounded size, whatever the jobs
// hold: ids, a digest, and the name of a queue at most.
type message struct {
	kind kind
	from string // the member that sent it; "" where nobody listens
	at   stamp

	// of a ping
	group  string // of its set of queues
	digest digest
	period time.Duration // until its next ping
	nonce  string
	hello  bool // it wants to know the others

	about string // of an accusation: the member

	// of a ring
	seed  string // says who is to take it
	hop   int    // how often it was handed on
	why   reason
	to    string // the member that it was handed to; "" is whoever the seed says
	queue string
	job   daybook.ID
}

type kind byte

const (
	ping   kind = 'p' // I am here, and hear these queues
	alive  kind = 'a' // I am here, and have seen to what came before
	accuse kind = 'x' // that member doesn't seem to be here
	bye    kind = 'b' // I am not here any more
	rung   kind = 'r' // the queue has work
)

// reason is why a ring was handed on.
type reason byte

const (
	fresh reason = '-' // it wasn't
	busy  reason = 'b' // nobody there waits for rings
	deaf  reason = 'd' // nobody there listens to the queue
)

// stamp is the database's clock when it took the message, in milliseconds of a
// day or so that come round again. All members see the same one, so what follows
// from it is the same for all.
type stamp uint32

// stampText is what the database puts before a message: stampDigits of hex.
const (
	stampText   = "lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint & 268435455), 7, '0')"
	stampDigits = 7
	stampMask   = 1<<28 - 1
)

// since is how long before s the other stamp was; what seems to come later, as
// when the clock jumped, is long ago.
func (s stamp) since(o stamp) time.Duration {
	ago := time.Duration((s-o)&stampMask) * time.Millisecond
	if ago > stampMask*time.Millisecond-time.Minute { // a little later: taken side by side
		return 0
	}
	return ago
}

// textMax bounds a message. PostgreSQL refuses 8000 bytes, and a flood of short
// ones takes less of its queue.
const textMax = 200

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// text writes the message without its stamp. The queue is last: a name may have
// blanks.
func (m message) text() string {
	switch m.kind {
	case ping:
		hello := '-'
		if m.hello {
			hello = 'h'
		}
		return fmt.Sprintf("p %s %s %s %d %s %c", m.from, m.group, m.digest.text(), m.period.Milliseconds(), m.nonce, hello)
	case accuse:
		return "x " + m.from + " " + m.about
	case rung:
		job := ""
		if !m.job.IsZero() {
			job = base64.RawURLEncoding.EncodeToString(m.job[:])
		}
		return fmt.Sprintf("r %s %s %d %c %s %s %s", m.seed, dash(m.from), m.hop, m.why, dash(m.to), dash(job), m.queue)
	}
	return string(m.kind) + " " + m.from
}

// read reads a message, and is false for what isn't one of ours.
func read(text string) (m message, ok bool) {
	if len(text) < stampDigits+3 || text[stampDigits+1] != ' ' {
		return m, false
	}
	at, err := strconv.ParseUint(text[:stampDigits], 16, 28)
	if err != nil {
		return m, false
	}
	m.at, text = stamp(at), text[stampDigits:]
	m.kind = kind(text[0])
	parts := map[kind]int{ping: 6, alive: 1, accuse: 2, bye: 1, rung: 7}[m.kind]
	if parts == 0 {
		return m, false
	}
	f := strings.SplitN(text[2:], " ", parts)
	if len(f) != parts {
		return m, false
	}
	switch m.kind {
	case ping:
		ms, err := strconv.ParseInt(f[3], 10, 32)
		if m.digest, ok = readDigest(f[2]); !ok || err != nil || ms < 0 {
			return m, false
		}
		m.from, m.group, m.period, m.nonce, m.hello = f[0], f[1], time.Duration(ms)*time.Millisecond, f[4], f[5] == "h"
	case accuse:
		m.from, m.about = f[0], f[1]
	case rung:
		return m.readRung(f)
	default:
		m.from = f[0]
	}
	return m, true
}

func (m message) readRung(f []string) (message, bool) {
	hop, err := strconv.Atoi(f[2])
	if err != nil || hop < 0 || len(f[3]) != 1 {
		return m, false
	}
	m.seed, m.from, m.hop, m.why, m.to, m.queue = f[0], undash(f[1]), hop, reason(f[3][0]), undash(f[4]), f[6]
	if job := undash(f[5]); job != "" {
		id, err := base64.RawURLEncoding.DecodeString(job)
		if err != nil || len(id) != len(m.job) {
			return m, false
		}
		copy(m.job[:], id)
	}
	return m, true
}

func (m message) ring() daybook.Ring { return daybook.Ring{Queue: m.queue, Job: m.job} }
