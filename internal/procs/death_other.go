//go:build !unix

package procs

import "syscall"

func Attributes() *syscall.SysProcAttr { return nil }
