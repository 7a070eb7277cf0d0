package smoke

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodDump = header + `
0,SYSTEM,ACL_INIT,N/A,5,7,7,N/A,N/A,,,
1,MALLOC,HAL,N/A,10,7,7,0,0x0000000000001000,"{allocation_id:1,addr:0x0000000000001000,size:9,used:9,page_type:normal,alloc_type:alloc}",,
2,MALLOC,HAL,N/A,11,7,7,0,0x0000000000002000,"{allocation_id:2,addr:0x0000000000002000,size:10,used:19,page_type:normal,alloc_type:alloc}",,
4,FREE,HAL,N/A,11,7,7,0,0x0000000000001000,"{allocation_id:1,addr:0x0000000000001000,size:9,used:10}",,
5,FREE,HAL,N/A,12,7,7,0,0x0000000000002000,"{allocation_id:2,addr:0x0000000000002000,size:10,shadow:true}",,
`

// The checks that every run goes through find what they are there to find.
func TestChecker(t *testing.T) {
	read := func(text string) (*dump, error) {
		path := filepath.Join(t.TempDir(), "dump.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := readDump(path)
		if err != nil {
			return nil, err
		}
		return d, d.check()
	}
	if _, err := read(goodDump); err != nil {
		t.Errorf("a good dump: %v", err)
	}
	lines := strings.SplitAfter(goodDump, "\n")
	for name, bad := range map[string]string{
		"header":            strings.Replace(goodDump, "Thread Id", "Thread ID", 1),
		"torn":              goodDump[:len(goodDump)-20],
		"missing FREE":      strings.Join(lines[:len(lines)-2], ""),
		"missing MALLOC":    strings.Replace(goodDump, lines[2], "", 1),
		"doubled":           goodDump + lines[len(lines)-2],
		"time":              strings.Replace(goodDump, "N/A,12,7", "N/A,9,7", 1),
		"ID":                strings.Replace(goodDump, "\n4,FREE", "\n2,FREE", 1),
		"used":              strings.Replace(goodDump, "used:19", "used:18", 1),
		"shadow with used":  strings.Replace(goodDump, "shadow:true", "used:0,shadow:true", 1),
		"size":              strings.Replace(goodDump, "size:9,used:10", "size:8,used:10", 1),
		"address":           strings.Replace(goodDump, "addr:0x0000000000001000", "addr:0x0000000000003000", 1),
		"number of columns": strings.Replace(goodDump, "}\",,\n", "}\",\n", 1),
	} {
		if _, err := read(bad); err == nil {
			t.Errorf("%s: not found", name)
		}
	}

	numbers := func(sizes ...int64) []*dump {
		d := &dump{}
		for _, size := range sizes {
			d.rows = append(d.rows, row{event: "MALLOC", kind: "HAL", size: size})
		}
		return []*dump{d}
	}
	for name, c := range map[string]struct {
		dumps []*dump
		told  [killThreads]int64
		good  bool
	}{
		"all":           {numbers(5, 6, 9, 13), [4]int64{3, 1}, true},
		"more":          {numbers(5, 6, 9, 13), [4]int64{1}, true},
		"lost last":     {numbers(5, 6, 9), [4]int64{3, 1}, false},
		"lost amid":     {numbers(5, 6, 13), [4]int64{1, 1}, false},
		"doubled":       {numbers(5, 6, 6, 9), [4]int64{1, 1}, false},
		"not freed":     {numbers(many(killWindow + 1)...), [4]int64{killWindow + 1}, false},
		"in the window": {numbers(many(killWindow)...), [4]int64{killWindow}, true},
	} {
		if err := checkNumbers(c.dumps, c.told); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// many are the sizes of the first n numbers of thread 0.
func many(n int) (sizes []int64) {
	for i := range n {
		sizes = append(sizes, int64(i+1)*killThreads+1)
	}
	return sizes
}
