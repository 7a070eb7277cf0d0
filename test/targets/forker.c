/*
 * forker - forks while its other threads are in the midst of their calls.
 *
 * usage: forker CHILDREN BLOCKS
 *
 * Three threads allocate and free blocks of 4096 bytes all the time. Meanwhile the first one forks CHILDREN times; each
 * child allocates and frees BLOCKS blocks of 8192 bytes, every third in a child of its own, and
 * leaves by _exit. Prints the number of blocks that the three threads have allocated, and "done".
 */
#include "target.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int over;
static uint64_t total;

static void *work(void *unused)
{
    (void)unused;
    uint64_t n = 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        device_free(device_alloc(4096));
        if (++n > 10000)
            usleep(1000); /* a slow machine shall not have millions of rows */
    }
    __atomic_fetch_add(&total, n, __ATOMIC_RELAXED);
    return NULL;
}

static void child(uint64_t blocks, int again)
{
    if (again) {
        pid_t pid = fork();
        if (pid != 0) {
            int status;
            _exit(pid > 0 && waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 98);
        }
    }
    for (uint64_t i = 0; i < blocks; i++)
        device_free(device_alloc(8192));
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t children = argument(argc, argv, 1, 30), blocks = argument(argc, argv, 2, 10);
    pthread_t ids[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, work, NULL);
    for (uint64_t i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child(blocks, i % 3 == 2);
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            die("child", status);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    printf("%llu\ndone\n", (unsigned long long)total);
    return 0;
}
