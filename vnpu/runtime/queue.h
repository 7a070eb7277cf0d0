/*
 * queue.h - the time line of a stream. Tasks of one stream run one after the other, each for the time that its kernel takes;
 * streams run beside each other. Times are CLOCK_MONOTONIC ns.
 */
#ifndef VNPU_QUEUE_H
#define VNPU_QUEUE_H

#include <stdint.h>
#include <time.h>

enum { QUEUE_DEPTH = 1024 }; /* tasks of a stream that are not done; who submits more has to wait */

struct queue {
    uint32_t submitted;        /* the low half is the next task id */
    int64_t busy;              /* until then */
    int64_t ends[QUEUE_DEPTH]; /* of the newest tasks */
};

static inline int64_t host_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the number of a new task, when there is room for it. */
uint32_t queue_take(struct queue *queue);
/* Hands the task to the card, which runs it for `duration` ns. Returns when it ends. */
int64_t queue_run(struct queue *queue, uint32_t number, uint32_t card, int32_t stream, int64_t duration);
/* Nothing more begins before `time`. */
void queue_delay(struct queue *queue, int64_t time);
/* When everything that was submitted is done; a time that may be past. */
int64_t queue_busy(struct queue *queue);

void sleep_until(int64_t time);

#endif
