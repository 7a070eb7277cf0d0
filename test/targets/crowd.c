/*
 * crowd - many threads that have used the device once and sleep, and some that are busy.
 *
 * usage: crowd IDLE BUSY EVENTS
 *
 * Each idle thread allocates and frees one block of 4096 bytes, then sleeps until the end. Then BUSY threads allocate
 * and free EVENTS blocks of 8192 bytes each. Prints "done".
 */
#include "target.h"

#include <pthread.h>

static pthread_barrier_t ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end = PTHREAD_COND_INITIALIZER;
static int over;
static uint64_t events;

static void *idle(void *unused)
{
    (void)unused;
    device_free(device_alloc(4096));
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&mutex);
    while (!over)
        pthread_cond_wait(&end, &mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *busy(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&ready);
    for (uint64_t i = 0; i < events; i++)
        device_free(device_alloc(8192));
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t idlers = argument(argc, argv, 1, 5000), workers = argument(argc, argv, 2, 64), all = idlers + workers;
    events = argument(argc, argv, 3, 1000);
    pthread_t *ids = calloc(all, sizeof *ids);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    if (!ids || pthread_barrier_init(&ready, NULL, (unsigned)all))
        die("set-up", 0);
    for (uint64_t i = 0; i < all; i++) {
        int error = pthread_create(&ids[i], &small, i < idlers ? idle : busy, NULL);
        if (error)
            die("pthread_create", error);
    }
    for (uint64_t i = idlers; i < all; i++)
        pthread_join(ids[i], NULL);
    pthread_mutex_lock(&mutex);
    over = 1;
    pthread_cond_broadcast(&end);
    pthread_mutex_unlock(&mutex);
    for (uint64_t i = 0; i < idlers; i++)
        pthread_join(ids[i], NULL);
    free(ids);
    puts("done");
    return 0;
}
