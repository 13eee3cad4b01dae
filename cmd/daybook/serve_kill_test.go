//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// httpWorker is a client that repeats every call until it is answered.
type httpWorker struct {
	url  string
	name string
	lost *atomic.Int64 // calls that got no answer
}

// until repeats a call until there is an answer, or the test is over.
func (w httpWorker) until(ctx context.Context, path, key, body string) (int, []byte, error) {
	for {
		r, err := http.NewRequestWithContext(ctx, "POST", w.url+path, strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil && answer.StatusCode != http.StatusServiceUnavailable {
				return answer.StatusCode, text, nil
			}
		}
		w.lost.Add(1)
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// work claims and completes until nothing comes any more.
func (w httpWorker) work(ctx context.Context, done func(daybook.ID)) error {
	session := ""
	for n := 0; ; n++ {
		body := fmt.Sprintf(`{"queues":["mail"],"worker":%q,"limit":5,"lease_seconds":60,"wait_seconds":0.2%s}`,
			w.name, session)
		status, text, err := w.until(ctx, "/v1/claims", fmt.Sprintf("%s-%d", w.name, n), body)
		if err != nil {
			return err
		}
		var given claims
		if err := json.Unmarshal(text, &given); err != nil || status != 200 {
			return fmt.Errorf("claim: %d %s", status, text)
		}
		session = `,"session":"` + given.Session.String() + `"`
		for _, c := range given.Claims {
			body := fmt.Sprintf(`{"session":"%s","generation":%d}`, given.Session, c.Generation)
			status, text, err := w.until(ctx, "/v1/jobs/"+c.Job.ID.String()+"/complete", "", body)
			if err != nil {
				return err
			}
			if status != 200 {
				return fmt.Errorf("complete: %d %s", status, text)
			}
			done(c.Job.ID)
		}
	}
}

// A server that is killed under load and started again costs its clients time
// and nothing else: no job is lost, done twice or blamed, also where the answer
// to a claim never came.
func TestServeKilled(t *testing.T) { onEach(t, testServeKilled) }

func testServeKilled(t *testing.T, c *cli) {
	const jobs, workers, kills = 2000, 10, 3
	c.stdin = strings.Repeat(`{"queue":"mail","kind":"k"}`+"\n", jobs)
	c.ok("enqueue", "--from", "-")
	address := "127.0.0.1:0"
	start := func() *process {
		p := c.start("serve", "--listen", address, "--no-loops")
		address = strings.TrimPrefix(servedURL.FindStringSubmatch(p.says("url=", 1)[0])[1], "http://")
		return p
	}
	server := start()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var all sync.WaitGroup
	var n, lost atomic.Int64
	var twice sync.Map
	for i := range workers {
		w := httpWorker{url: "http://" + address, name: fmt.Sprintf("w%d", i), lost: &lost}
		all.Go(func() {
			err := w.work(ctx, func(id daybook.ID) {
				if _, again := twice.LoadOrStore(id, true); again {
					t.Errorf("job %s was done twice", id)
				}
				if n.Add(1) == jobs {
					stop()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", w.name, err)
			}
		})
	}
	for k := range int64(kills) {
		await(t, "some are done", func() bool { return n.Load() > (k+1)*jobs/(kills+2) || ctx.Err() != nil })
		server.kill()
		server = start()
	}
	all.Wait()
	if n.Load() != jobs || lost.Load() == 0 {
		t.Errorf("%d of %d were done, and %d calls lost their answer", n.Load(), jobs, lost.Load())
	}
	var list struct{ Jobs []daybook.Job }
	c.json(statusDone, &list, "job", "list", "--limit", "1000")
	for _, j := range list.Jobs {
		if j.State != daybook.Succeeded || j.Crashes != 0 || j.Generation != 1 {
			t.Errorf("job %s is %s after %d crashes, at generation %d", j.ID, j.State, j.Crashes, j.Generation)
		}
	}
	c.ok("check", "--full")
}
