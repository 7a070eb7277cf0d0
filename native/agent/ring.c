/*
 * ring.c - the producer's side of the ring: what ring.h leaves, waiting and the choice of a stack.
 */
#include "ring.h"

#include <errno.h>

#include "stack.h"

enum { WAIT_MS = 20 }; /* one sleep on `space`; a wake-up that got lost costs no more than this */

/* Decides whether to go on waiting for a collector whose heartbeat has stood still since `since`. */
static bool still_hoping(int64_t now, int64_t since)
{
    struct life *life = agent.life;
    if (now - since > (int64_t)PATIENCE_MS * NS_PER_MS) {
        lose("the collector does not answer; the program goes on without recording");
        return false;
    }
    /* One thread asks for all. */
    int64_t next = __atomic_load_n(&life->next_probe, __ATOMIC_RELAXED);
    if (now - since > (int64_t)SILENCE_MS * NS_PER_MS && now >= next &&
        __atomic_compare_exchange_n(&life->next_probe, &next, now + (int64_t)SILENCE_MS * NS_PER_MS, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
        !collector_lives()) {
        lose("the collector is gone; the program goes on without recording");
        return false;
    }
    return true;
}

bool wait_for_room(size_t bytes)
{
    struct ms_ring *ring = agent.ring;
    int saved = errno;
    int64_t began = now_ns(), now = began, since = began;
    uint64_t beat = __atomic_load_n(&ring->heartbeat, __ATOMIC_RELAXED);
    bool room = false;
    for (;;) {
        __atomic_fetch_add(&ring->waiters, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the consumer sees us in `waiters`, or we see its new `head` */
        uint32_t space = __atomic_load_n(&ring->space, __ATOMIC_SEQ_CST);
        room = has_room(__atomic_load_n(&ring->tail, __ATOMIC_SEQ_CST), bytes);
        bool wait = !room && !__atomic_load_n(&ring->closed, __ATOMIC_RELAXED) && life_state() == LIFE_READY;
        if (wait)
            futex_wait(&ring->space, space, (int64_t)WAIT_MS * NS_PER_MS);
        __atomic_fetch_sub(&ring->waiters, 1, __ATOMIC_SEQ_CST);
        if (!wait)
            break;
        now = now_ns();
        uint64_t newer = __atomic_load_n(&ring->heartbeat, __ATOMIC_RELAXED);
        if (newer != beat) {
            beat = newer;
            since = now;
        } else if (!still_hoping(now, since)) {
            break;
        }
    }
    __atomic_fetch_add(&ring->wait_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&ring->wait_ns, (uint64_t)(now - began), __ATOMIC_RELAXED);
    if (!room)
        __atomic_fetch_add(&ring->skipped, 1, __ATOMIC_RELAXED);
    errno = saved;
    return room;
}

/* What becomes a row that says which code was at it. */
static bool has_stack(enum ms_type type)
{
    switch (type) {
    case MS_FREE: /* a leak check asks where memory comes from */
        return (agent.config.analysis & (MS_CHECK_DEVICE_HEAP | MS_CHECK_CANN_HEAP)) == 0;
    case MS_ALLOC:
    case MS_ACL_ALLOC:
    case MS_MARK:
    case MS_RANGE_START:
    case MS_ACL_INIT:
    case MS_ACL_FINI:
    case MS_STEP:
    case MS_KERNEL_LAUNCH:
    case MS_OOM:
    case MS_ATEN_START:
    case MS_ATEN_END:
    case MS_ATEN_ACCESS:
    case MS_ATB_START:
    case MS_ATB_END:
    case MS_ATB_ACCESS:
    case MS_ATB_KERNEL_START:
    case MS_ATB_KERNEL_END:
        return true;
    default:
        return false;
    }
}

/* The user's options say how deep; the driver's refusal has a stack in any case (contract 3.4). */
static inline __attribute__((always_inline)) uint32_t stack_for(enum ms_type type, const struct ms_regs *from,
                                                                enum ms_leave_out out)
{
    enum { OOM_DEPTH = 50 };
    unsigned c_depth = agent.config.c_stack_depth, py_depth = agent.config.py_stack_depth;
    if (type == MS_OOM) {
        c_depth = c_depth ? c_depth : OOM_DEPTH;
        py_depth = py_depth ? py_depth : OOM_DEPTH;
    }
    if ((c_depth | py_depth) == 0 || !has_stack(type))
        return 0;
    return from ? stack_from(from, out, c_depth, py_depth) : ms_stack(c_depth, py_depth);
}

/* `from`: NULL for the caller. */
static inline __attribute__((always_inline)) void *reserve_with_stack(enum ms_type type, enum ms_pool pool,
                                                                      uint16_t device, size_t bytes,
                                                                      const struct ms_regs *from, enum ms_leave_out out)
{
    if (!device_wanted(device))
        return NULL;
    /* Before the reservation: a new stack has a record of its own. */
    const uint32_t stack = self.mode == MS_NORMAL ? stack_for(type, from, out) : 0;
    struct ms_head *h = reserve(type, pool, device, bytes);
    if (h && stack)
        h->stack = stack;
    return h;
}

void *ms_reserve(enum ms_type type, enum ms_pool pool, uint16_t device, size_t bytes)
{
    return reserve_with_stack(type, pool, device, bytes, NULL, MS_OUR_FRAMES);
}

void *ms_reserve_from(enum ms_type type, enum ms_pool pool, uint16_t device, size_t bytes, const struct ms_regs *from,
                      enum ms_leave_out out)
{
    return reserve_with_stack(type, pool, device, bytes, from, out);
}

void ms_publish(struct ms_head *record)
{
    publish(record);
}

void ms_settled(int64_t stamp)
{
    __atomic_store_n(&agent.ring->settled, stamp, __ATOMIC_RELEASE);
}
