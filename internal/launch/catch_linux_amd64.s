#include "textflag.h"

// The kernel calls it with the number of the signal in DI, on the signal stack of the thread, whatever that is doing. It
// calls nothing of Go, and ends by rt_sigreturn itself; the kernel expects the stack as if the handler had returned.
TEXT caught<>(SB),NOSPLIT|NOFRAME,$0
	MOVL	DI, (SP)	// the address to return to, which is not needed
	MOVL	·catchPipe(SB), DI
	MOVQ	SP, SI
	MOVL	$4, DX
	MOVL	$1, AX	// write
	SYSCALL
	ADDQ	$8, SP
	MOVL	$15, AX	// rt_sigreturn
	SYSCALL
	INT	$3

GLOBL	·catchHandler(SB), RODATA, $8
DATA	·catchHandler(SB)/8, $caught<>(SB)
