/*
 * memory.c - reads that fail instead of crashing.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

enum { PAGE = 4096 }; /* the smallest there is: a read that stays within one is there entirely or not at all */

/* Where a container forbids process_vm_readv: the kernel copies into a pipe, and says so when it cannot. */
static bool copy_by_pipe(void *to, uintptr_t at, size_t size)
{
    int fd[2];
    if (syscall(SYS_pipe2, fd, 02000000 | 04000 /* O_CLOEXEC, O_NONBLOCK */) < 0)
        return false;
    bool ok = size <= PAGE && syscall(SYS_write, fd[1], at, size) == (long)size &&
              syscall(SYS_read, fd[0], to, size) == (long)size;
    syscall(SYS_close, fd[0]);
    syscall(SYS_close, fd[1]);
    return ok;
}

bool copy_checked(void *to, uintptr_t at, size_t size)
{
    static bool forbidden;
    int saved = errno;
    struct iovec local = {to, size}, remote = {(void *)at, size};
    bool ok = false;
    if (!__atomic_load_n(&forbidden, __ATOMIC_RELAXED)) {
        long got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL); /* longs all */
        ok = got == (long)size;
        if (got < 0 && (errno == EPERM || errno == ENOSYS))
            __atomic_store_n(&forbidden, true, __ATOMIC_RELAXED);
    }
    if (!ok && __atomic_load_n(&forbidden, __ATOMIC_RELAXED))
        ok = copy_by_pipe(to, at, size);
    errno = saved;
    return ok;
}

const void *look_checked(struct memory *m, uintptr_t at, uint32_t size)
{
    if (at >= m->at && at + size <= m->at + m->length)
        return m->window + (at - m->at);
    if (m->failed || at < PAGE || at + size < at)
        goto failed;
    /* What else lies around it in the same page is likely to be asked for next: older frames lie below newer ones. */
    uintptr_t page = at & ~(uintptr_t)(PAGE - 1), end = at + size;
    if (end <= page + PAGE) {
        uintptr_t from = at - page > sizeof m->window / 2 ? at - sizeof m->window / 2 : page;
        uintptr_t to = from + sizeof m->window < page + PAGE ? from + sizeof m->window : page + PAGE;
        m->at = from;
        m->length = (uint32_t)(to - from);
    } else {
        m->at = at;
        m->length = size;
    }
    if (copy_checked(m->window, m->at, m->length))
        return m->window + (at - m->at);
failed:
    m->failed = true;
    m->length = 0;
    return NULL;
}
