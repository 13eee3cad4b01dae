package postgres

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

// sender rings on a connection of its own, made when there is something to ring.
// One goroutine sends.
type sender struct {
	*Bell
	conn *pgconn.PgConn
	used time.Time // when it last carried something
}

// idleMost is how long a connection may lie idle: routers forget such, and
// finding that out takes longer than another one.
const idleMost = 2 * time.Minute

// notifyStatement notifies of any number of texts, in one transaction. Whether
// that one outlives a crash of the server doesn't matter, so its commit waits for
// no disk; said for this transaction only, since behind a pooler the next one
// may be somebody else's.
const notifyStatement = "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))" +
	" SELECT count(pg_notify($1, " + stampText + " || text)) FROM quick, unnest($2::text[]) AS text"

// say sends a message with the next batch, which is soon.
func (b *Bell) say(m message) {
	const controlMost = 10_000
	b.mu.Lock()
	if len(b.control) < controlMost {
		b.control = append(b.control, m)
	}
	b.mu.Unlock()
	b.out.Poke()
}

// send notifies of a batch: rings, and what the ends have to say to each other.
func (s *sender) send(ctx context.Context, rings []daybook.Ring) error {
	s.mu.Lock()
	control := s.control
	s.control = nil
	s.mu.Unlock()
	texts := make([]string, 0, len(rings)+len(control))
	for _, r := range rings {
		texts = append(texts, message{kind: rung, seed: newSeed(), why: fresh, queue: r.Queue, job: r.Job}.text())
	}
	pings := 0
	for _, m := range control {
		texts = append(texts, m.text())
		if m.kind == ping {
			pings++
		}
	}
	if len(texts) == 0 {
		return nil
	}
	err := s.notify(ctx, texts)
	s.note(control, pings, err)
	if pings > 0 && s.conn != nil { // about once an echo, and when it is full too
		s.lookAtQueue(ctx)
	}
	if err == nil && s.failing.Swap(false) {
		s.log.Info("the bell takes rings again", "bell", s.where)
	}
	return err
}

// note says what became of the ends' own messages.
func (s *sender) note(control []message, pings int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.pinged += int64(pings)
		return
	case pings > 0 && stateOf(err) != "":
		s.refused = true
	}
	for _, m := range control { // what was to be handed on is rung anew
		if m.kind == rung {
			s.out.Ring(m.ring())
		}
	}
}

// notify sends texts, over a new connection if the old one turns out to be dead.
func (s *sender) notify(ctx context.Context, texts []string) (err error) {
	for range 2 {
		old := s.conn != nil && !s.conn.IsClosed()
		if err = s.try(ctx, texts); err == nil {
			return nil
		}
		if stateOf(err) == "" {
			s.close()
		}
		if !old || stateOf(err) != "" && !leaving(err) || ctx.Err() != nil {
			break
		}
	}
	text := "the database at " + s.where + " takes no notifications now"
	switch state := stateOf(err); {
	case state == "54000":
		text = "NOTIFY's queue at " + s.where + " is full; a session that listens is stuck in a transaction, " +
			"see pg_stat_activity"
	case strings.HasPrefix(state, "22"): // text that this database can't hold
		text = "the database at " + s.where + " can't carry these queues' names"
		err = errors.Join(err, ring.ErrRefused)
	}
	return &daybook.Error{Code: daybook.CodeUnavailable, Text: text, Err: err}
}

func (s *sender) try(ctx context.Context, texts []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.conn != nil && time.Since(s.used) > idleMost {
		s.close()
	}
	s.used = time.Now()
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := pgconn.ConnectConfig(ctx, s.config.Copy())
		if err != nil {
			return err
		}
		s.conn = conn
	}
	return s.conn.ExecParams(ctx, notifyStatement, [][]byte{[]byte(s.channel), []byte(arrayOf(texts))},
		nil, nil, nil).Read().Err
}

// arrayOf is PostgreSQL's text for an array of texts.
func arrayOf(texts []string) string {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	b.WriteByte('{')
	for i, text := range texts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		quote.WriteString(&b, text)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// close lets the connection go.
func (s *sender) close() {
	if s.conn == nil {
		return
	}
	letGo(s.conn)
	s.conn = nil
}

// letGo closes a connection without waiting for a server that is gone.
func letGo(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience/10)
	defer cancel()
	conn.Close(ctx)
}

// lookAtQueue warns of a queue of notifications that fills: somebody listens and
// doesn't hear. When it is full, nobody in the database can notify.
func (s *sender) lookAtQueue(ctx context.Context) {
	const often = 10 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result := s.conn.ExecParams(ctx, "SELECT pg_notification_queue_usage()", nil, nil, nil, nil).Read()
	if result.Err != nil || len(result.Rows) != 1 {
		return // the next batch finds out why
	}
	usage, err := strconv.ParseFloat(string(result.Rows[0][0]), 64)
	if err != nil || usage <= s.much || time.Since(s.queueLog) < often {
		return
	}
	s.queueLog = time.Now()
	s.log.Warn("NOTIFY's queue fills: a session that listens is stuck in a transaction (see pg_stat_activity); "+
		"when it is full, nothing can be rung", "bell", s.where, "used", fmt.Sprintf("%.0f%%", 100*usage))
}

// failed is told of each batch that the database didn't take.
func (b *Bell) failed(rings int, err error) {
	if !b.failing.Swap(true) && b.ctx.Err() == nil {
		b.log.Warn("the bell takes no rings; work is found by polling meanwhile", "bell", b.where,
			"rings", rings, "error", err, "cause", causeOf(err))
	}
}

// stateOf is the SQLSTATE of an error that the server sent, or "".
func stateOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// causeOf is an error of the driver for the log.
func causeOf(err error) string {
	return ring.Cause(err, func(err error) (string, bool) {
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			return "", false
		}
		return "the server says: " + e.Message + " (" + e.Code + ")", true
	})
}

// leaving reports that the server ended the connection, as when it is shut down.
func leaving(err error) bool { return strings.HasPrefix(stateOf(err), "57P") }

// newSeed is short and random: enough to tell rings apart that are on their way.
func newSeed() string { return random(5) }

// newID is short and random: enough to tell all ends of a book's life apart.
func newID() string { return random(8) }

func random(bytes int) string {
	raw := make([]byte, bytes)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}
