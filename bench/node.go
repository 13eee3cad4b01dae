package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// nodeFiles are the peers for Node: one small program each.
//
//go:embed node
var nodeFiles embed.FS

// nodePeers installs the peers for Node into the user's cache and lays their
// programs into dir.
func nodePeers(ctx context.Context, c config, dir string) (node string, err error) {
	if node, err = findProgram("node", "node is not installed; on Debian: apt-get install nodejs npm"); err != nil {
		return "", err
	}
	modules, err := installNode(ctx, c)
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, nodeFiles); err != nil {
		return "", err
	}
	return node, os.Symlink(modules, filepath.Join(dir, "node", "node_modules"))
}

// installNode has npm install what the lock file names, unless that was done
// before.
func installNode(ctx context.Context, c config) (modules string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	hash := sha256.New()
	for _, name := range npmFiles {
		text, err := nodeFiles.ReadFile("node/" + name)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	folder := filepath.Join(cache, "daybook-bench", fmt.Sprintf("node-%.12x", hash.Sum(nil)))
	modules = filepath.Join(folder, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	fmt.Fprintln(c.log, "installing the peers for Node into", folder)
	return modules, npmInstall(ctx, folder)
}

var npmFiles = []string{"package.json", "package-lock.json"}

// npmInstall installs beside the folder and renames, so that a folder of that
// name is always whole.
func npmInstall(ctx context.Context, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, name := range npmFiles {
		text, err := nodeFiles.ReadFile("node/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(fresh, name), text, 0o644); err != nil {
			return err
		}
	}
	_, err = command(ctx, nil, "npm", "ci", "--prefix", fresh, "--ignore-scripts", "--no-audit", "--no-fund")
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, folder); err != nil { // another run may have been quicker
		if _, none := os.Stat(filepath.Join(folder, "node_modules")); none != nil {
			return err
		}
	}
	return nil
}

// nodeVersions are the peers' versions, by package.
func nodeVersions() map[string]string {
	var p struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if text, err := nodeFiles.ReadFile("node/package.json"); err == nil {
		json.Unmarshal(text, &p)
	}
	return p.Dependencies
}
