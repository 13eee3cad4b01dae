package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/daybookdev/daybook"
)

// Enqueue accepts the jobs that are new and answers the others as replays. What
// can't be in the book yet needs no look at it and is sent with the commit.
func (t *tx) Enqueue(ctx context.Context, jobs []daybook.NewJob) ([]daybook.Receipt, error) {
	receipts := make([]daybook.Receipt, len(jobs))
	plain := true
	for i := range jobs {
		receipts[i].ID = jobs[i].Job.ID
		plain = plain && jobs[i].Job.Key == "" && !jobs[i].Known
	}
	if plain {
		return receipts, t.insert(jobs)
	}
	if !t.patience && t.s != nil { // a rival's key or id may make it wait
		t.later(anyCount, "", setPatience)
		t.patience = true
	}
	return t.enqueueKnown(ctx, jobs, receipts)
}

// A refused call leaves nothing behind in a transaction that goes on. That of
// one key alone stores nothing when it is refused.
const (
	callBegins  = "SAVEPOINT daybook_call"
	callUndone  = "ROLLBACK TO SAVEPOINT daybook_call"
	callEnds    = "RELEASE SAVEPOINT daybook_call"
	rivalsTries = 10
)

// enqueueKnown accepts jobs of which the book may know some. A rival that
// inserts one of the chosen ids at the same time is waited for and then read.
func (t *tx) enqueueKnown(
	ctx context.Context, jobs []daybook.NewJob, receipts []daybook.Receipt,
) ([]daybook.Receipt, error) {
	undo := len(jobs) > 1 || jobs[0].Known
	for n := 1; ; n++ {
		if undo {
			t.later(anyCount, "", callBegins)
		}
		err := t.decide(ctx, jobs, receipts)
		switch {
		case err == nil && undo:
			t.later(anyCount, "", callEnds)
			return receipts, nil
		case err == nil || !undo:
			return receipts, err
		}
		if stateOf(err) != stateUnique || n == rivalsTries {
			t.later(anyCount, "", callUndone)
			t.later(anyCount, "", callEnds)
			return nil, err
		}
		// After a fault nothing else is taken than this, and alone.
		if _, err := t.exec(callUndone); err != nil {
			return nil, err
		}
		t.later(anyCount, "", callEnds)
	}
}

// decide asks what the book knows of the jobs and writes what the call is then.
func (t *tx) decide(ctx context.Context, jobs []daybook.NewJob, receipts []daybook.Receipt) error {
	if tangled(jobs) {
		return t.oneByOne(ctx, jobs, receipts)
	}
	c, err := t.look(jobs)
	if err != nil {
		return err
	}
	fresh := jobs[:0:0]
	replays := map[string]int64{}
	for i, n := range jobs {
		known, r, err := c.known(n)
		if err != nil {
			return refusedAt(i, len(jobs), err)
		}
		switch receipts[i] = r; {
		case !known:
			receipts[i] = daybook.Receipt{ID: n.Job.ID}
			fresh = append(fresh, n)
			c.add(n)
		case n.Job.Key != "":
			replays[n.Job.Key]++
		}
	}
	t.countReplays(replays)
	if err := t.insert(fresh); err != nil || len(c.ids) == 0 {
		return err
	}
	return t.flush() // a rival may have inserted one of the ids: now is when to hear
}

// refusedAt names the request of a batch that was refused.
func refusedAt(i, of int, err error) error {
	if of > 1 && daybook.CodeOf(err) == daybook.CodeKeyConflict {
		return &daybook.BatchError{Index: i, Err: err}
	}
	return err
}

// tangled finds calls in which a chosen id comes twice and has a key: whether
// the key is to be bound depends on what became of the id.
func tangled(jobs []daybook.NewJob) bool {
	keyed := map[daybook.ID]bool{}
	for _, n := range jobs {
		if !n.Known {
			continue
		}
		had, twice := keyed[n.Job.ID]
		keyed[n.Job.ID] = had || n.Job.Key != ""
		if twice && keyed[n.Job.ID] {
			return true
		}
	}
	return false
}

func (t *tx) oneByOne(ctx context.Context, jobs []daybook.NewJob, receipts []daybook.Receipt) error {
	for i := range jobs {
		if err := t.decide(ctx, jobs[i:i+1], receipts[i:i+1]); err != nil {
			return refusedAt(i, len(jobs), err)
		}
	}
	return nil
}

// knowledge is what the book and the call so far know of keys and ids.
type knowledge struct {
	keys map[string]binding
	ids  map[daybook.ID]binding
}

