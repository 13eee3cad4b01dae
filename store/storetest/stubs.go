package storetest

import "testing"

func runPortable(t *testing.T, open opener)   {}
