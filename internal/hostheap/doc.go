// Package hostheap is the collector's side of the host heap: the tables of native/include/hostheap.h.
//
// The types and constants in heap_gen.go are generated from the header; the field comments are there.
package hostheap

//go:generate sh -c "go tool cgo -godefs godefs.go | gofmt > heap_gen.go && rm -r _obj _cgo_2.o"
