package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/apifuzz"
	"github.com/daybookdev/daybook/internal/everyanswer"
)

var (
	abuseSeed = flag.Uint64("abuse.seed", 1, "what TestAbuse's calls are drawn from")
	abuseOnly = flag.Int("abuse.call", -1, "make this call alone")
)

// abuseCalls is how many wrong calls TestAbuse makes; DAYBOOK_ABUSE says another
// number.
func abuseCalls(t *testing.T) int {
	text := os.Getenv("DAYBOOK_ABUSE")
	if text == "" {
		return 2_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		t.Fatalf("DAYBOOK_ABUSE is %q, want a number from 100", text)
	}
	return n
}

// Whatever is sent, the server says in the right form what is wrong, never that
// it failed itself, and neither its answers nor its log repeat what they were
// given. What is sent, and what the answers are held to, is what the server says
// of itself. (daybooktest checks the book after.)
func TestAbuse(t *testing.T) { testAbuse(newWorld(t)) }

func testAbuse(w *world) {
	f := w.fuzzer()
	if *abuseOnly >= 0 {
		f.Run(w.Context(), *abuseOnly, *abuseOnly+1)
	} else {
		calls := abuseCalls(w.T)
		f.Run(w.Context(), 0, calls/4) // pools are filled, and types known
		before, routines := heap(), runtime.NumGoroutine()
		f.Run(w.Context(), calls/4, calls)
		after := heap()
		w.Logf("%d calls; heap from %d to %d KiB, goroutines from %d to %d\n%s", calls, before>>10, after>>10, routines,
			runtime.NumGoroutine(), f.Table())
		if after > before+heapMore {
			w.Errorf("the heap grew from %d to %d bytes", before, after)
		}
		more := calls / 5
		// One call can end all claims: of all that run.
		for n := 0; n < 5 && len(f.Unreached()) > 0 && calls >= 10_000; n++ {
			f.Own(w.claims(w.token("again"+strconv.Itoa(n), daybook.TokenScopes...)))
			f.Run(w.Context(), calls+n*more, calls+(n+1)*more)
		}
		// What these two are for is one job's in a hundred; their own tests have it.
		unreached := slices.DeleteFunc(f.Unreached(), func(id string) bool {
			return id == "settleEffect" || id == "unholdJob"
		})
		if len(unreached) > 0 && calls >= 10_000 {
			w.Errorf("none of the calls of %v did anything", unreached)
		}
	}
	for n, fault := range f.Faults() {
		if n == 20 {
			w.Errorf("and %d more", len(f.Faults())-n)
			break
		}
		w.Error(fault)
	}
	if leak := f.Leaks(w.log.String()); leak != "" {
		w.Errorf("the log has in it: %s\n%s", leak, w.log)
	}
}

// fuzzer serves the world to a fuzzer, with short limits in time.
func (w *world) fuzzer() *apifuzz.Fuzzer {
	w.Helper()
	o := apifuzz.Options{Tokens: map[string]string{}, Seed: *abuseSeed, Patience: 10 * time.Second,
		Limit: time.Second, AtOnce: 4}
	for n := range 8 {
		w.enqueue(n+1, "")
		o.IDs = append(o.IDs, id(n+1))
	}
	o.IDs = append(o.IDs, w.want(http.StatusOK, "POST", "/v1/sessions", `{"worker":"w"}`).json(w.T)["id"].(string))
	w.held(8)
	o.Claims = w.claims()
	if _, err := w.book.PlanCutover(w.Context(), daybook.Cutover{Name: "mail", System: "rq", Store: "redis://there",
		OldQueue: "old", Queue: "new"}, daybook.By{}); err != nil {
		w.Fatal(err)
	}
	secret := func(name string, scopes ...daybook.TokenScope) string {
		header := w.token(name, scopes...)
		return header[len("Authorization=Bearer "):]
	}
	for _, scope := range daybook.TokenScopes {
		o.Tokens[string(scope)] = secret(string(scope), scope)
	}
	o.All = secret("all", daybook.TokenScopes...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	server := &http.Server{Handler: w.api, ReadHeaderTimeout: o.Limit, ReadTimeout: 2 * time.Second,
		MaxHeaderBytes: 64 << 10, DisableGeneralOptionsHandler: true}
	go func() { _ = everyanswer.Serve(server, listener, nil) }()
	w.Cleanup(func() { _ = server.Close() })
	o.URL = "http://" + listener.Addr().String()
	f, err := apifuzz.New(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// claims are jobs with their owners, a thousand in ten sessions.
func (w *world) claims(headers ...string) (list []apifuzz.Claim) {
	w.Helper()
	w.hold(w.call("POST", "/v1/jobs/batch", "["+strings.Repeat(`{"queue":"own","kind":"k"},`, 999)+
		`{"queue":"own","kind":"k"}]`, headers...), http.StatusOK, "enqueue")
	var given Claims
	for range 10 { // a session that ends takes its own alone along
		r := w.call("POST", "/v1/claims", `{"queues":["own"],"limit":100,"lease_seconds":86400}`, headers...)
		if err := json.Unmarshal([]byte(r.body), &given); err != nil {
			w.Fatal(err)
		}
		for n, claim := range given.Claims {
			own := apifuzz.Claim{Job: claim.Job.ID.String(), Session: given.Session.String(), Generation: claim.Generation}
			if n%2 == 0 { // the others can be completed
				own.Effect = "mail"
				begin := fmt.Sprintf(`{"session":%q,"generation":%d,"policy":"keyed","window_seconds":60}`, own.Session,
					own.Generation)
				w.hold(w.call("POST", "/v1/jobs/"+own.Job+"/effects/mail/begin", begin, headers...), http.StatusOK, "begin")
			}
			list = append(list, own)
		}
	}
	return list
}

// heapMore is how much more memory may be in use after many wrong calls: for the
// keys of claims that are remembered, and what the log of a test keeps.
const heapMore = 8 << 20

// heap is how much memory is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
