#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[PATH_MAX];
static struct share *mine; /* NULL: nobody is told */

static struct share *make(const char *dir)
{
    snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return NULL;
    void *map = ftruncate(file, sizeof(struct share)) == 0
                    ? mmap(NULL, sizeof(struct share), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                    : MAP_FAILED;
    close(file);
    return map == MAP_FAILED ? NULL : map;
}

/* A forked child holds what its parent held when it was made. */
static void in_child(void)
{
    struct share *old = mine;
    mine = old ? make(getenv("VNPU_STATE_DIR")) : NULL;
    if (mine)
        memcpy(mine, old, sizeof *mine);
    if (old)
        munmap(old, sizeof *old);
}

static void leave(void)
{
    if (mine)
        unlink(path);
}

bool share_open(uint32_t cards, uint64_t bytes)
{
    const char *dir = getenv("VNPU_STATE_DIR");
    if (!dir)
        return true;
    mine = make(dir);
    if (!mine)
        return false;
    mine->total = bytes;
    mine->cards = cards;
    pthread_atfork(NULL, NULL, in_child);
    atexit(leave);
    return true;
}

void share_add(uint32_t card, uint64_t bytes)
{
    if (mine)
        __atomic_add_fetch(&mine->used[card], bytes, __ATOMIC_RELAXED);
}
