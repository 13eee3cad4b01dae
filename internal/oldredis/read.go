package oldredis

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
)

// Kind is what lies under a key.
type Kind int

// The kinds. Only lists and sorted sets may be large.
const (
	List   Kind = iota // from its left end
	Right              // a list, from its right end
	Sorted             // by score
	Set
	Few  // a sorted set that is small
	Hash // entries are fields
	Text // one entry
	TTL  // what is left of a key's life, in milliseconds, as the score of one entry
)

func (k Kind) large() bool { return k <= Sorted }

// A Part is a key to be read.
type Part struct {
	Key  string
	Kind Kind
}

// Entry is one thing that lay under a key.
type Entry struct {
	ID    string // list element, member, or field
	Value string // of a field or a text
	Score float64
}

// ScoreText is a score such that Redis reads the very same number again.
func ScoreText(score float64) string { return strconv.FormatFloat(score, 'g', 17, 64) }

// limits of what is read in one piece.
type limits struct{ ids, bytes int64 }

// The copy that a large read goes by.
const (
	pageIDs   = 1000
	pageBytes = 16 << 20
	copyLife  = 15 * time.Minute // renewed while it is read
)

// Read reads keys as they are at one instant and calls each for every entry: the
// small kinds first, then lists and sorted sets, both in the order of parts. It
// answers the instant by the store's clock. A key that isn't there has no
// entries. settled is called between the two and may refuse what was read, with
// an error that Read answers then; nil is never.
//
// What is large is copied within the store at that instant, taken off the copy
// in pages, and the copy removed; it goes by itself after a quarter of an hour.
// When the store has no memory for that, Read is refused. scratch begins the
// names of the copies.
func (s *Store) Read(ctx context.Context, scratch string, parts []Part, settled func() error,
	each func(part int, e Entry) error) (daybook.Time, error) {
	if settled == nil {
		settled = func() error { return nil }
	}
	size, err := s.size(ctx, parts)
	if err != nil {
		return 0, err
	}
	if size.ids > s.whole.ids || size.bytes > s.whole.bytes {
		if err := s.headroom(ctx, size.bytes); err != nil {
			return 0, err
		}
		return s.readCopy(ctx, scratch, parts, settled, each)
	}
	return s.readWhole(ctx, parts, settled, each)
}

// size is about how much the large kinds hold.
func (s *Store) size(ctx context.Context, parts []Part) (limits, error) {
	var counts, bytes []*redis.IntCmd
	_, err := s.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, part := range parts {
			switch part.Kind {
			case List, Right:
				counts = append(counts, p.LLen(ctx, part.Key))
			case Sorted:
				counts = append(counts, p.ZCard(ctx, part.Key))
			default:
				continue
			}
			bytes = append(bytes, p.MemoryUsage(ctx, part.Key))
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return limits{}, s.Err("sizing the queue", err)
	}
	var sum limits
	for i := range counts {
		if err := counts[i].Err(); err != nil {
			return limits{}, s.Err("sizing the queue", err)
		}
		sum.ids += counts[i].Val()
		sum.bytes += bytes[i].Val() // 0 where the key is gone
	}
	return sum, nil
}

// readWhole reads everything in one transaction.
func (s *Store) readWhole(ctx context.Context, parts []Part, settled func() error, each func(int, Entry) error) (
	daybook.Time, error) {
	var now *redis.TimeCmd
	answers := make([]redis.Cmder, len(parts))
	_, err := s.TxPipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, part := range parts {
			answers[i] = ask(ctx, p, part)
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return 0, s.Err("reading the queue", err)
	}
	if err := s.give(parts, answers, false, each); err != nil {
		return 0, err
	}
	if err := settled(); err != nil {
		return 0, err
	}
	return daybook.At(now.Val()), s.give(parts, answers, true, each)
}

// give hands out the answers of large or of small kinds.
func (s *Store) give(parts []Part, answers []redis.Cmder, large bool, each func(int, Entry) error) error {
	for i, a := range answers {
		if a == nil || parts[i].Kind.large() != large {
			continue
		}
		if err := a.Err(); err != nil && err != redis.Nil {
			return s.Err("reading the queue", err)
		}
		for e := range entries(parts[i].Kind, a) {
			if err := each(i, e); err != nil {
				return err
			}
		}
		answers[i] = nil // read; let it go
	}
	return nil
}

func ask(ctx context.Context, p redis.Pipeliner, part Part) redis.Cmder {
	switch part.Kind {
	case Sorted, Few:
		return p.ZRangeWithScores(ctx, part.Key, 0, -1)
	case Set:
		return p.SMembers(ctx, part.Key)
	case Hash:
		return p.HGetAll(ctx, part.Key)
	case Text:
		return p.Get(ctx, part.Key)
	case TTL:
		return p.PTTL(ctx, part.Key)
	}
	return p.LRange(ctx, part.Key, 0, -1)
}

