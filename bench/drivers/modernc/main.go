// Command modernc measures modernc.org/sqlite: SQLite's C translated to Go.
package main

import (
	"github.com/daybookdev/daybook/bench/raw"
	_ "modernc.org/sqlite"
)

func main() { raw.Main("sqlite") }
