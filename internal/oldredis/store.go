// Package oldredis is what the job systems that live in Redis have in common when
// they are read, emptied and refilled by a cutover: the connection, reads of all
// ids at one instant, and the held list.
package oldredis

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/daybookdev/daybook"
)

// patience bounds one question to the server. Copying a queue of ten million
// jobs is one question.
const patience = 2 * time.Minute

// Store is one old Redis. Its methods may be called by several goroutines.
type Store struct {
	*redis.Client
	name  string
	whole limits // what is read in one piece; more goes by a copy
}

// Open makes a store of a URL: redis://host:6379/0, rediss:// for TLS, or
// unix:///path?db=0. It asks nothing of the server. No error and no name holds
// the URL's password. The caller closes the store.
func Open(raw string) (*Store, error) {
	wrong := daybook.Invalid("old store", "wants a Redis URL: redis://host:6379/0, rediss:// for TLS, unix:///path?db=0")
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
		return nil, wrong
	}
	opt, err := redis.ParseURL(raw)
	if err != nil {
		return nil, wrong
	}
	name := u.Scheme + "://" + opt.Addr + "/" + strconv.Itoa(opt.DB)
	if u.Scheme == "unix" {
		name = "unix://" + opt.Addr + "?db=" + strconv.Itoa(opt.DB)
	}
	return &Store{Client: connect(*opt), name: name, whole: limits{ids: 100_000, bytes: 64 << 20}}, nil
}

// connect makes a client that tries everything once: a script whose answer was
// lost may have taken hold, and its caller looks in the held list.
func connect(opt redis.Options) *redis.Client {
	opt.ClientName = "daybook-cutover"
	opt.ContextTimeoutEnabled = true
	opt.ReadTimeout, opt.WriteTimeout = patience, patience
	opt.DialTimeout, opt.PoolTimeout = 10*time.Second, patience
	opt.PoolSize, opt.MaxActiveConns = 4, 8
	opt.DialerRetries, opt.MaxRetries = 1, -1
	opt.ConnMaxIdleTime = 2 * time.Minute
	opt.DisableIdentity = true
	opt.Protocol = 2 // as the old systems speak: their scripts' answers, and ours
	opt.Dialer = quietly(redis.NewDialer(&opt))
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&opt)
	client.AddHook(namesKeys{})
	return client
}

// quietly has a dial that failed succeed with a connection that fails: of the
// other kind the driver writes to the program's standard error.
func quietly(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string,
	string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			ours, other := net.Pipe()
			other.Close()
			return failed{ours, err}, nil
		}
		return conn, nil
	}
}

// failed is a connection that was never made.
type failed struct {
	net.Conn
	err error
}

func (c failed) Read([]byte) (int, error)         { return 0, c.err }
func (c failed) Write([]byte) (int, error)        { return 0, c.err }
func (c failed) SetDeadline(time.Time) error      { return c.err }
func (c failed) SetReadDeadline(time.Time) error  { return c.err }
func (c failed) SetWriteDeadline(time.Time) error { return c.err }

// Name says which Redis it is, the same each time and without secrets.
func (s *Store) Name() string { return s.name }

// ReadWholeUpTo sets from how many ids on a scan reads a copy, for tests.
func (s *Store) ReadWholeUpTo(ids int64) { s.whole.ids = ids }

// Err turns what the driver says into a sentence for people; nil stays nil, and
// an error that is one already passes.
func (s *Store) Err(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*daybook.Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	said := func(code daybook.Code, text string) error {
		return &daybook.Error{Code: code, Text: "the old store " + s.name + " " + text, Err: err}
	}
	answer, isAnswer := errors.AsType[redis.Error](err)
	text := ""
	if isAnswer {
		text = answer.Error()
	}
	word, _, _ := strings.Cut(text, " ")
	switch {
	case !isAnswer:
		return said(daybook.CodeUnavailable, "did not answer while "+doing+
			"; is it running, and can it be reached from here?")
	case word == "OOM" || strings.Contains(text, "OOM command not allowed"):
		return said(daybook.CodeRefused, "is full (maxmemory), and holding jobs takes memory; give it more, then go on")
	case word == "EXECABORT":
		return said(daybook.CodeRefused, "has no memory left for "+doing+", or gives this user no right to it")
	case word == "NOAUTH" || word == "WRONGPASS":
		return said(daybook.CodeRefused, "wants another user or password in its URL")
	case word == "NOPERM" || strings.Contains(text, "NOPERM"):
		return said(daybook.CodeRefused, "forbids this user what is needed for "+doing+"; give it the rights on all keys")
	case word == "MOVED" || word == "ASK" || word == "CROSSSLOT" || word == "CLUSTERDOWN":
		return said(daybook.CodeRefused, "is a node of a Redis cluster, where a cutover doesn't work yet")
	case word == "READONLY" || strings.Contains(text, "READONLY"):
		return said(daybook.CodeRefused, "is a replica, which can't be written; use its primary")
	case word == "LOADING" || word == "BUSY" || word == "MASTERDOWN" || word == "TRYAGAIN":
		return said(daybook.CodeUnavailable, "is busy; try again in a while")
	case word == "WRONGTYPE" || strings.Contains(text, "WRONGTYPE"):
		which := "a key (daybook cutover inventory names it)"
		if w, ok := errors.AsType[wrongType](err); ok {
			which = "the key " + keyCut(w.key)
		}
		return said(daybook.CodeRefused, "keeps something else under "+which+" that is wanted for "+doing+
			"; is this the system and the prefix you mean? If so, take it away")
	}
	return said(daybook.CodeUnavailable, "refused what was wanted for "+doing)
}

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (daybook.Time, error) {
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		return 0, s.Err("asking for its time", err)
	}
	return daybook.At(now), nil
}

// Glob makes a pattern that matches a text and nothing else.
func Glob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// Keys lists the keys of a pattern, each once, as far as they stay there while
// the store is walked.
func (s *Store) Keys(ctx context.Context, pattern string) ([]string, error) {
	seen := map[string]bool{}
	var keys []string
	for cursor := uint64(0); ; {
		some, next, err := s.Client.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return nil, s.Err("listing keys", err)
		}
		for _, k := range some {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
		if cursor = next; cursor == 0 {
			return keys, nil
		}
	}
}
