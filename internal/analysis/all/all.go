// Package all lists the analyzers that a run may have. A new one is a folder and a line here.
package all

import (
	"memscope/internal/analysis"
	"memscope/internal/analysis/decompose"
	"memscope/internal/analysis/fluctuation"
	"memscope/internal/analysis/inefficient"
	"memscope/internal/analysis/leaks"
	"memscope/internal/analysis/oom"
)

// Registrations are all analyzers. Among those of one priority the last is the first to get an event and to report
// (contract 5.0).
func Registrations() []analysis.Registration {
	return []analysis.Registration{
		oom.Registration(),
		decompose.Registration(),
		inefficient.Registration(),
		fluctuation.Registration(),
		leaks.Registration(),
	}
}
