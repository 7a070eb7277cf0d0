// Package wire is the Go side of native/include/wire.h: the records of a ring, the reader of a ring, and the exchange by
// which a process becomes a client (hello, welcome). It knows nothing of blocks or files.
//
// The types and constants in wire_gen.go are generated from the header; the field comments are there.
package wire

//go:generate sh -c "go tool cgo -godefs godefs.go | gofmt > wire_gen.go && rm -r _obj _cgo_2.o"
