package query

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"memscope/internal/dump/read"
)

// scene writes a dump of one process on one card: a pool (PTA) that takes segments from the driver (HAL).
type scene struct {
	text             strings.Builder
	id, alloc, now   int64
	used, total, hal int64
	others           int64 // what other processes hold of the card
	live             map[int64]planted
	stack            string
	inefficient      string
	next             int64
}

type planted struct {
	size, id int64
	pool     string
}

const mib = 1 << 20

func newScene() *scene {
	s := &scene{now: 1_000_000, live: make(map[int64]planted), next: 0x12c000000000}
	s.text.WriteString(read.Header + "\n")
	s.row("SYSTEM,START_TRACE,N/A", "N/A", "N/A", "", "")
	return s
}

func (s *scene) row(head, device, ptr, attr, stack string) {
	s.now += 1000
	quoted := func(t string) string {
		if t == "" {
			return ""
		}
		return `"` + t + `"`
	}
	fmt.Fprintf(&s.text, "%d,%s,%d,42,42,%s,%s,%s,%s,\n", s.id, head, s.now, device, ptr, quoted(attr), quoted(stack))
	s.id++
}

func (s *scene) card() string {
	return fmt.Sprintf(",process_used:%d,device_used:%d", s.hal+100*mib, s.hal+100*mib+s.others)
}

// hal takes memory from the driver.
func (s *scene) segment(size int64, owner string) int64 {
	s.alloc++
	addr := s.next
	s.next += size
	s.hal += size
	s.live[addr] = planted{size, s.alloc, "HAL"}
	ptr := fmt.Sprintf("0x%016x", addr)
	s.row("MALLOC,HAL,N/A", "0", ptr, fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,used:%d%s,owner:%s,page_type:huge,alloc_type:alloc}", s.alloc, ptr, size, s.hal, s.card(), owner), "")
	return addr
}

// grow reserves more for the pool.
func (s *scene) grow(size int64) {
	s.segment(size, "CANN@APP")
	s.total += size
}

func (s *scene) malloc(size int64, owner string) int64 {
	if s.used+size > s.total {
		s.grow(max(size, 20*mib))
	}
	s.alloc++
	addr := s.next
	s.next += size
	s.used += size
	s.live[addr] = planted{size, s.alloc, "PTA"}
	ptr := fmt.Sprintf("0x%016x", addr)
	s.row("MALLOC,PTA,N/A", "0", ptr, fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,used:%d,total:%d%s,owner:%s%s}", s.alloc, ptr, size, s.used, s.total, s.card(), owner, s.inefficient), s.stack)
	return addr
}

func (s *scene) free(addr int64) {
	b := s.live[addr]
	delete(s.live, addr)
	s.used -= b.size
	ptr := fmt.Sprintf("0x%016x", addr)
	s.row("FREE,PTA,N/A", "0", ptr, fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,used:%d,total:%d%s}", b.id, ptr, b.size, s.used, s.total, s.card()), "")
}

// steps runs training steps: activations come and go, more is done in each by the caller.
func (s *scene) steps(n int, each func(step int)) {
	for i := range n {
		s.row(`MSTX,Range_start,"step start"`, "0", "N/A", "", "")
		a, b := s.malloc(60*mib, "PTA@ops"), s.malloc(30*mib, "PTA@ops")
		each(i)
		s.free(b)
		s.free(a)
	}
}

func (s *scene) oom(request, total int64, recent int) {
	s.row("OOM_DETAIL,OOM_TRIGGER,OOM_Trigger", "0", "N/A", fmt.Sprintf("{func:halMemAlloc,req_size:%d,flag:34,ret:6}", request), s.stack)
	for range recent {
		s.row("OOM_DETAIL,OOM_RECENT_ALLOC,OOM_RecentAlloc", "0", "N/A", fmt.Sprintf("{pool:PTA,ptr:0x1,size:%d,timestamp:%d,step:1,kernel:1}", mib, s.now), s.stack)
	}
	inUse := s.hal + 100*mib + s.others
	s.row("SNAPSHOT,SNAPSHOT,OOM_Snapshot", "0", "N/A", fmt.Sprintf("{total_mem:%d,free_mem:%d,reserved:%d,peak_reserved:%d,allocated:%d,peak_allocated:%d,device_utilization:0.9,pt_utilization:%.6f}",
		total, total-inUse, s.total, s.total, s.used, s.used, float64(s.used)/float64(max(s.total, 1))), "")
}

