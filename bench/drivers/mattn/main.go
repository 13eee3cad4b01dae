//go:build mattn

// Command mattn measures github.com/mattn/go-sqlite3: SQLite's C through cgo.
// It is behind a build tag, since it needs a C compiler.
package main

import (
	"github.com/daybookdev/daybook/bench/raw"
	_ "github.com/mattn/go-sqlite3"
)

func main() { raw.Main("sqlite3") }
