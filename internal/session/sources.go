package session

import (
	"strings"

	"memscope/internal/config"
	"memscope/internal/wire"
)

// sources are the libraries of the program that have shown themselves by a record. A library that is missing, or too old to know of tools, says nothing
// itself: at the end of the process the log says what it would have told.
type sources struct{ mstx, atb bool }

func (s *sources) see(rec wire.Record) {
	switch rec.Type() {
	case wire.TypeMark, wire.TypeRangeStart:
		s.mstx = true
	case wire.TypeAlloc:
		pool := rec.Head().Pool
		s.mstx = s.mstx || pool != wire.PoolHAL && pool != wire.PoolHost
	case wire.TypeAtbStart, wire.TypeAtbAccess, wire.TypeAtbKernelStart:
		s.atb = true
	}
}

func (s *sources) sayAbsent(cfg *config.Config, log *log) {
	var absent []string
	if !s.mstx {
		absent = append(absent, "marks, ranges and pools (mstx, libms_tools_ext.so)")
	}
	if !s.atb && cfg.Events&(config.Launch|config.Access) != 0 {
		absent = append(absent, "operators and kernels of ATB (libatb.so)")
	}
	if len(absent) > 0 {
		log.Logf(config.Info, "the program has shown none of these, and so the dump has none: %s", strings.Join(absent, "; "))
	}
}
