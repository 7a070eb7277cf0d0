/*
 * spawn.c - starts a collector for a program that has no launcher. design.md, "In-process mode".
 *
 * The program must not notice: no SIGCHLD, nothing for its wait() to find, none of its descriptors and signals in the
 * collector. So a short-lived child without an exit signal, which wait() does not see, starts the collector and ends, and
 * the collector is nobody's child. Both share our memory until they are gone, as vfork's child does, which costs nothing
 * however large the program is; they make system calls only.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    STACK_BYTES = 32768,
    LISTENER_FD = 3, /* where the collector looks for its socket: internal/session/control.go */
    CLEAR_FD = 64,   /* copies on their way are put from here on */
};

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

extern char **environ;

struct plan {
    const char *path;
    char **argv;
    int listener;
    unsigned char *stack; /* top of the grandchild's */
    int error;
};

static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        for (unsigned fd = first; fd < limit.rlim_cur && fd < INT_MAX; fd++)
            syscall(SYS_close, fd);
}

static int become_collector(void *arg)
{
    struct plan *plan = arg;
    static const uint64_t no_signals;
    syscall(SYS_setsid);
    int listener = (int)syscall(SYS_fcntl, plan->listener, F_DUPFD, CLEAR_FD);
    int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    int clear = null < 0 ? -1 : (int)syscall(SYS_fcntl, null, F_DUPFD, CLEAR_FD);
    bool ready = listener >= 0 && clear >= 0;
    for (int fd = 0; ready && fd < LISTENER_FD; fd++)
        ready = syscall(SYS_dup3, clear, fd, 0) >= 0;
    ready = ready && syscall(SYS_dup3, listener, LISTENER_FD, 0) >= 0;
    if (ready) {
        close_from(LISTENER_FD + 1);
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, NULL, sizeof no_signals);
        syscall(SYS_execve, plan->path, plan->argv, environ);
    }
    plan->error = errno;
    syscall(SYS_exit, 127);
    return 0;
}

static int start_and_end(void *arg)
{
    struct plan *plan = arg;
    if (clone(become_collector, plan->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, plan) < 0)
        plan->error = errno;
    syscall(SYS_exit, 0);
    return 0;
}

bool start_collector(const char *path, int listener)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    char *argv[] = {(char *)"msmemscope-collector", pid, NULL};
    unsigned char *stacks =
        mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return false;
    struct plan plan = {.path = path, .argv = argv, .listener = listener, .stack = stacks + 2 * STACK_BYTES};
    /* No handler of the program may run on those stacks. The C library would spare its own signals. */
    const uint64_t all = ~0ULL;
    uint64_t before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    int child = clone(start_and_end, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK, &plan);
    if (child < 0)
        plan.error = errno;
    else
        while (syscall(SYS_wait4, child, NULL, __WALL, NULL) < 0 && errno == EINTR)
            ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof all);
    munmap(stacks, 2 * STACK_BYTES);
    if (plan.error) {
        char line[200];
        snprintf(line, sizeof line, "no collector: %.120s: %s; nothing is recorded", path, strerror(plan.error));
        say(line);
    }
    return plan.error == 0;
}
