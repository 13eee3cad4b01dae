//go:build !linux

package main

import (
	"errors"
	"os"
)

// unnamedFile makes an empty file without a name. It is gone once nobody holds
// it open.
func unnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "daybook-args-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
