package storetest

import "testing"

func runRace(t *testing.T, open opener)       {}
func runInterleave(t *testing.T, open opener) {}
func runFaults(t *testing.T, open opener)     {}
func runPortable(t *testing.T, open opener)   {}
