package smoke

import "testing"

// TestSteps: only what happens in the chosen steps has rows, and blocks that reach over their borders are shown from or to these.
func TestSteps(t *testing.T) {
	j := under(t, "--steps=2,4", target("steps")).run().want(0).noComplaints()
	checkTold(t, j)
}