// end is a process that is killed, or ends without freeing: shadow FREE rows.
func (s *scene) end() string {
	s.row("SYSTEM,STOP_TRACE,N/A", "N/A", "N/A", "", "")
	for addr := range s.live {
		b := s.live[addr]
		ptr := fmt.Sprintf("0x%016x", addr)
		s.row("FREE,"+b.pool+",N/A", "0", ptr, fmt.Sprintf("{allocation_id:%d,addr:%s,size:%d,shadow:true}", b.id, ptr, b.size), "")
	}
	return s.text.String()
}

func nothing(int) {}

var plantedCases = []struct {
	name, cause string
	plant       func(s *scene)
}{
	{"leak per step", "leak", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.stack = "/opt/train.py(33): keep\n/opt/train.py(12): main\n"
		s.steps(60, func(int) { s.malloc(2*mib, "PTA@ops") })
	}},
	{"cache that fills and stays", "resident", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(60, func(step int) {
			if step < 20 {
				s.malloc(8*mib, "PTA@vllm@kv_cache")
			}
		})
	}},
	{"fragmentation", "fragmentation", func(s *scene) {
		s.grow(400 * mib)
		s.malloc(150*mib, "PTA@model@weight")
		s.steps(30, func(step int) {
			if step%10 == 5 { // room enough, but not in one piece
				s.grow(20 * mib)
			}
		})
	}},
	{"segments for small blocks", "healthy", func(s *scene) {
		s.grow(400 * mib)
		s.malloc(150*mib, "PTA@model@weight")
		s.steps(30, func(step int) {
			if step%10 == 5 { // small blocks do not use the room of large ones
				s.grow(2 * mib)
			}
		})
	}},
	{"one huge request", "huge request", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(30, nothing)
		s.oom(600*mib, 1100*mib, 4)
	}},
	{"another process holds the card", "other process", func(s *scene) {
		s.others = 900 * mib
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(30, nothing)
		s.oom(30*mib, 1310*mib, 4)
	}},
	{"idle optimizer state", "idle memory", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.inefficient = ",inefficient_type:temporary_idleness"
		s.malloc(300*mib, "PTA@model@optimizer_state")
		s.inefficient = ""
		s.steps(30, nothing)
	}},
	{"HCCL buffers", "hccl buffers", func(s *scene) {
		for range 3 {
			s.segment(401*mib, "CANN@HCCL")
		}
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(30, nothing)
	}},
	{"no problem at all", "healthy", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(60, nothing)
	}},
	{"data too thin", "thin data", func(s *scene) { s.malloc(2*mib, "PTA") }},
	{"mixed a leak and HCCL buffers", "leak", func(s *scene) {
		s.segment(401*mib, "CANN@HCCL")
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(60, func(int) { s.malloc(2*mib, "PTA@ops") })
	}},
	// two of our own
	{"full at last by a leak", "leak", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(60, func(int) { s.malloc(6*mib, "PTA@ops") })
		s.oom(30*mib, s.hal+100*mib+20*mib, 4)
	}},
	{"noisy but healthy", "healthy", func(s *scene) {
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(60, func(step int) { s.free(s.malloc(int64(1+step*7%11)*mib, "PTA@ops")) })
	}},
}

