package webhook

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// snippet is the code of a language in docs/webhooks.md.
func snippet(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n```"+language+"\n")
	code, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatalf("docs/webhooks.md has no code in %s", language)
	}
	return code + "\n"
}

// The verifying sides that the page shows take what is signed here, and nothing
// else, where their languages are installed.
func TestVerifiersOfTheDocs(t *testing.T) {
	for _, of := range []struct{ language, program, file, more string }{
		{"python", "python3", "check.py", `
import json, sys
for secret, headers, body in json.load(sys.stdin):
    print(verified(secret, headers, body.encode()))
`},
		{"js", "node", "check.mjs", `
import { readFileSync } from "node:fs";
for (const [secret, headers, body] of JSON.parse(readFileSync(0))) {
  const lower = Object.fromEntries(Object.entries(headers).map(([k, v]) => [k.toLowerCase(), v]));
  console.log(verified(secret, lower, Buffer.from(body)) ? "True" : "False");
}
`}} {
		t.Run(of.language, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), of.file)
			if err := os.WriteFile(file, []byte(snippet(t, of.language)+of.more), 0o600); err != nil {
				t.Fatal(err)
			}
			program, err := exec.LookPath(of.program)
			if err != nil {
				t.Logf("%s isn't installed here", of.program)
				return
			}
			cmd := exec.CommandContext(t.Context(), program, file)
			cmd.Stdin = strings.NewReader(verifierCases(t))
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "True\nTrue\nFalse\nFalse\nFalse\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// verifierCases are what is to be verified, as JSON: by either of two secrets, by
// a third, another body, and one of an hour ago.
func verifierCases(t *testing.T) string {
	old, next := secretText(24), secretText(32)
	secrets, err := ParseSecrets(old + " " + next)
	if err != nil {
		t.Fatal(err)
	}
	headers := func(at time.Time) map[string]string {
		h, flat := http.Header{}, map[string]string{}
		SetHeaders(h, secrets, "9f86", at, []byte(`{"ü": 1.0}`))
		for name := range h {
			flat[name] = h.Get(name)
		}
		return flat
	}
	now := headers(time.Now())
	const body = `{"ü": 1.0}`
	text, err := json.Marshal([][]any{{old, now, body}, {next, now, body}, {secretText(40), now, body},
		{old, now, `{"ü":1.0}`}, {old, headers(time.Now().Add(-time.Hour)), body}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
