package report

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"

	"memscope/internal/hostheap"
)

// exportMost is how many stacks an export has at most, those that hold most.
const exportMost = 20000

// exported is a live stack for other tools, innermost frame first.
type exported struct {
	blocks hostheap.Size
	frames hostheap.Frames
}

// exports are the live stacks; where there are Python frames, they take the place of the interpreter's own.
func (in Input) exports(visit func(e *exported)) {
	for i, l := range in.Snapshot.Live {
		if i == exportMost {
			return
		}
		e := exported{blocks: l.Blocks}
		if frames, ok := in.Tables.Stack(l.Stack); ok {
			e.frames = frames
			if len(frames.Python) > 0 {
				for n, f := range frames.Native {
					if strings.Contains(filepath.Base(in.Texts.Place(f).Library), "python") {
						e.frames.Native = frames.Native[:n]
						break
					}
				}
			}
		}
		visit(&e)
	}
}

// WriteFolded writes the live stacks as collapsed stacks: outermost frame first, frames separated by semicolons, then the bytes.
func WriteFolded(w io.Writer, in Input) error {
	b := bufio.NewWriter(w)
	clean := strings.NewReplacer(";", ":", "\n", " ").Replace
	in.exports(func(e *exported) {
		var frames []string
		for i := len(e.frames.Python) - 1; i >= 0; i-- {
			p := e.frames.Python[i]
			frames = append(frames, clean(fmt.Sprintf("%s (%s:%d)", p.Function, filepath.Base(p.File), p.Line)))
		}
		for i := len(e.frames.Native) - 1; i >= 0; i-- {
			frames = append(frames, clean(in.Texts.Place(e.frames.Native[i]).short()))
		}
		if len(frames) == 0 {
			frames = []string{"unknown"}
		}
		fmt.Fprintf(b, "%s %d\n", strings.Join(frames, ";"), e.blocks.Bytes)
	})
	return b.Flush()
}

func (p Place) short() string {
	switch {
	case p.Function != "":
		return p.Function
	case p.Library == "":
		return "generated code"
	}
	return fmt.Sprintf("%s+0x%x", filepath.Base(p.Library), p.Offset)
}

// WritePprof writes the live stacks as a profile of `go tool pprof`.
func WritePprof(w io.Writer, in Input) error {
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		DefaultSampleType: "inuse_space",
		TimeNanos:         in.Snapshot.Ended.UnixNano(),
		DurationNanos:     int64(in.Snapshot.Ended.Sub(in.Snapshot.Opened)),
	}
	b := builder{in: in, profile: p, mappings: map[uint32]*profile.Mapping{}, locations: map[any]*profile.Location{},
		functions: map[[2]string]*profile.Function{}}
	in.exports(func(e *exported) {
		s := &profile.Sample{Value: []int64{int64(e.blocks.Count), int64(e.blocks.Bytes)}}
		for _, f := range e.frames.Native {
			s.Location = append(s.Location, b.native(f))
		}
		for _, f := range e.frames.Python {
			s.Location = append(s.Location, b.python(f))
		}
		p.Sample = append(p.Sample, s)
	})
	if err := p.CheckValid(); err != nil {
		return err
	}
	return p.Write(w)
}

type builder struct {
	in        Input
	profile   *profile.Profile
	mappings  map[uint32]*profile.Mapping
	locations map[any]*profile.Location
	functions map[[2]string]*profile.Function
}

func (b *builder) location(key any) (l *profile.Location, fresh bool) {
	if l, ok := b.locations[key]; ok {
		return l, false
	}
	l = &profile.Location{ID: uint64(len(b.profile.Location)) + 1}
	b.locations[key] = l
	b.profile.Location = append(b.profile.Location, l)
	return l, true
}

func (b *builder) native(f hostheap.NativeFrame) *profile.Location {
	l, fresh := b.location(f)
	if !fresh {
		return l
	}
	l.Address = f.PC - min(f.PC, 1) // the call is before the address that it returns to
	l.Mapping = b.mapping(f.Module)
	if p := b.in.Texts.Place(f); p.Function != "" {
		l.Line = []profile.Line{{Function: b.function(p.Function, p.File), Line: int64(p.Line)}}
	}
	return l
}

func (b *builder) python(f hostheap.PythonFrame) *profile.Location {
	l, fresh := b.location(f)
	if fresh {
		l.Line = []profile.Line{{Function: b.function(f.Function, f.File), Line: int64(f.Line)}}
	}
	return l
}

func (b *builder) function(name, file string) *profile.Function {
	key := [2]string{name, file}
	f := b.functions[key]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.profile.Function)) + 1, Name: name, SystemName: name, Filename: file}
		b.functions[key] = f
		b.profile.Function = append(b.profile.Function, f)
	}
	return f
}

func (b *builder) mapping(number uint32) *profile.Mapping {
	if m, ok := b.mappings[number]; ok {
		return m
	}
	l := b.in.Texts.library(number)
	if l == nil {
		b.mappings[number] = nil
		return nil
	}
	m := &profile.Mapping{
		ID: uint64(len(b.profile.Mapping)) + 1, Start: l.Start, Limit: l.End, Offset: l.Start - l.Bias, File: l.Path,
		BuildID: hex.EncodeToString(l.BuildID), HasFunctions: true, HasFilenames: true, HasLineNumbers: true,
	}
	b.mappings[number] = m
	b.profile.Mapping = append(b.profile.Mapping, m)
	return m
}
