package sidekiq

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/brokertest"
)

func TestJobs(t *testing.T) {
	for text, want := range map[string]string{
		`{"jid":"a","class":"C","args":[1],"retry":true}`:                   `a C [1] key "" 0/26 "" `,
		`{"jid":"a","class":"C","args":[],"retry":false,"retry_count":0}`:   `a C [] key "" 1/1 "" `,
		`{"jid":"a","class":"C","args":[],"retry":0,"retry_count":2,"x":1}`: `a C [] key "" 3/1 "" `,
		`{"jid":"a","class":"C","args":[],"retry":"many"}`:                  `a C [] key "" 0/0 "" `,
		`{"jid":"a","class":"C","args":[1.0,9007199254740993],"lock_digest":"u"}`: `a C [1.0,9007199254740993] key "u" ` +
			`0/26 "" `,
		`{"jid":"a","class":"W","wrapped":"Inner","args":[{"job_id":"j","arguments":[{"a":1}]}]}`: `a Inner [{"a":1}] ` +
			`key "j" 0/26 "" `,
		`{"jid":"a","class":"W","wrapped":"Inner","args":[1,2]}`:                  `a Inner [1,2] key "" 0/26 "" `,
		`{"jid":"a","class":"C","args":[],"error_class":"E","error_message":"x"}`: `a C [] key "" 0/26 "E: x" `,
		`{"class":"C","args":[]}`: ` C [] key "" 0/26 "" it has no jid`,
		`{"jid":"a","args":[]}`:   `a  [] key "" 0/26 "" it has no class`,
		`{"jid":7}`:               `   key "" 0/0 "" it isn't a job in JSON`,
		"nonsense":                `   key "" 0/0 "" it isn't a job in JSON`,
		"\xff":                    `   key "" 0/0 "" it isn't UTF-8`,
		`{"jid":"a","class":"C","args":[],"retry":1,"error_class":{"a":1},"retry_count":-1}`: `a C [] key "" 0/2 "" `,
	} {
		job := jobOf(text, daybook.OldWaiting)
		is := fmt.Sprintf("%s %s %s key %q %d/%d %q %s", job.ID, job.Class, job.Args, job.Key, job.Attempts, job.MaxAttempts,
			job.Error, job.Unreadable)
		if is != want {
			t.Errorf("%s is\n%s\nwant\n%s", text, is, want)
		}
	}
}

// TestBody: a job is the same while it lives, whoever wrote it last.
func TestBody(t *testing.T) {
	same := []string{
		`{"jid":"a","class":"C","args":["é",1.0],"created_at":1.5}`,
		`{"class":"C","jid":"a","args":["\u00e9",1.0],"created_at":1.5,"enqueued_at":2.5}`,
		`{"class":"C","jid":"a","args":["é", 1.0],"created_at":1.5,"retry_count":3,"error_message":"x","error_class":"E",` +
			`"failed_at":1,"retried_at":2,"interrupted_count":1,"at":5}`,
	}
	for _, text := range same[1:] {
		if a, b := jobOf(same[0], daybook.OldWaiting).Hash(), jobOf(text, daybook.OldDead).Hash(); a != b {
			t.Errorf("%s is another job than %s", text, same[0])
		}
	}
	other := strings.Replace(same[0], "1.0", "1.1", 1)
	if jobOf(same[0], daybook.OldWaiting).Hash() == jobOf(other, daybook.OldWaiting).Hash() {
		t.Error("other arguments are the same job")
	}
	if got := stamp("1795986589252"); got != stamp("1795986589.252") {
		t.Errorf("milliseconds are read as %s", got)
	}
}

// TestReports: what processes report, beside the lists that say it better.
func TestReports(t *testing.T) {
	server := brokertest.StartRedis(t)
	c := client(t, server)
	ctx := t.Context()
	s := open(t, Options{URL: server.URL()}, 0)
	running := func(process, thread, queue, job string) {
		must(t, c.HSet(ctx, process+":workers", thread, fmt.Sprintf(`{"queue":%q,"payload":%q,"run_at":1795986563}`, queue,
			job)).Err())
	}
	report(t, c, "vm:1:aaa", "", time.Second)
	put(t, c, daybook.OldRetrying, "stale", "[]", time.Now())
	running("vm:1:aaa", "t1", queue, text("stale", "[]", "")) // it failed since
	running("vm:1:aaa", "t2", "other", text("foreign", "[]", ""))
	running("vm:1:aaa", "t3", queue, text("twice", "[1]", ""))
	report(t, c, "vm:2:bbb", "", time.Second)
	running("vm:2:bbb", "t1", queue, text("twice", "[1]", "")) // jids aren't unique
	must(t, c.LPush(ctx, "working:queue:mail:vm:2:ccc", text("kept", "[]", "")).Err())
	running("vm:2:bbb", "t2", queue, text("kept", "[]", "")) // the same job, by both signs
	must(t, c.LPush(ctx, "working:queue:mail:x:vm:2:ccc", text("foreign", "[]", "")).Err())
	must(t, c.SAdd(ctx, "processes", "vm:3:gone").Err())
	var got []string
	_, err := s.Scan(ctx, 0, func(job daybook.OldJob) error {
		got = append(got, job.ID+" "+string(job.State)+" "+job.Owner)
		return nil
	})
	must(t, err)
	slices.Sort(got)
	want := []string{"kept owned vm:2:ccc:t2", "stale retrying ", "twice owned vm:1:aaa:t3", "twice owned vm:2:bbb:t1"}
	if !slices.Equal(got, want) {
		t.Errorf("seen are %q, want %q", got, want)
	}
}

