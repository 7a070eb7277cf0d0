package hostheap

import (
	"reflect"
	"testing"

	"memscope/internal/wire/layouttest"
)

func TestLayout(t *testing.T) {
	layouttest.Layout(t, "../../native/include/hostheap.h", "heap_gen.go", map[string]reflect.Type{
		"ms_heap":        reflect.TypeFor[Header](),
		"ms_heap_size":   reflect.TypeFor[Size](),
		"ms_heap_slot":   reflect.TypeFor[Slot](),
		"ms_heap_count":  reflect.TypeFor[Count](),
		"ms_heap_region": reflect.TypeFor[Region](),
		"ms_heap_gib":    reflect.TypeFor[GiB](),
		"ms_heap_stack":  reflect.TypeFor[Stack](),
		"ms_heap_module": reflect.TypeFor[Module](),
		"ms_heap_python": reflect.TypeFor[PythonLine](),
	})
}

func TestGenerated(t *testing.T) { layouttest.Generated(t, "heap_gen.go") }
