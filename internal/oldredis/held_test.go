package oldredis

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

func TestEnvelope(t *testing.T) {
	for _, e := range []Envelope{
		{From: "queue", Parts: [][]byte{[]byte("x")}},
		{From: "retry", Score: "1795986553.4235942", Number: 7, Parts: [][]byte{{}, []byte("a\nb 1 2\x00"), []byte("z")}},
	} {
		got, err := ParseEnvelope(e.Bytes())
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v (%v), want %+v", got, err, e)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, raw := range []string{"", "1 queue - 0 1\nx", "1 a - 0 -1\n", "1 a - 0 99999999999999999999\nx", "2 a - 0 0\n",
		"1 a - x 0\n", "1 a - 0\n", "1 a - 0 1\nxy"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEnvelope(raw)
		if err != nil {
			return
		}
		again, err := ParseEnvelope(e.Bytes())
		if err != nil || !bytes.Equal(again.Bytes(), e.Bytes()) {
			t.Errorf("%q becomes %q (%v)", raw, again.Bytes(), err)
		}
	})
}

func TestSeconds(t *testing.T) {
	for in, want := range map[float64]string{1795986553.4235942: "2026-11-29T21:09:13.423594Z", 0: "", -1: "", 1e18: ""} {
		if got := Seconds(in).String(); got != want {
			t.Errorf("%v is %q, want %q", in, got, want)
		}
	}
	if got := (Envelope{Score: ScoreText(1795986553.4235942)}).ScoreTime(); got != Seconds(1795986553.4235942) {
		t.Errorf("a score's text is %s", got)
	}
}

func TestOpen(t *testing.T) {
	for url, name := range map[string]string{
		"redis://user:s3cret@example.com:7000/3": "redis://example.com:7000/3",
		"rediss://:s3cret@example.com":           "rediss://example.com:6379/0",
		"unix:///run/redis.sock?db=2":            "unix:///run/redis.sock?db=2",
	} {
		s, err := Open(url)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Name() != name {
			t.Errorf("named %s, want %s", s.Name(), name)
		}
		s.Close()
	}
	for _, url := range []string{"", "http://s3cret@x", "redis://a:s3cret@h:port/0", "redis://:s3cret@h/x", "s3cret"} {
		_, err := Open(url)
		if daybook.CodeOf(err) != daybook.CodeInvalid || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// answer is an error that a server gave.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestErr(t *testing.T) {
	s, err := Open("redis://h:1/0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		err  error
		code daybook.Code
		says string
	}{
		{errors.New("dial tcp"), daybook.CodeUnavailable, "did not answer"},
		{answer("OOM command not allowed when used memory > 'maxmemory'."), daybook.CodeRefused, "full"},
		{answer("ERR user_script:1: OOM command not allowed"), daybook.CodeRefused, "full"},
		{answer("NOPERM this user has no permissions to run the 'get' command"), daybook.CodeRefused, "forbids"},
		{answer("NOAUTH Authentication required."), daybook.CodeRefused, "password"},
		{answer("MOVED 3999 127.0.0.1:6381"), daybook.CodeRefused, "cluster"},
		{answer("READONLY You can't write against a read only replica."), daybook.CodeRefused, "replica"},
		{answer("LOADING Redis is loading the dataset in memory"), daybook.CodeUnavailable, "busy"},
		{answer("WRONGTYPE Operation against a key holding the wrong kind of value"), daybook.CodeRefused, "something else"},
		{answer("ERR whatever"), daybook.CodeUnavailable, "refused"},
	} {
		got := s.Err("testing", c.err)
		if daybook.CodeOf(got) != c.code || !strings.Contains(got.Error(), c.says) || !errors.Is(got, c.err) {
			t.Errorf("%v becomes %q (%s)", c.err, got, daybook.CodeOf(got))
		}
		if strings.Contains(got.Error(), c.err.Error()) {
			t.Errorf("%q has the driver's own text", got)
		}
	}
	if s.Err("testing", nil) != nil {
		t.Error("nothing becomes something")
	}
}
