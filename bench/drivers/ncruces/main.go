// Command ncruces measures github.com/ncruces/go-sqlite3: SQLite compiled to
// WebAssembly and that translated to Go.
package main

import (
	"github.com/daybookdev/daybook/bench/raw"
	_ "github.com/ncruces/go-sqlite3/driver"
)

func main() { raw.Main("sqlite3") }
