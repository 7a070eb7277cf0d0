#include "textflag.h"

// The kernel calls it with the number of the signal in R0, on the signal stack of the thread, whatever that is doing. It
// calls nothing of Go, and ends by rt_sigreturn itself.
TEXT caught<>(SB),NOSPLIT|NOFRAME,$0
	SUB	$16, RSP
	MOVW	R0, (RSP)
	MOVW	·catchPipe(SB), R0
	MOVD	RSP, R1
	MOVD	$4, R2
	MOVD	$64, R8	// write
	SVC
	ADD	$16, RSP
	MOVD	$139, R8	// rt_sigreturn
	SVC
	BRK

GLOBL	·catchHandler(SB), RODATA, $8
DATA	·catchHandler(SB)/8, $caught<>(SB)
