/*
 * start.c - msmemscope.start: what the front script turns into, to turn into msmemscope.run or msmemscope.bin.
 *
 *   msmemscope.start COUNT VARIABLE... PROGRAM [WORD...]
 *   msmemscope.start - PROGRAM [WORD...]
 *
 * Runs PROGRAM with COUNT variables as its environment, to the byte and in order, or with the environment as it is. No
 * shell could: those rewrite what they hand on, and env(1) takes a path with '=' in it for a variable.
 *
 * Added is MSMEMSCOPE_SIGIGN: the ignored signals, as SigIgn in /proc/PID/status. What runs under msmemscope must inherit
 * them, but a program in Go cannot tell them any more, and a shell ignores some on its own until it becomes another program.
 *
 * There is no C library in it: every run of msmemscope waits for it, and so it starts in 0.1 ms, where env(1) takes 0.8.
 */
#include <stddef.h>

#if defined(__x86_64__)
enum { SYS_WRITE = 1, SYS_RT_SIGACTION = 13, SYS_EXECVE = 59, SYS_EXIT_GROUP = 231, SYS_PRLIMIT64 = 302 };

__asm__(".globl _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call start\n");

static long call_kernel(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { SYS_WRITE = 64, SYS_RT_SIGACTION = 134, SYS_EXECVE = 221, SYS_EXIT_GROUP = 94, SYS_PRLIMIT64 = 261 };

__asm__(".globl _start\n"
        "_start:\n"
        "    mov x29, xzr\n"
        "    mov x30, xzr\n"
        "    mov x0, sp\n"
        "    bl start\n");

static long call_kernel(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "start.c: x86_64 and aarch64 only"
#endif

enum { SIGNALS = 64, IGNORED = 1 /* SIG_IGN */, FAILED = 126 };

static const char name[] = "MSMEMSCOPE_SIGIGN=";

static _Noreturn void leave(const char *const *text)
{
    for (; *text; text++) {
        long length = 0;
        while ((*text)[length])
            length++;
        call_kernel(SYS_WRITE, 2, (long)*text, length, 0);
    }
    for (;;)
        call_kernel(SYS_EXIT_GROUP, FAILED, 0, 0, 0);
}

static unsigned long ignored_signals(void)
{
    unsigned long mask = 0;
    for (long s = 1; s <= SIGNALS; s++) {
        unsigned long action[4] = {0}; /* the kernel's struct sigaction; the handler comes first */
        call_kernel(SYS_RT_SIGACTION, s, 0, (long)action, SIGNALS / 8);
        if (action[0] == IGNORED)
            mask |= 1UL << (s - 1);
    }
    return mask;
}

static int is_ours(const char *variable)
{
    size_t i = 0;
    while (name[i] && variable[i] == name[i])
        i++;
    return !name[i];
}

/* A program in Go reserves address space for its memory when it starts: 700 MiB are not enough, and it ends in pages of its own state. */
static void check_address_space(void)
{
    enum { RLIMIT_AS = 9 };
    const unsigned long least = 768UL << 20;
    unsigned long limit[2]; /* soft, hard; bytes */
    if (!call_kernel(SYS_PRLIMIT64, 0, RLIMIT_AS, 0, (long)limit) && limit[0] < least)
        leave((const char *const[]){
            "[msmemscope] ERROR: the address space is limited; msmemscope needs `ulimit -v 786432` or more.\n", NULL});
}

/* stack: as the kernel hands it to a program, argc, argv, NULL, envp, NULL. */
__attribute__((used)) _Noreturn static void start(long *stack)
{
    long argc = stack[0], count = 0;
    char **argv = (char **)stack + 1, **program, **given;
    if (argc > 2 && argv[1][0] == '-') {
        program = argv + 2;
        given = argv + argc + 1;
        while (given[count])
            count++;
    } else {
        for (const char *digit = argc > 1 ? argv[1] : ""; *digit >= '0' && *digit <= '9' && count < argc; digit++)
            count = 10 * count + *digit - '0';
        if (count + 3 > argc)
            leave((const char *const[]){"usage: msmemscope.start COUNT VARIABLE... PROGRAM [WORD...]\n", NULL});
        given = argv + 2;
        program = given + count;
    }

    check_address_space();
    char *environment[count + 2], ours[sizeof name + SIGNALS / 4], *end = ours;
    long n = 0;
    for (long i = 0; i < count; i++)
        if (!is_ours(given[i]))
            environment[n++] = given[i];
    unsigned long mask = ignored_signals();
    for (const char *c = name; *c; c++)
        *end++ = *c;
    for (int shift = SIGNALS - 4; shift >= 0; shift -= 4)
        *end++ = "0123456789abcdef"[mask >> shift & 15];
    *end = 0;
    environment[n++] = ours;
    environment[n] = NULL;
    call_kernel(SYS_EXECVE, (long)program[0], (long)program, (long)environment, 0);
    leave((const char *const[]){"[msmemscope] ERROR: cannot run ", program[0], ".\n", NULL});
}
