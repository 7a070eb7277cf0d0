package read

import (
	"os"
	"testing"
)

func TestRecorded(t *testing.T) {
	for _, name := range []string{"baseline.csv", "leaks.csv"} {
		path := "../../../../shared/data/ascend/" + name
		if _, err := os.Stat(path); err != nil {
			t.Skip("no recorded dumps here: ", err)
		}
		sum, err := CSV(path, Options{Want: ^Want(0)}, func(b *Batch) error { return nil })
		t.Log(sum, err)
	}
}
