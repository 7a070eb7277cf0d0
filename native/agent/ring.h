/*
 * ring.h - the producer's side of the ring: reserve, publish. design.md, section 3; layout in wire.h.
 */
#ifndef MSMEMSCOPE_AGENT_RING_H
#define MSMEMSCOPE_AGENT_RING_H

#include "state.h"

/*
 * TSan does not see what the collector, another process, does between two laps: it takes what was published, and gives its place back by
 * `head`. These tell.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

/* Waits until `bytes` fit. False: they never will, the connection is lost. */
bool wait_for_room(size_t bytes);

/*
 * `head` only grows, so an older one is as safe; the ring's own lies on a cache line that the consumer writes.
 * Acquire: the consumer's zeros are in place.
 */
static inline bool has_room(uint64_t tail, size_t bytes)
{
    /* Signed: `tail` may be older than `head`. */
    if (__builtin_expect((int64_t)(tail + bytes - self.head) <= (int64_t)agent.size, 1))
        return true;
    self.head = __atomic_load_n(&agent.ring->head, __ATOMIC_ACQUIRE);
    __tsan_acquire(agent.ring);
    return (int64_t)(tail + bytes - self.head) <= (int64_t)agent.size;
}

/* ms_reserve for every device, without a stack. */
static inline void *reserve(enum ms_type type, enum ms_pool pool, uint16_t device, size_t bytes)
{
    struct ms_ring *ring = agent.ring;
    bytes = (bytes + MS_RECORD_ALIGN - 1) & ~(size_t)(MS_RECORD_ALIGN - 1);
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
    for (;;) {
        if (__builtin_expect(!has_room(tail, bytes), 0)) {
            if (!wait_for_room(bytes))
                return NULL;
            tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
        } else if (__atomic_compare_exchange_n(&ring->tail, &tail, tail + bytes, true, __ATOMIC_ACQ_REL,
                                               __ATOMIC_RELAXED)) {
            break;
        }
    }

    struct ms_head *h = (struct ms_head *)(agent.data + (tail & (agent.size - 1)));
    h->pos = tail;
    __atomic_store_n(&h->mark,
                     (uint64_t)MS_STATE_BUSY << MS_MARK_STATE_SHIFT |
                         (uint64_t)(bytes / MS_RECORD_ALIGN) << MS_MARK_WORDS_SHIFT |
                         (uint64_t)type << MS_MARK_TYPE_SHIFT | self.tid,
                     __ATOMIC_RELEASE);
#ifndef __x86_64__
    /* The safe time needs the reservation to be visible before the clock is read; on x86 the locked CAS sees to that. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    h->stamp = now_ns();
    h->device = device;
    h->pool = (uint8_t)pool;
    /*
     * Shadow unless tracing both before the reservation (the event's mode) and after the clock was read: START_TRACE is
     * published before `tracing` is set and STOP_TRACE after it is cleared, so in ring order and by their stamps normal
     * records lie between the two exactly.
     */
    bool normal = self.mode == MS_NORMAL && __atomic_load_n(&ring->tracing, __ATOMIC_ACQUIRE);
    h->flags = normal ? 0 : MS_F_SHADOW;
    return h;
}

static inline void publish(struct ms_head *record)
{
    const uint64_t ready = (uint64_t)(MS_STATE_BUSY ^ MS_STATE_READY) << MS_MARK_STATE_SHIFT;
    const uint64_t mark = __atomic_load_n(&record->mark, __ATOMIC_RELAXED) ^ ready;
    __tsan_release(agent.ring);
    __atomic_store_n(&record->mark, mark, __ATOMIC_RELEASE);
}

#endif
