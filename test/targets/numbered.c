/*
 * numbered - threads that make numbered allocations and tell how far they have come.
 *
 * usage: numbered [THREADS [COUNT [FD]]]
 *
 * Thread t (from 0) allocates blocks n = 1, 2, ... of (n * THREADS + t + 1) bytes, so the size is the number. It keeps
 * the last WINDOW blocks and frees the others in order. After every TELL allocations it writes the pair (t, n), two
 * 32-bit integers, to FD: the calls for everything up to n have returned. COUNT 0 is for ever; otherwise everything is
 * freed in the end and "done" is printed.
 */
#include "target.h"

#include <pthread.h>
#include <unistd.h>

enum { WINDOW = 64, TELL = 4 };

static uint64_t threads, count;
static int fd;

static void tell(uint32_t thread, uint32_t n)
{
    const uint32_t pair[2] = {thread, n};
    if (fd >= 0 && write(fd, pair, sizeof pair) != sizeof pair)
        die("write", 0);
}

static void *work(void *argument)
{
    uint64_t t = (uint64_t)(uintptr_t)argument, n = 0;
    void *blocks[WINDOW] = {0};
    while (count == 0 || n < count) {
        n++;
        void **slot = &blocks[n % WINDOW];
        if (*slot)
            device_free(*slot);
        *slot = device_alloc(n * threads + t + 1);
        if (n % TELL == 0)
            tell((uint32_t)t, (uint32_t)n);
    }
    for (int i = 1; i <= WINDOW; i++)
        if (blocks[(n + (uint64_t)i) % WINDOW])
            device_free(blocks[(n + (uint64_t)i) % WINDOW]);
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 4);
    count = argument(argc, argv, 2, 0);
    fd = (int)argument(argc, argv, 3, (uint64_t)-1);
    if (threads < 1 || threads > 1024)
        die("THREADS from 1 to 1024", (long)threads);
    pthread_t ids[1024];
    for (uint64_t t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t))
            die("pthread_create", (long)t);
    for (uint64_t t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    puts("done");
    return 0;
}
