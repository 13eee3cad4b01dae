package httpapi

import (
	"testing"
)

// Keys are remembered, so many and no more.
func TestCallKeysAreBounded(t *testing.T) {
	var k callKeys
	for n := range 2*callKeysMost + 7 {
		if p := k.check(digest("key", n), digest("body")); p != nil {
			t.Fatal(p)
		}
	}
	if len(k.bodies) != callKeysMost || len(k.order) != callKeysMost {
		t.Errorf("got %d and %d, want %d", len(k.bodies), len(k.order), callKeysMost)
	}
	if p := k.check(digest("key", 2*callKeysMost), digest("other")); p == nil {
		t.Error("a key of late is forgotten")
	}
	if p := k.check(digest("key", callKeysMost+7), digest("other")); p == nil {
		t.Error("the oldest that is remembered is forgotten")
	}
	if p := k.check(digest("key", 3), digest("other")); p != nil {
		t.Error("a key of long ago is remembered")
	}
}
