package query

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// looped is a dump of steps that take a microsecond each, between a long loading and a long teardown. Each step needs 40 MiB besides
// what it leaves behind.
func looped(steps int, leftBehind int64) string {
	const mb = 1 << 20
	var out strings.Builder
	out.WriteString("ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n")
	id, now, used, next := 0, int64(1_000_000), int64(0), 0
	var live [][2]int64
	row := func(event, kind, name, ptr, attr string) {
		fmt.Fprintf(&out, "%d,%s,%s,%s,%d,9,9,0,%s,%s,,\n", id, event, kind, name, now, ptr, attr)
		id++
		now += 10
	}
	block := func(event string, addr, size int64) {
		if event == "FREE" {
			size = -size
		}
		used += size
		row(event, "PTA", "N/A", fmt.Sprintf("0x%016x", addr), fmt.Sprintf(`"{allocation_id:%d,addr:0x%016x,size:%d,used:%d,total:1073741824}"`, addr, addr, max(size, -size), used))
	}
	take := func(size int64) int64 {
		next++
		block("MALLOC", int64(next), size)
		return int64(next)
	}
	for range 16 { // loading
		live = append(live, [2]int64{take(4 * mb), 4 * mb})
		now += 1_000_000
	}
	for range steps {
		row("MSTX", "Range_start", `"step start"`, "N/A", "")
		addr := take(40 * mb)
		if leftBehind > 0 {
			live = append(live, [2]int64{take(leftBehind), leftBehind})
		}
		block("FREE", addr, 40*mb)
		row("MSTX", "Range_end", `"Range end from id 1"`, "N/A", "")
		now += 1000
	}
	for _, b := range live { // teardown
		now += 5_000_000
		block("FREE", b[0], b[1])
	}
	return out.String()
}

// TestSteps: what comes before and after the steps, and how long it takes, does not hide a leak and makes none.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		steps      int
		leftBehind int64
		rising     bool
		bySteps    bool
		cause      string
	}{
		{12, 2 << 20, true, true, "leak"},
		{12, 0, false, true, "healthy"},
		{1000, 1 << 20, true, true, "leak"},
		{1000, 0, false, true, "healthy"},
		{5, 0, false, false, "healthy"},
	} {
		file := filepath.Join(t.TempDir(), "memscope_dump_1.csv")
		if err := os.WriteFile(file, []byte(looped(c.steps, c.leftBehind)), 0o600); err != nil {
			t.Fatal(err)
		}
		view := at(ask(t, "trend", file)["result"], "views.0").(map[string]any)
		growth := int64(view["floor_growth_per_bucket_bytes"].(float64))
		steps, part := 0, 0
		if c.bySteps {
			steps, part = c.steps, max(c.steps/250, 1) // of at most 256 parts
		}
		if view["rising"] != c.rising || view["steps"] != float64(steps) || view["steps_per_part"] != float64(part) ||
			c.rising && (growth < c.leftBehind/2 || growth > c.leftBehind) {
			t.Errorf("%d steps with %d left behind: %v %v %v", c.steps, c.leftBehind, view["rising"], view["steps"], growth)
		}
		found := at(ask(t, "diagnose", file)["result"], "conclusions.0").(map[string]any)
		if found["cause"] != c.cause || c.cause == "healthy" && len(found["evidence"].([]any)) > 0 {
			t.Errorf("%d steps with %d left behind: %v, want %s", c.steps, c.leftBehind, found, c.cause)
		}
	}
}

// TestFewSteps: with too few steps for a verdict, blocks that were never freed are not said to be no leak.
func TestFewSteps(t *testing.T) {
	for pool, cause := range map[string]string{"PTA": "resident", "HAL": "healthy"} {
		lines := strings.SplitAfter(strings.ReplaceAll(looped(5, 2<<20), ",PTA,", ","+pool+","), "\n")
		file := filepath.Join(t.TempDir(), "memscope_dump_1.csv")
		const ends = 5 // of what each step left behind, the last rows
		if err := os.WriteFile(file, []byte(strings.Join(lines[:len(lines)-1-ends], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		found := at(ask(t, "diagnose", file)["result"], "conclusions.0").(map[string]any)
		if evidence := found["evidence"].([]any); found["cause"] != cause || len(evidence) != 1 || !strings.Contains(evidence[0].(string), "fewer than 8 steps") {
			t.Errorf("%s: %v", pool, found)
		}
	}
}

// TestQuarters: the end of a process, in which the collector writes down what lives, is none of the time that is divided.
func TestQuarters(t *testing.T) {
	text := "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
	row := func(event string, number, stamp int, attr string) {
		text += fmt.Sprintf("%d,%s,PTA,N/A,%d,7,7,0,0x%016x,\"{allocation_id:%d,addr:0x%016x,size:100%s}\",,\n", number, event, stamp, number, number, number, attr)
	}
	for number := 1; number <= 8; number++ {
		row("MALLOC", number, 1000+10*number, ",used:100,total:100")
	}
	for number := 1; number <= 8; number++ {
		row("FREE", number, 5000, ",shadow:true")
	}
	result := ask(t, "leak-candidates", "--pool", "PTA", store(t, "memscope_dump_1.csv", []byte(text)))["result"]
	for quarter := range 4 {
		if blocks := at(result, fmt.Sprintf("views.0.allocated_in_quarters.%d.blocks", quarter)); blocks != 2.0 {
			t.Errorf("%v blocks in quarter %d", blocks, quarter+1)
		}
	}
}
