//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// screenSignals are what a terminal tells a program that draws on it.
var screenSignals = []os.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}

func stops(s os.Signal) bool { return s == syscall.SIGTSTP }

func continues(s os.Signal) bool { return s == syscall.SIGCONT }

// stopSelf stops this process as its shell wants it stopped, and returns when it goes
// on. Where nobody could make it go on, the system doesn't stop it.
func stopSelf(signals chan os.Signal) {
	signal.Reset(syscall.SIGTSTP)
	defer signal.Notify(signals, syscall.SIGTSTP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTSTP)
	for {
		select {
		case s := <-signals:
			if continues(s) {
				return
			}
		case <-time.After(100 * time.Millisecond): // it wasn't stopped, or went on long after
			return
		}
	}
}
