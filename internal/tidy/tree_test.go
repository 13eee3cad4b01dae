package tidy

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the generated pages anew")

// root is the repository, seen from here.
const root = "../.."

// A file of the repository: its path from the root, with slashes, and text.
type file struct {
	path string
	text string
}

func (f file) lines() []string { return strings.Split(f.text, "\n") }

// dir is the file's folder, "" for the root.
func (f file) dir() string {
	if i := strings.LastIndexByte(f.path, '/'); i >= 0 {
		return f.path[:i]
	}
	return ""
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// files reads the repository's files with one of the endings, without what
// tools leave behind.
func files(t *testing.T, endings ...string) []file {
	t.Helper()
	var all []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			switch name {
			case ".git", "bin", "fuzz", "rapid", "node_modules", "dist":
				return filepath.SkipDir
			}
			return nil
		}
		for _, ending := range endings {
			if !strings.HasSuffix(name, ending) {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			from, err := filepath.Rel(root, path)
			all = append(all, file{filepath.ToSlash(from), string(text)})
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("found no file ending in %q", endings)
	}
	return all
}

// page reads one file.
func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// current holds a generated page to what it should be, or writes it.
func current(t *testing.T, path, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(filepath.Join(root, path), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(page(t, path), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s:%d is not current; run `make gen`\nwant %q", path, i+1, line)
		}
	}
	if len(got) != strings.Count(want, "\n")+1 {
		t.Fatalf("%s has lines behind its end; run `make gen`", path)
	}
}