type binding struct {
	fingerprint daybook.Fingerprint
	job         daybook.ID
	key         string // of the job that has the id
	made        bool   // by an earlier request of this call
}

// look binds the call's keys, in one order, and reads those that were bound
// already, and the jobs that have one of its ids.
func (t *tx) look(jobs []daybook.NewJob) (knowledge, error) {
	c := knowledge{map[string]binding{}, map[daybook.ID]binding{}}
	var asked []statement
	if keys := firstOfKeys(jobs); len(keys) > 0 {
		asked = append(asked, t.bindKeys(c, jobs, keys))
	}
	var ids []daybook.ID
	for _, n := range jobs {
		if n.Known {
			ids = append(ids, n.Job.ID)
		}
	}
	if len(ids) > 0 {
		asked = append(asked, t.readIDs(c, ids))
	}
	_, err := t.now(asked...)
	return c, err
}

// firstOfKeys are the places of the requests that bring a key first, by key.
func firstOfKeys(jobs []daybook.NewJob) (places []int) {
	seen := map[string]bool{}
	for i, n := range jobs {
		if n.Job.Key != "" && !seen[n.Job.Key] {
			seen[n.Job.Key] = true
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int {
		if jobs[a].Job.Key < jobs[b].Job.Key {
			return -1
		}
		return 1
	})
	return places
}

func (t *tx) bindKeys(c knowledge, jobs []daybook.NewJob, places []int) statement {
	keys, ids, fingerprints := make([]string, len(places)), make([]daybook.ID, len(places)), make([]string, len(places))
	for n, i := range places {
		keys[n], ids[n] = jobs[i].Job.Key, jobs[i].Job.ID
		fingerprints[n] = hex.EncodeToString(jobs[i].Fingerprint[:])
	}
	return statement{want: anyCount,
		query: t.schema.in(`SELECT key, job, fingerprint
			FROM daybook.bind_keys($1::bigint, $2::text[], $3::text[]::uuid[], $4::text[])`),
		args: []any{t.nowOrNull(), keys, texts(ids), fingerprints},
		scan: func(row []any) error {
			b := binding{job: id(row[1])}
			_, err := hex.Decode(b.fingerprint[:], []byte(text(row[2])))
			c.keys[text(row[0])] = b
			return err
		}}
}

func (t *tx) readIDs(c knowledge, ids []daybook.ID) statement {
	return statement{want: anyCount,
		query: t.schema.in("SELECT id, queue, kind, args, key FROM daybook.known_jobs($1::text[]::uuid[])"),
		args:  []any{texts(ids)},
		scan: func(row []any) (err error) {
			b := binding{job: id(row[0]), key: text(row[4])}
			b.fingerprint, err = daybook.FingerprintOf(text(row[1]), text(row[2]), raw(row[3]))
			c.ids[b.job] = b
			return err
		}}
}

// known answers a request whose key or chosen id is taken, by the book or by an
// earlier request of the same call.
func (c knowledge) known(n daybook.NewJob) (bool, daybook.Receipt, error) {
	if b, taken := c.keys[n.Job.Key]; taken && n.Job.Key != "" {
		r, err := n.Replay(b.fingerprint, b.job, true)
		return true, r, err
	}
	b, taken := c.ids[n.Job.ID]
	if !taken || !n.Known {
		return false, daybook.Receipt{}, nil
	}
	if n.Job.Key != "" && b.key != n.Job.Key && !b.made {
		return true, daybook.Receipt{}, &daybook.Error{Code: daybook.CodeKeyConflict, Field: "id",
			Text: fmt.Sprintf("job %s exists with another request key; nothing was stored", n.Job.ID)}
	}
	r, err := n.Replay(b.fingerprint, n.Job.ID, false)
	return true, r, err
}

// add notes a request that becomes a job.
func (c knowledge) add(n daybook.NewJob) {
	b := binding{fingerprint: n.Fingerprint, job: n.Job.ID, key: n.Job.Key, made: true}
	if n.Job.Key != "" {
		c.keys[n.Job.Key] = b
	}
	if n.Known {
		c.ids[n.Job.ID] = b
	}
}

func (t *tx) countReplays(replays map[string]int64) {
	if len(replays) == 0 {
		return
	}
	keys := make([]string, 0, len(replays))
	for key := range replays {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	times := make([]int64, len(keys))
	for i, key := range keys {
		times[i] = replays[key]
	}
	t.later(anyCount, "", "SELECT daybook.count_replays($1::bigint, $2::text[], $3::int[])", t.nowOrNull(), keys, times)
}
