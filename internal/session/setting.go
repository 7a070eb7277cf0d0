package session

import (
	"os"
	"strconv"
)

// setting is the number in an environment variable, or `usual` where there is none from least to most; a bad one is told by the launcher.
func setting(name string, least, most, usual int64) int64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 63)
	if err != nil || int64(n) < least || int64(n) > most {
		return usual
	}
	return int64(n)
}
