package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// place puts programs into a folder that say a version, and nothing else.
func place(t *testing.T, dir, version string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho \"" + name + " (PostgreSQL) " + version + "\"\n"
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

func TestBinaries(t *testing.T) {
	root := t.TempDir()
	t.Setenv("DAYBOOK_PG_DIR", root)
	t.Setenv("DAYBOOK_PG_BIN", "")
	byName := place(t, filepath.Join(root, "97", "bin"), "97.1")
	byVersion := place(t, filepath.Join(root, "native", "bin"), "96.2 (Somebody's)")
	elsewhere := place(t, filepath.Join(t.TempDir(), "bin"), "95beta1")
	for version, dir := range map[string]string{"97": byName, "96": byVersion, "": byName} {
		got, err := Binaries(version)
		must(t, err)
		want(t, "version "+version, got, dir)
	}
	t.Setenv("DAYBOOK_PG_BIN", elsewhere)
	for version, dir := range map[string]string{"97": byName, "": elsewhere} {
		got, err := Binaries(version)
		must(t, err)
		want(t, "version "+version+" with a folder for none", got, dir)
	}
}

// TestBinariesMissing: the error says in one line what to do.
func TestBinariesMissing(t *testing.T) {
	for version, says := range map[string]string{
		"94": "`apt-get install -y postgresql-94` where the system has that package, else `make postgres VERSION=94`",
		"x":  `version "x": say the major version, such as 18`,
	} {
		dir, err := Binaries(version)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("version %s: %q, %v", version, dir, err)
		}
	}
}

// TestInstallFolder: install.sh puts servers where Binaries looks.
func TestInstallFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // servers are not started there
	}
	t.Setenv("DAYBOOK_PG_DIR", "")
	out, err := exec.Command("sh", "install.sh", "where").Output()
	must(t, err)
	dir, err := cacheFolder()
	must(t, err)
	want(t, "the folder", strings.TrimSpace(string(out)), dir)
}