// TestFindUnreadable: a job that can't be read is found by its name, but not where
// nobody knows that it is this queue's.
func TestFindUnreadable(t *testing.T) {
	server := brokertest.StartRedis(t)
	c := client(t, server)
	ctx := t.Context()
	s := open(t, Options{URL: server.URL()}, 0)
	must(t, c.ZAdd(ctx, "dead", redis.Z{Score: 1795986563, Member: "no job"}).Err())
	must(t, c.ZAdd(ctx, "dead", redis.Z{Score: 1795986563, Member: `{"queue":"` + queue + `"}`}).Err())
	must(t, c.LPush(ctx, "queue:"+queue, "nor this").Err())
	for member, state := range map[string]daybook.OldState{"no job": daybook.OldGone, "nor this": daybook.OldWaiting,
		`{"queue":"` + queue + `"}`: daybook.OldDead, "isn't there": daybook.OldGone} {
		name := jobOf(member, state).Name()
		found, err := s.Find(ctx, []string{name})
		must(t, err)
		if got := found[name]; got.State != state || state != daybook.OldGone && string(got.Body) != member {
			t.Errorf("%q is found %s with %q, want %s", member, got.State, got.Body, state)
		}
	}
}

// TestWorkingLost: a job of reliable fetch is had once its process is dead for
// Sidekiq and for the fetch.
func TestWorkingLost(t *testing.T) {
	server := brokertest.StartRedis(t)
	c := client(t, server)
	ctx := t.Context()
	s := open(t, Options{URL: server.URL()}, 0)
	must(t, c.LPush(ctx, "working:queue:mail:vm:2:ccc", text("kept", "[]", "")).Err())
	must(t, c.Set(ctx, "reliable-fetcher-heartbeat-vm-2-ccc", 1, time.Minute).Err())
	report(t, c, "vm:2:bbb", "", time.Second)
	signs := []func(){
		func() { must(t, c.Del(ctx, "reliable-fetcher-heartbeat-vm-2-ccc").Err()) },
		func() { must(t, c.Del(ctx, "vm:2:bbb").Err()) },
	}
	for i := 0; ; i++ {
		owned, err := s.Owned(ctx)
		must(t, err)
		if len(owned) != 1 {
			t.Fatalf("owned are %v", owned)
		}
		took, err := s.TakeLost(ctx, owned[0])
		must(t, err)
		dead := i == len(signs)
		if took != dead || (owned[0].State == daybook.OldOwnerLost) != dead {
			t.Errorf("with %d signs gone it is %s, and taken: %v", i, owned[0].State, took)
		}
		if dead {
			return
		}
		signs[i]()
	}
}

// TestRights: the gate gives back what it took and not more.
func TestRights(t *testing.T) {
	server := brokertest.StartRedis(t)
	c := client(t, server)
	ctx := t.Context()
	must(t, c.Do(ctx, "ACL", "SETUSER", "old", "on", ">pw", "~*", "+@all", "-eval", "-lmpop").Err())
	s := open(t, Options{URL: server.URL(), WorkersUser: "old"}, 0)
	before, err := s.rights(ctx, "old")
	must(t, err)
	if len(before) != len(taking)-2 || slices.Contains(before, "eval") || slices.Contains(before, "lmpop") {
		t.Errorf("before, the user may %v", before)
	}
	for range 2 {
		must(t, s.CloseGate(ctx))
	}
	if had, err := s.rights(ctx, "old"); err != nil || len(had) != 0 {
		t.Errorf("behind the gate, the user may %v (%v)", had, err)
	}
	if g, err := s.GateState(ctx); err != nil || !g.Closed || len(g.Leaks) == 0 {
		t.Errorf("the gate is %+v (%v)", g, err)
	}
	must(t, c.Do(ctx, "ACL", "SETUSER", "old", "+brpop").Err()) // by hand, or by a restart
	g, err := s.GateState(ctx)
	if err != nil || g.Closed || !strings.Contains(g.How, `"old" may take jobs again (brpop)`) {
		t.Errorf("with the right given back the gate is %+v (%v)", g, err)
	}
	// Later steps needn't name the user: the gate knows it.
	s = open(t, Options{URL: server.URL()}, 0)
	must(t, s.CloseGate(ctx))
	if g, err := s.GateState(ctx); err != nil || !g.Closed {
		t.Errorf("closed once more the gate is %+v (%v)", g, err)
	}
	must(t, s.OpenGate(ctx))
	if after, err := s.rights(ctx, "old"); err != nil || !slices.Equal(after, before) {
		t.Errorf("after, the user may %v (%v)", after, err)
	}
	must(t, s.CloseGate(ctx)) // by being quiet; then the stronger one as well
	must(t, open(t, Options{URL: server.URL(), WorkersUser: "old"}, 0).CloseGate(ctx))
	must(t, s.OpenGate(ctx))
	if after, err := s.rights(ctx, "old"); err != nil || !slices.Equal(after, before) {
		t.Errorf("after both gates, the user may %v (%v)", after, err)
	}
	err = open(t, Options{URL: server.URL(), WorkersUser: "default"}, 0).CloseGate(ctx)
	if daybook.CodeOf(err) != daybook.CodeRefused {
		t.Errorf("it locks itself out: %v", err)
	}
	err = open(t, Options{URL: server.URL(), WorkersUser: "nobody"}, 0).CloseGate(ctx)
	if daybook.CodeOf(err) != daybook.CodeNotFound {
		t.Errorf("a user that isn't there: %v", err)
	}
}
