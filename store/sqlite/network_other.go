//go:build !linux

package sqlite

import "errors"

// refuseNetwork can't tell here; the documentation says to use a local disk.
func refuseNetwork(string) error { return nil }

func networkOf(string) (string, error) { return "", nil }

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
