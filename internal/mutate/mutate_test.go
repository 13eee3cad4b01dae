package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestGuardsStand: every guard of the table stands in its file, just once. Who
// writes one anew says here what it is now.
func TestGuardsStand(t *testing.T) {
	t.Chdir("../..")
	seen := map[string]bool{}
	for _, m := range slices.Concat(mutants, postgresMutants, relayMutants, effectMutants, consoleMutants) {
		if seen[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		seen[m.name] = true
		changed, err := m.change()
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		source, err := os.ReadFile(m.path())
		if err != nil || changed == string(source) {
			t.Errorf("%s: changes nothing: %v", m.name, err)
		}
	}
}

// TestChange: a guard is found behind a text, and from its beginning to its end.
func TestChange(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("f", []byte("a x(1) b x(2) c x(3)"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, old, want string }{
		{"f", "(1)", "a x# b x(2) c x(3)"},
		{"f", "x", "stands 3 times"},
		{"f", "y", "stands 0 times"},
		{"f#b", "x", "a x(1) b #(2) c x(3)"},
		{"f#b", "x(…)", "a x(1) b # c x(3)"},
		{"f#x", "a", `"x" stands 3 times`},
		{"f#c", "(2)", "stands 0 times"},
		{"f", "a…z", "end is not in f"},
	} {
		got, err := mutant{file: c.file, old: c.old, new: "#"}.change()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s in %s: got %q, want %q", c.old, c.file, got, c.want)
		}
	}
}
