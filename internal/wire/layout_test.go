package wire

import (
	"reflect"
	"testing"

	"memscope/internal/wire/layouttest"
)

func TestLayout(t *testing.T) {
	layouttest.Layout(t, "../../native/include/wire.h", "wire_gen.go", map[string]reflect.Type{
		"ms_ring":          reflect.TypeFor[Header](),
		"ms_head":          reflect.TypeFor[Head](),
		"ms_alloc":         reflect.TypeFor[Alloc](),
		"ms_free":          reflect.TypeFor[Free](),
		"ms_text":          reflect.TypeFor[Text](),
		"ms_kernel_launch": reflect.TypeFor[KernelLaunch](),
		"ms_kernel_clock":  reflect.TypeFor[KernelClock](),
		"ms_kernel_run":    reflect.TypeFor[KernelRun](),
		"ms_snapshot":      reflect.TypeFor[Snapshot](),
		"ms_oom":           reflect.TypeFor[OOM](),
		"ms_stack":         reflect.TypeFor[Stack](),
		"ms_code":          reflect.TypeFor[Code](),
		"ms_loaded":        reflect.TypeFor[Loaded](),
		"ms_watch_data":    reflect.TypeFor[WatchData](),
		"ms_watch_kernel":  reflect.TypeFor[WatchKernel](),
		"ms_access":        reflect.TypeFor[Access](),
		"ms_acl_alloc":     reflect.TypeFor[ACLAlloc](),
		"ms_map":           reflect.TypeFor[Map](),
		"ms_hello":         reflect.TypeFor[Hello](),
		"ms_config":        reflect.TypeFor[Config](),
		"ms_welcome":       reflect.TypeFor[Welcome](),
	})
}

func TestGenerated(t *testing.T) { layouttest.Generated(t, "wire_gen.go") }
