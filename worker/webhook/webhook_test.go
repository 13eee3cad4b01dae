package webhook

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/daybookdev/daybook"
)

// text of a secret of n bytes.
func secretText(n int) string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

// Any library of Standard Webhooks takes what is signed here, by each secret, and
// nothing else.
func TestSignedAfterTheStandard(t *testing.T) {
	old, next := secretText(24), secretText(64)
	secrets, err := ParseSecrets(old + "\n" + strings.TrimPrefix(next, secretPrefix) + "\n")
	if err != nil || len(secrets) != 2 {
		t.Fatal(secrets, err)
	}
	body := []byte(`{"a": 1.0}`)
	h := http.Header{}
	SetHeaders(h, secrets, "9f86", time.Now(), body)
	for _, text := range []string{old, next} {
		verifier, err := standard.NewWebhook(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(body, h); err != nil {
			t.Errorf("by %s: %v", text, err)
		}
		if verifier.Verify([]byte(`{"a":1.0}`), h) == nil {
			t.Error("another body is taken")
		}
	}
	stranger, err := standard.NewWebhook(secretText(32))
	if err != nil {
		t.Fatal(err)
	}
	if stranger.Verify(body, h) == nil {
		t.Error("another secret is taken")
	}
	// The vector of the standard's own text.
	given, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign([]Secret{given}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	unsigned := http.Header{}
	SetHeaders(unsigned, nil, "9f86", time.Now(), body)
	if _, signed := unsigned[HeaderSignature]; signed || unsigned.Get(HeaderID) != "9f86" {
		t.Errorf("got %v, want an id and no signature", unsigned)
	}
}

// Secrets that can't be meant are refused, and none is ever shown.
func TestSecretsAreRefusedAndHidden(t *testing.T) {
	for _, text := range []string{"whsec_", "whsec_not base64 marker", "marker!", secretText(SecretMin - 1),
		secretText(SecretMax + 1)} {
		_, err := ParseSecret(text)
		if daybook.CodeOf(err) != daybook.CodeInvalid || strings.Contains(fmt.Sprint(err), "marker") {
			t.Errorf("%.20s: got %v", text, err)
		}
	}
	if _, err := ParseSecrets(strings.Repeat(secretText(24)+" ", SecretsMax+1)); err == nil {
		t.Error("too many secrets are taken")
	}
	if none, err := ParseSecrets(" \n"); err != nil || len(none) != 0 {
		t.Errorf("got %v, %v, want none", none, err)
	}
	s, err := ParseSecret(secretText(24))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if said := fmt.Sprintf(format, s); said != "whsec_***" {
			t.Errorf("%s shows %s", format, said)
		}
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status int
		after  string
		date   string
		want   Verdict
	}{
		{200, "", "", Verdict{Meaning: Succeeded}},
		{204, "7", "", Verdict{Meaning: Succeeded}},
		{299, "", "", Verdict{Meaning: Succeeded}},
		{101, "", "", Verdict{Meaning: Failed}},
		{301, "", "", Verdict{Meaning: Failed}},
		{308, "7", "", Verdict{Meaning: Failed}},
		{400, "", "", Verdict{Meaning: Failed}},
		{404, "7", "", Verdict{Meaning: Failed}},
		{410, "", "", Verdict{Meaning: Failed}},
		{422, "", "", Verdict{Meaning: Permanent}},
		{500, "7", "", Verdict{Meaning: Failed}},
		{502, "7", "", Verdict{Meaning: Unsure}},
		{504, "", "", Verdict{Meaning: Unsure}},
		{429, "", "", Verdict{Meaning: Failed}},
		{503, "", "", Verdict{Meaning: Failed}},
		{503, "soon", "", Verdict{Meaning: Failed}},
		{503, "-1", "", Verdict{Meaning: Failed}},
		{503, "1.5", "", Verdict{Meaning: Failed}},
		{429, "7", "", Verdict{Released, 7 * time.Second}},
		{429, " 7 ", "", Verdict{Released, 7 * time.Second}},
		{503, "0", "", Verdict{Released, RetryAfterMin}},
		{503, "999999999", "", Verdict{Released, RetryAfterMax}},
		{503, strings.Repeat("9", 40), "", Verdict{Released, RetryAfterMax}},
		{503, "Thu, 24 Dec 2026 18:01:30 GMT", "", Verdict{Released, 90 * time.Second}},
		{503, "Thu, 24 Dec 2026 17:00:00 GMT", "", Verdict{Released, RetryAfterMin}},
		{503, "Thu, 24 Dec 2099 17:00:00 GMT", "", Verdict{Released, RetryAfterMax}},
		{503, "Thu, 24 Dec 2026 21:00:10 GMT", "Thu, 24 Dec 2026 21:00:00 GMT", Verdict{Released, 10 * time.Second}},
	} {
		h := http.Header{}
		if c.after != "" {
			h.Set("Retry-After", c.after)
		}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := Judge(c.status, h, UnsureDefault, now); got != c.want {
			t.Errorf("%d, Retry-After %q: got %+v, want %+v", c.status, c.after, got, c.want)
		}
	}
	if got := Judge(500, nil, []int{500}, now); got.Meaning != Unsure {
		t.Errorf("500 that leaves it open: got %+v", got)
	}
}