// entries walks an answer, in an order that doesn't change from call to call.
func entries(kind Kind, answer redis.Cmder) func(func(Entry) bool) {
	return func(yield func(Entry) bool) {
		switch a := answer.(type) {
		case *redis.ZSliceCmd:
			for _, z := range a.Val() {
				if id, _ := z.Member.(string); !yield(Entry{ID: id, Score: z.Score}) {
					return
				}
			}
		case *redis.MapStringStringCmd:
			fields := a.Val()
			names := make([]string, 0, len(fields))
			for f := range fields {
				names = append(names, f)
			}
			slices.Sort(names)
			for _, f := range names {
				if !yield(Entry{ID: f, Value: fields[f]}) {
					return
				}
			}
		case *redis.StringCmd:
			if a.Err() == nil {
				yield(Entry{Value: a.Val()})
			}
		case *redis.DurationCmd:
			if left := a.Val(); left != -2 { // -2: no such key; -1: it lives for ever
				yield(Entry{Score: float64(left.Milliseconds())})
			}
		case *redis.StringSliceCmd:
			list := a.Val()
			for i := range list {
				if kind == Right {
					i = len(list) - 1 - i
				}
				if !yield(Entry{ID: list[i]}) {
					return
				}
			}
		}
	}
}

// headroom refuses a copy for which the store has no memory.
func (s *Store) headroom(ctx context.Context, want int64) error {
	text, err := s.Info(ctx, "memory").Result()
	if err != nil {
		return s.Err("asking for its memory", err)
	}
	used, most := infoInt(text, "used_memory"), infoInt(text, "maxmemory")
	what := "maxmemory"
	if most == 0 {
		most, what = infoInt(text, "total_system_memory")/10*9, "nine tenths of the machine's memory"
	}
	const margin = 1 << 20 // for talking about it
	if need := want + want/5 + margin; most > 0 && used+need > most {
		return daybook.Fail(daybook.CodeRefused, "reading this queue at one instant takes a copy of %s inside %s, "+
			"which uses %s of %s (%s); give it more memory, or read a replica's dump with --as-of",
			mib(need), s.name, mib(used), mib(most), what)
	}
	return nil
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// readCopy copies the large kinds at one instant, reads the small ones then, and
// pages through the copies.
func (s *Store) readCopy(ctx context.Context, scratch string, parts []Part, settled func() error,
	each func(int, Entry) error) (daybook.Time, error) {
	run := scratch + rand.Text() + ":"
	copies := make([]string, len(parts))
	var keys []string
	for i, part := range parts {
		if part.Kind.large() {
			copies[i] = run + strconv.Itoa(i)
			keys = append(keys, copies[i])
		}
	}
	defer func() { // also when the caller has gone
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		s.Unlink(ctx, keys...)
	}()
	var now *redis.TimeCmd
	answers, counts := make([]redis.Cmder, len(parts)), make([]*redis.IntCmd, len(parts))
	_, err := s.TxPipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, part := range parts {
			if copies[i] == "" {
				answers[i] = ask(ctx, p, part)
				continue
			}
			p.Copy(ctx, part.Key, copies[i], s.Options().DB, true)
			p.Expire(ctx, copies[i], copyLife)
			if part.Kind == Sorted {
				counts[i] = p.ZCard(ctx, copies[i])
			} else {
				counts[i] = p.LLen(ctx, copies[i])
			}
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return 0, s.Err("copying the queue for reading it (Redis 6.2 is the first that can)", err)
	}
	if err := s.give(parts, answers, false, each); err != nil {
		return 0, err
	}
	if err := settled(); err != nil {
		return 0, err
	}
	for i, part := range parts {
		if copies[i] == "" {
			continue
		}
		each := func(e Entry) error { return each(i, e) }
		if err := s.pages(ctx, part.Kind, copies[i], counts[i].Val(), keys, each); err != nil {
			return 0, err
		}
	}
	return daybook.At(now.Val()), nil
}

// popped is a kind as it comes off a copy: from the end where it begins.
func popped(kind Kind) Kind {
	if kind == Right {
		return List
	}
	return kind
}

// pages walks a copy, which it uses up, and keeps all of them alive. A page is smaller where the
// entries are large.
func (s *Store) pages(ctx context.Context, kind Kind, key string, count int64, alive []string,
	each func(Entry) error) error {
	page, turn := int64(pageIDs), 0
	for from := int64(0); from < count; turn++ {
		to := min(from+page, count) - 1
		var answer redis.Cmder
		_, err := s.Pipelined(ctx, func(p redis.Pipeliner) error {
			switch kind { // taken off a list: the way to its middle is long
			case Sorted:
				answer = p.ZRangeWithScores(ctx, key, from, to)
			case Right:
				answer = p.RPopCount(ctx, key, int(to-from+1))
			default:
				answer = p.LPopCount(ctx, key, int(to-from+1))
			}
			if turn%20 == 0 {
				for _, key := range alive {
					p.Expire(ctx, key, copyLife)
				}
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return s.Err("reading the queue's copy", err)
		}
		got, bytes := int64(0), int64(0)
		for e := range entries(popped(kind), answer) {
			got, bytes = got+1, bytes+int64(len(e.ID))
			if err := each(e); err != nil {
				return err
			}
		}
		if got != to-from+1 {
			return daybook.Fail(daybook.CodeUnavailable, "the queue's copy vanished from %s while it was read: "+
				"somebody removed it, or memory ran out and it was evicted; read again", s.name)
		}
		from += got
		page = min(pageIDs, max(1, pageBytes/max(1, bytes/got)))
	}
	return nil
}
