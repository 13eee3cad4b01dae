//go:build !unix

package main

import "os"

// screenSignals are none: terminals here say nothing by signals.
var screenSignals []os.Signal

func stops(os.Signal) bool { return false }

func continues(os.Signal) bool { return false }

func stopSelf(chan os.Signal) {}
