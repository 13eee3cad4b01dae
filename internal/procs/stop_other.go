//go:build !unix

package procs

import (
	"os"

	"github.com/daybookdev/daybook"
)

// CanStop refuses systems on which a process can't be stopped and continued.
func CanStop() error {
	return daybook.Fail(daybook.CodeInvalid,
		"a drill stops and continues processes, which this system can't; run it on Linux or macOS")
}

func Stop(*os.Process) error { return CanStop() }

func Continue(*os.Process) error { return CanStop() }
