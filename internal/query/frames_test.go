package query

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

const cannFrames = "/usr/lib64/libruntime.so(rtMalloc+0xfb) [0x7f01]\n/usr/lib64/libacl_rt_impl.so.1(aclrtMallocImpl+0x2) [0x7f02]\n/usr/lib64/libascendcl.so(aclrtMalloc+0x1d) [0x7f03]\n"

func TestFirstFrames(t *testing.T) {
	for _, c := range []struct {
		stack string
		n     int
		want  string
	}{
		{cannFrames + "/opt/job(load+0x5) [0x40]\n/opt/job(main+0x9) [0x41]\n", 1, "/opt/job(load+0x5) [0x40]"},
		{cannFrames + "/opt/job(load+0x5) [0x40]\n/opt/job(main+0x9) [0x41]\n", 2, "/opt/job(load+0x5) [0x40] <- /opt/job(main+0x9) [0x41]"},
		{cannFrames, 1, "/usr/lib64/libruntime.so(rtMalloc+0xfb) [0x7f01]"},
		{"/opt/libruntime/train.py(10): step\n/opt/main.py(3): main\n" + cannFrames, 1, "/opt/libruntime/train.py(10): step"},
		{"/site-packages/torch/nn/linear.py(5): forward\n", 1, "/site-packages/torch/nn/linear.py(5): forward"},
		{"/opt/libtorch_npu.so(alloc_block+0x1) [0x1]\n" + cannFrames, 1, "/opt/libtorch_npu.so(alloc_block+0x1) [0x1]"},
		{"NA\n", 1, ""},
	} {
		if got := firstFrames(c.stack, c.n); got != c.want {
			t.Errorf("%q: %q, want %q", c.stack, got, c.want)
		}
	}
}

func TestDistinctStacks(t *testing.T) {
	w := &report{}
	got := w.distinct([]string{"a\nb\nc\nd\ne\nf\ng", "a\nb\nc\nd\ne\nx\ng", "a\nb\nc\ny", "p\nq", cannFrames + "a\nb\nc"}, 3)
	want := []string{"a <- b <- c <- … <- f <- …", "a <- b <- c <- … <- x <- …", "a <- b <- c <- y", "p <- q", "a <- b <- c"}
	if !slices.Equal(got, want) || !w.cut {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&report{}).distinct(nil, 3); len(got) != 0 {
		t.Errorf("%q of nothing", got)
	}
}

// TestStacksOfC: what a user of C stacks reads names places in the program, and where whole stacks are.
func TestStacksOfC(t *testing.T) {
	s := newScene()
	deep := "/opt/job(a+0x1) [0x1]\n/opt/job(b+0x1) [0x2]\n/opt/job(c+0x1) [0x3]\n"
	for i, end := range []string{"/opt/job(train+0x1) [0x4]\n", "/opt/job(evaluate+0x1) [0x5]\n", "/opt/job(train+0x1) [0x4]\n"} {
		ptr := hex(uint64(i+1) << 20)
		s.row("MALLOC,HAL,N/A", "0", ptr, "{allocation_id:1,addr:"+ptr+",size:1024,used:1024}", cannFrames+deep+end+"/opt/job(main+0x1) [0x6]\n")
		s.row("OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc", "0", "N/A", "{pool:HAL,ptr:0x1,size:1024,timestamp:1,step:1,kernel:1}", cannFrames+deep+end+"/opt/job(main+0x1) [0x6]\n")
		s.row("OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc", "0", "N/A", "{pool:HAL,ptr:0x1,size:1024,timestamp:1,step:1,kernel:1}", cannFrames+deep+end+"/opt/job(main+0x1) [0x6]\n")
	}
	path := store(t, "memscope_dump_1.csv", []byte(s.text.String()))
	for question, wanted := range map[string][]string{
		"group --by stack":            {"train+0x1", "evaluate+0x1", "note: … stands for more frames; --json has the whole call stacks"},
		"leak-candidates":             {"/opt/job(a+0x1) [0x1] ", "/opt/job(b+0x1)", "note: … stands for more"},
		"oom":                         {"repeated stack: 4 of the 6 latest allocations come from /opt/job(a+0x1) [0x1]"},
		"hal-segments --min-size 1KB": {"/opt/job(a+0x1) [0x1]"},
	} {
		var out bytes.Buffer
		if status := Main(append(strings.Fields(question), path), &out, &out); status != statusOK {
			t.Fatal(out.String())
		}
		for _, want := range wanted {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s does not say %q:\n%s", question, want, out.String())
			}
		}
		if strings.Contains(out.String(), "libruntime") {
			t.Errorf("%s names the runtime:\n%s", question, out.String())
		}
	}
}
