#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <pthread.h>

#include "../hal/task.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release);
}

void sleep_until(int64_t time)
{
    struct timespec t = {time / 1000000000, time % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

uint32_t queue_take(struct queue *queue)
{
    acquire();
    for (int64_t full = queue->ends[queue->submitted % QUEUE_DEPTH]; full > host_now();
         full = queue->ends[queue->submitted % QUEUE_DEPTH]) {
        release();
        sleep_until(full);
        acquire();
    }
    uint32_t number = queue->submitted++;
    release();
    return number;
}

int64_t queue_run(struct queue *queue, uint32_t number, uint32_t card, int32_t stream, int64_t duration)
{
    acquire();
    int64_t end = vnpu_task(card, (uint16_t)stream, (uint16_t)number, queue->busy, duration);
    queue->busy = end;
    queue->ends[number % QUEUE_DEPTH] = end;
    release();
    return end;
}

void queue_delay(struct queue *queue, int64_t time)
{
    acquire();
    if (queue->busy < time)
        queue->busy = time;
    release();
}

int64_t queue_busy(struct queue *queue)
{
    acquire();
    int64_t busy = queue->busy;
    release();
    return busy;
}
