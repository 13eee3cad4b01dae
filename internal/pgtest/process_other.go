//go:build !unix

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// supported refuses systems without signals and process groups. A server that
// runs there may still be named in DAYBOOK_TEST_PG.
func supported() error {
	return errors.New("pgtest: servers are started on Linux and other Unix systems only; " +
		"name a running one in DAYBOOK_TEST_PG")
}

func attributes(*account) *syscall.SysProcAttr { return nil }

func outlives() *syscall.SysProcAttr { return nil }

func freeze(*os.Process) error { return supported() }

func children(int) ([]int, error) { return nil, supported() }

func gone(int) bool { return true }
