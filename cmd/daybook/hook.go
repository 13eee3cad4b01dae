package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
	"github.com/daybookdev/daybook/worker/webhook"
)

// hookFlags say where work --http posts jobs, and what the endpoint promises.
type hookFlags struct {
	url     string
	timeout time.Duration // of one request; 0 is half of the lease
	secrets string        // file
	policy  string        // "" isn't declared
	window  time.Duration
	unsure  []int
}

// envSecret holds webhook secrets, between spaces.
const envSecret = "DAYBOOK_WEBHOOK_SECRET"

func (f *hookFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "http", "", "URL to post each job to instead, its args as the body (http:// or https://)")
	durationVar(fs, &f.timeout, "http-timeout", 0,
		"how long one request may take (more than 0, at most half of the lease; default that)")
	fs.StringVar(&f.secrets, "webhook-secret-file", "",
		"file with the secrets that sign what is posted, whsec_…, one a line (or "+envSecret+"; default unsigned)")
	choiceVar(fs, &f.policy, "endpoint-policy", "", "", "what to do when nobody knows whether a request was acted on:\n"+
		"keyed: the endpoint does an action once for each Idempotency-Key, post again within --window;\n"+
		"repeatable: it bears doing it twice, post again; ask: set the job aside for a person (default ask)",
		string(daybook.PolicyKeyed), string(daybook.PolicyRepeatable), string(daybook.PolicyAsk))
	durationVar(fs, &f.window, "window", 0,
		"keyed: how long the endpoint knows a key (at least the request's timeout)")
	fs.IntSliceVar(&f.unsure, "unsure-status", webhook.UnsureDefault,
		"answers that don't say whether it happened (400…599); repeat it for more")
}

// endpoint is where jobs are posted to.
type endpoint struct {
	url    string // without credentials
	host   string // what people are told of it: paths and queries can hold secrets
	login  string // Authorization, or ""
	policy worker.EffectPolicy
}

// endpoint holds what was said of an endpoint to what can be. where names the
// setting.
func (f hookFlags) endpoint(where string) (e endpoint, declared bool, err error) {
	u, err := url.Parse(strings.TrimSpace(f.url))
	if err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return e, false, usage("%s wants http://… or https://… with a host and without #", where)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		e.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
		u.User = nil
	}
	e.url, e.host = u.String(), u.Scheme+"://"+u.Host
	switch daybook.Policy(f.policy) {
	case daybook.PolicyKeyed:
		if f.window < f.timeout {
			return e, true, usage("--endpoint-policy keyed (%s) wants --window, how long the endpoint knows a key: "+
				"at least the request's timeout, %s", where, shortDuration(f.timeout))
		}
		e.policy = worker.Keyed(f.window)
	case daybook.PolicyRepeatable:
		e.policy = worker.Repeatable
	case "":
		e.policy = worker.Ask
	case daybook.PolicyAsk:
		e.policy, declared = worker.Ask, true
	default:
		return e, false, usage("%s: the policy wants keyed, repeatable or ask, got %q", where, cut(f.policy, cellMax))
	}
	if f.window != 0 && f.policy != string(daybook.PolicyKeyed) {
		return e, false, usage("--window (%s) belongs to --endpoint-policy keyed", where)
	}
	return e, declared || f.policy != "", nil
}

// check fills in the request's timeout, and holds it to the lease: an outside
// call must end inside of it.
func (f *hookFlags) check(fs *pflag.FlagSet, lease time.Duration) error {
	if !fs.Changed("http-timeout") && f.timeout == 0 {
		f.timeout = lease / 2
	}
	if f.timeout <= 0 || f.timeout > lease/2 {
		return daybook.Invalid("http-timeout", "wants more than 0 and at most half of the lease, %s; got %s",
			shortDuration(lease/2), f.timeout)
	}
	for _, status := range f.unsure {
		if status < 400 || status > 599 {
			return daybook.Invalid("unsure-status", "wants 400…599, got %d", status)
		}
	}
	return nil
}

// secretsOf reads the secrets that sign, from the file or else the environment.
func (f *hookFlags) secretsOf() ([]webhook.Secret, error) {
	text, from := os.Getenv(envSecret), envSecret
	if f.secrets != "" {
		from = "--webhook-secret-file"
		read, err := os.ReadFile(f.secrets)
		if err != nil {
			return nil, usage("%s can't be read; give an existing file", from)
		}
		if text = string(read); strings.TrimSpace(text) == "" {
			return nil, usage("%s has no secret in it", from)
		}
	}
	secrets, err := webhook.ParseSecrets(text)
	if err != nil {
		return nil, usage("%s: %s", from, err)
	}
	return secrets, nil
}

// ofKind is the same for a kind that the configuration gives an endpoint of its
// own: what it promises is said there too, and nothing is taken from another's.
func (f hookFlags) ofKind(name string, conf map[string]string) (hookFlags, error) {
	if conf["http"] == "" {
		if conf["endpoint-policy"] != "" || conf["window"] != "" {
			return f, usage("config: kind.%s.endpoint-policy and window belong to kind.%s.http", name, name)
		}
		return f, nil
	}
	f.url, f.policy, f.window = conf["http"], conf["endpoint-policy"], 0
	if text := conf["window"]; text != "" {
		var err error
		if f.window, err = parseDuration(text); err != nil {
			return f, usage("config: kind.%s.window: %s", name, err)
		}
	}
	return f, nil
}

// hooks makes the handlers that post jobs, kind by kind, and tells once what is
// open to doubt about their endpoints.
func (a *app) hooks(w *worker.Worker, f hookFlags) (add func(kind string, o worker.KindOptions) error, err error) {
	secrets, err := f.secretsOf()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		a.log().Warn("what is posted isn't signed: anybody can post as this worker; give --webhook-secret-file or " +
			envSecret)
	}
	p := newPoster(secrets, f)
	return func(kind string, o worker.KindOptions) error {
		conf, where := a.flags.kinds[kind], "--http"
		of, err := f.ofKind(kind, conf)
		if err != nil {
			return err
		}
		if conf["http"] != "" {
			where = "kind." + kind + ".http"
		}
		if of.url == "" {
			return usage("kind %s has no URL: give --http, or kind.%s.http in the configuration", kind, kind)
		}
		e, declared, err := of.endpoint(where)
		if err != nil {
			return err
		}
		if !declared {
			a.log().Warn("the endpoint doesn't say what it promises: a request without an answer sets its job aside (ask); "+
				"declare --endpoint-policy", "endpoint", e.host, "kind", kind)
		}
		worker.Handle[json.RawMessage](w, kind, p.handler(e), o)
		return nil
	}, nil
}

// headersOf are what the endpoint is told beside the body.
func headersOf(ctx context.Context, job daybook.Job, e endpoint, key string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "daybook/"+versionOf().Version)
	h.Set("Daybook-Job", job.ID.String())
	h.Set("Daybook-Generation", strconv.FormatInt(job.Generation, 10))
	h.Set("Daybook-Attempt", strconv.Itoa(job.Failures+job.Crashes+1))
	h.Set("Daybook-Queue", job.Queue)
	h.Set("Daybook-Kind", job.Kind)
	h.Set("Idempotency-Key", key)
	if e.login != "" {
		h.Set("Authorization", e.login)
	}
	if t := cmp.Or(daybook.TraceOf(ctx), job.Trace()); !t.IsZero() {
		h.Set("traceparent", t.Parent)
		if t.State != "" {
			h.Set("tracestate", t.State)
		}
	}
	return h
}
