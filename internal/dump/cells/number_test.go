package cells

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestNumbers compares with strconv: every number of up to four digits in each half of a piece, each length's ends, and 100,000 others.
func TestNumbers(t *testing.T) {
	check := func(v uint64) {
		t.Helper()
		if got, want := string(AppendUint(nil, v)), strconv.FormatUint(v, 10); got != want {
			t.Fatalf("%s is written %s", want, got)
		}
		if got, want := string(AppendInt([]byte("x"), int64(v))), "x"+strconv.FormatInt(int64(v), 10); got != want {
			t.Fatalf("%s is written %s", want, got)
		}
		if got, want := string(appendAddr(nil, v)), fmt.Sprintf("0x%016x", v); got != want {
			t.Fatalf("%s is written %s", want, got)
		}
	}
	for v := range uint64(10_000) {
		check(v)
		check(v * 10_000)
		check((9999-v)*10_000 + v)
	}
	for v := uint64(1); ; v *= 10 {
		check(v - 1)
		check(v)
		if v > math.MaxUint64/10 {
			break
		}
	}
	check(math.MaxUint64)
	check(math.MaxInt64)
	check(1 << 63)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(rng.Uint64() >> rng.UintN(64))
	}
}
