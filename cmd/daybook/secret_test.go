package main

import (
	"strings"
	"testing"
)

func TestHidePasswords(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"no secrets: a@b", "no secrets: a@b"},
		{"postgres://h/db", "postgres://h/db"},
		{"postgres://u@h:5432/db", "postgres://u@h:5432/db"},
		{"postgres://u:hunter2@h:5432/db", "postgres://u:***@h:5432/db"},
		{"postgres://:hunter2@h/db", "postgres://:***@h/db"},
		{"postgres://u:p@hunter2@h/db", "postgres://u:***@h/db"},
		{"postgres://u:p/hunter2@h/db", "postgres://u:***@h/db"},
		{"postgres://u:my hunter2@h/db", "postgres://u:***@h/db"},
		{`no command "u:hunter2@h/db"; see "x@y"`, `no command "u:***@h/db"; see "x@y"`},
		{"at 10:20 ada@h said", "at 10:20 ada@h said"},
		{"postgres:///db?user=u&password=hunter2&x=1", "postgres:///db?user=u&password=***&x=1"},
		{"host=h password='hunter2 3' user=u", "host=h password=*** user=u"},
		{"sslpassword=hunter2", "sslpassword=***"},
	} {
		if got := hidePasswords(test.in); got != test.want {
			t.Errorf("hidePasswords(%q): got %q, want %q", test.in, got, test.want)
		}
	}
}

// A password in a URL is never told, however wrong the command line is.
func TestPasswordsAreNeverTold(t *testing.T) {
	c := newCLI(t)
	const secret = "hunter2"
	conf := writeFile(t, "daybook.toml", "db = 'postgres://u:"+secret+"@127.0.0.1:1/x'\n")
	for _, url := range []string{
		"postgres://u:hunter2@127.0.0.1:1/x", "postgresql://u:hunter2@127.0.0.1:1/x?connect_timeout=2",
		"postgres://u@127.0.0.1:1/x?password=hunter2", "postgres://u:%zzhunter2@127.0.0.1:1/x",
		"postgres://u:hunter2@127.0.0.1:port/x", "postgres://u:a/hunter2@127.0.0.1:1/x",
		"postgres://u:a@hunter2@127.0.0.1:1/x", "postgres://u:a hunter2@127.0.0.1:1/x",
		"postgres://u:hunter2@127.0.0.1:1/x?sslmode=never", "postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=soon",
		"postgres:u:hunter2@h/x", "psql://u:hunter2@h/x", "u:hunter2@h/x", "host=h password=hunter2",
		"host=h password='my hunter2'", "//u:hunter2@h/x", "POSTGRES://u:hunter2@h/x"} {
		for _, args := range [][]string{{"--db", url, "job", "list"}, {"--db", url, "schema", "up"},
			{"--db", url, "doctor", "--log-level", "debug"}, {"--db", url, "check", "--selftest"},
			{"--db", url, "--help"}, {"--db", url, "job", "list", "--help"}, {"job", "list", url}, {url, "job"},
			{"--server", url, "job", "list"}, {"--bell", url, "job", "list"}, {"--db" + url}, {"--nope=" + url},
			{"--log-level", url, "job", "list"}, {"--actor", url, "--db", url, "job", "list"},
			{"enqueue", "--from", url}, {"--config", url, "job", "list"}} {
			if s := c.run(args...); strings.Contains(s.out+s.err, secret) {
				t.Errorf("daybook %q told the password:\n%s%s", args, s.out, s.err)
			}
		}
		t.Setenv("DAYBOOK_DB", url)
		for _, args := range [][]string{{"job", "list"}, {"--help"}, {"version"}, {"--config", conf, "job", "list"}} {
			if s := c.bare(args...); strings.Contains(s.out+s.err, secret) {
				t.Errorf("DAYBOOK_DB=%s daybook %q told the password:\n%s%s", url, args, s.out, s.err)
			}
		}
	}
}
