package read

import (
	"fmt"
	"math"
	"testing"
)

func TestInteger(t *testing.T) {
	for _, v := range []int64{0, 7, 12345678, 98765432, 1764753083997498270, math.MaxInt64, -1, -12345678901} {
		if got, ok := integer(fmt.Append(nil, " ", v)); !ok || got != v {
			t.Errorf("integer(%d) = %d, %v", v, got, ok)
		}
	}
	for _, s := range []string{"", "-", "1x", "1234567a", "1234567/", "1234567:", "9223372036854775808", "12345678901234567890", "0x10", "\xb12345678"} {
		if got, ok := integer([]byte(s)); ok {
			t.Errorf("integer(%q) = %d, want none", s, got)
		}
	}
}
