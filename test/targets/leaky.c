/*
 * leaky - steps with a caching pool, one forgotten block in each, and a choice of ends.
 *
 * usage: leaky STEPS END      END: exit, _exit, kill, abort, segv, thread
 *
 * Every step allocates two blocks of 64 KiB from the pool of card 0, frees one and forgets the other; the last step forgets
 * nothing, so STEPS - 1 blocks are leaked, and those of steps 2 to STEPS - 1 are provable. END "thread": another thread
 * calls exit while the first one goes on allocating.
 */
#include "target.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../../examples/caching_pool.h"
#include "acl/acl.h"
#include "mstx/ms_tools_ext.h"

static struct pool *pool;

static void *block(void)
{
    int error;
    void *b = pool_alloc(pool, 64 << 10, &error);
    if (!b)
        die("pool_alloc", error);
    return b;
}

static void *leave(void *unused)
{
    (void)unused;
    exit(5);
}

int main(int argc, char **argv)
{
    uint64_t steps = argument(argc, argv, 1, 5);
    const char *end = argc > 2 ? argv[2] : "exit";
    if (aclInit(NULL) || aclrtSetDevice(0) || !(pool = pool_new(0)))
        die("set-up", 0);
    for (uint64_t s = 1; s <= steps; s++) {
        mstxRangeId range = mstxRangeStartA("step start", NULL);
        void *temporary = block();
        if (s < steps)
            (void)block();
        pool_free(pool, temporary);
        mstxRangeEnd(range);
    }
    puts("steps done");
    fflush(stdout);
    if (!strcmp(end, "_exit"))
        _exit(3);
    if (!strcmp(end, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(end, "abort"))
        abort();
    if (!strcmp(end, "segv"))
        raise(SIGSEGV);
    if (!strcmp(end, "thread")) {
        pthread_t other;
        pthread_create(&other, NULL, leave, NULL);
        for (;;)
            device_free(device_alloc(4096));
    }
    return 0;
}
