//go:build !unix

package demo

import (
	"os"

	"github.com/daybookdev/daybook"
)

// canStop refuses systems on which a process can't be stopped and continued.
func canStop() error {
	return daybook.Fail(daybook.CodeInvalid,
		"the demo stops and continues processes, which this system can't; run it on Linux or macOS")
}

func freeze(*os.Process) error { return canStop() }

func thaw(*os.Process) error { return canStop() }
