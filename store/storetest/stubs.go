package storetest

import "testing"

func runCases(t *testing.T, open opener)      {}
func runModel(t *testing.T, open opener)      {}
func runRace(t *testing.T, open opener)       {}
func runInterleave(t *testing.T, open opener) {}
func runFaults(t *testing.T, open opener)     {}
func runPortable(t *testing.T, open opener)   {}
