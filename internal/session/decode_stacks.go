package session

import (
	"encoding/binary"

	"memscope/internal/config"
	"memscope/internal/dump/stacks"
	"memscope/internal/symbol"
	"memscope/internal/wire"
)

// define takes a record that says what later ones mean by their stacks.
func define(t *stacks.Table, cfg *config.Config, rec wire.Record) {
	switch rec.Type() {
	case wire.TypeStack:
		defineStack(t, cfg, rec)
	case wire.TypeCode:
		if b, ok := rec.Behind(); ok {
			code := rec.Code()
			t.Code(code.Number, string(b[:code.File_length]), string(b[code.File_length:]))
		}
	case wire.TypeModule:
		if b, ok := rec.Behind(); ok {
			m := rec.Loaded()
			t.Module(m.Number, &symbol.Module{
				Path: string(b[:m.Path_length]), BuildID: b[m.Path_length:], Start: m.Start, End: m.End, Bias: m.Bias,
			})
		}
	}
}

func defineStack(t *stacks.Table, cfg *config.Config, rec wire.Record) {
	b, ok := rec.Behind()
	if !ok {
		return
	}
	head := rec.Stack()
	var s stacks.Stack
	le := binary.LittleEndian
	for range head.C_frames {
		s.C = append(s.C, le.Uint64(b))
		b = b[8:]
	}
	switch head.Py_frames {
	case wire.NoPython:
		s.Python = stacks.None
	case wire.NotPython:
		if onlyEmptyPython(cfg) {
			s.Python = stacks.Recorded
		}
	default:
		s.Python = stacks.Recorded
		for ; len(b) >= 8; b = b[8:] {
			s.Lines = append(s.Lines, stacks.Line{Code: le.Uint32(b), Line: le.Uint32(b[4:])})
		}
	}
	t.Stack(head.H.Stack, &s)
}

// onlyEmptyPython says that stacks of Python are wanted up to a depth of 0, which the target cannot tell from none.
func onlyEmptyPython(cfg *config.Config) bool { return cfg.PyStack && cfg.PyStackDepth == 0 }