func TestDiagnose(t *testing.T) {
	for _, c := range plantedCases {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.plant(s)
			path := store(t, "memscope_dump_1.csv", []byte(s.end()))
			result := ask(t, "diagnose", path)["result"]
			if got := at(result, "conclusions.0.cause"); got != c.cause {
				t.Errorf("the first conclusion is %v, want %s: %v", got, c.cause, at(result, "conclusions"))
			}
			severity := at(result, "conclusions.0.severity")
			healthy := c.cause == "healthy" || c.cause == "resident" || c.cause == "thin data"
			if healthy != (severity == "none") || healthy && at(result, "conclusions.#") != 1.0 {
				t.Errorf("a false alarm, or none: %v", at(result, "conclusions"))
			}
			for _, lang := range []string{"en", "zh"} {
				var stdout, stderr bytes.Buffer
				if status := Main([]string{"diagnose", path, "--lang", lang}, &stdout, &stderr); status != statusOK {
					t.Fatal(stderr.String())
				}
				chinese := strings.ContainsFunc(stdout.String(), func(r rune) bool { return unicode.Is(unicode.Han, r) })
				if chinese != (lang == "zh") || strings.Contains(stdout.String(), "%!") || !strings.Contains(stdout.String(), path) {
					t.Errorf("%s:\n%s", lang, stdout.String())
				}
			}
		})
	}
}

// TestOOMWithoutTheCard: a dump that does not say what the card had free is not read as if it had nothing.
func TestOOMWithoutTheCard(t *testing.T) {
	for _, c := range []struct {
		request int64
		text    string
	}{
		{30 * mib, "The card is simply full: a request of 30.00 MiB failed while this process holds 290.00 MiB."},
		{600 * mib, "A single request was too large: 600.00 MiB, while this process holds 290.00 MiB; how much was free is not in the dump."},
	} {
		s := newScene()
		s.malloc(200*mib, "PTA@model@weight")
		s.steps(30, nothing)
		s.oom(c.request, 1100*mib, 0)
		lines := strings.SplitAfter(s.end(), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "SNAPSHOT") })
		text := regexp.MustCompile(`,(process|device)_used:\d+`).ReplaceAllString(strings.Join(lines, ""), "")
		path := store(t, "memscope_dump_1.csv", []byte(text))
		result := ask(t, "diagnose", path)["result"]
		if got := at(result, "conclusions.0.text"); got != c.text {
			t.Errorf("%v, want %s", got, c.text)
		}
		when := fmt.Sprintf("`msmemscope dump at %.0f %s`", at(ask(t, "oom", path)["result"], "cases.0.at_ns"), path)
		if advice := fmt.Sprint(at(result, "conclusions.0.advice")); c.request == 30*mib && !strings.Contains(advice, when) {
			t.Errorf("not %s but %s", when, advice)
		}
	}
}

// TestOOMRepeated: what is asked again at once is one case; another size, and the same after a while, are others.
func TestOOMRepeated(t *testing.T) {
	s := newScene()
	for range 4 {
		s.oom(30*mib, 1100*mib, 0)
	}
	s.oom(31*mib, 1100*mib, 0)
	s.now += int64(3 * time.Second)
	s.oom(31*mib, 1100*mib, 0)
	result := ask(t, "oom", store(t, "memscope_dump_1.csv", []byte(s.end())))["result"]
	var got []string
	for i := range at(result, "cases").([]any) {
		got = append(got, fmt.Sprint(at(result, fmt.Sprintf("cases.%d.req_size", i)), " ", at(result, fmt.Sprintf("cases.%d.attempts", i))))
	}
	if want := []string{fmt.Sprint(float64(30*mib), " 4"), fmt.Sprint(float64(31*mib), " 1"), fmt.Sprint(float64(31*mib), " 1")}; !slices.Equal(got, want) {
		t.Errorf("cases %q, want %q", got, want)
	}
}

// TestTexts: each text has the same verbs in both languages.
func TestTexts(t *testing.T) {
	verbs := func(s string) (out []string) {
		for i := range len(s) - 1 {
			if s[i] == '%' {
				out = append(out, s[i:i+2])
			}
		}
		return out
	}
	for id, text := range texts {
		if a, b := verbs(text[0]), verbs(text[1]); len(a) != len(b) {
			t.Errorf("%s: %v and %v", id, a, b)
		}
	}
}
