package query

import "testing"

// TestSegmentsBefore: the MALLOC of a block from before the collection says create whatever it was; that is no sign of expandable segments.
func TestSegmentsBefore(t *testing.T) {
	s := newScene()
	for i, attr := range []string{"shadow:true,page_type:huge,alloc_type:create", "used:2048,page_type:huge,alloc_type:create", "used:3072,page_type:huge,alloc_type:alloc"} {
		ptr := hex(uint64(i+1) << 20)
		s.row("MALLOC,HAL,N/A", "0", ptr, "{allocation_id:1,addr:"+ptr+",size:1024,"+attr+"}", "")
	}
	result := ask(t, "hal-segments", "--min-size", "1KB", store(t, "memscope_dump_1.csv", []byte(s.text.String())))["result"]
	for path, want := range map[string]any{"segments.0.alloc_type": "unknown", "segments.1.alloc_type": "create", "segments.2.alloc_type": "alloc", "alloc_type_create": 1.0, "alloc_type_unknown": 1.0} {
		if got := at(result, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}
