package launch

import "testing"

func TestEmptyName(t *testing.T) {
	_, err := find("")
	if err == nil || err.Error() != `cannot run "": a program has no empty name` {
		t.Error(err)
	}
}
