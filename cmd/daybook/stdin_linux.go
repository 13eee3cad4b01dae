package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile makes an empty file without a name, in memory. It is gone once
// nobody holds it open.
func unnamedFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("daybook-args", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "daybook-args"), nil
}
