//go:build !linux

package sqlite

// refuseNetwork can't tell here; the documentation says to use a local disk.
func refuseNetwork(string) error { return nil }

func networkOf(string) (string, error) { return "", nil }
