//go:build !linux

package query

import "errors"

// Spools are for the system that they are written on.
func isSpool(string) bool { return false }

func unspool(string) (string, int64, error) {
	return "", 0, errors.New("spools are not read on this system")
}
