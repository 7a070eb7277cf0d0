/*
 * prof.c - the profiling channel of each card: when tasks began and ended, read as the records of the real hardware.
 *
 * What will happen is known when a task is handed over (task.h), so it waits in a heap until its time has come.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../common/export.h"
#include "ascend_hal.h"
#include "clock.h"
#include "config.h"
#include "task.h"

enum { LATENCY_NS = 2000 }; /* from the submission of a task to its start on an idle card */
enum { MOST_EVENTS = 1 << 20, SQE_AICORE = 0, FUNC_BEGIN = 0, FUNC_END = 1, MAGIC = 0x6bd3 };

struct event {
    int64_t time;
    uint64_t number; /* events of the same time come in this order */
    uint16_t stream, task;
    bool end;
};

static struct channel {
    bool started;
    struct event *heap; /* the next one first */
    size_t count, room;
    uint64_t pushed;
    unsigned records;
} channels[MAX_DEVICES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

/* A channel belongs to the process that has started it. */
static void release_in_child(void)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        channels[i].started = false, channels[i].count = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release_in_child);
}

static bool before(const struct event *a, const struct event *b)
{
    return a->time < b->time || (a->time == b->time && a->number < b->number);
}

static void push(struct channel *c, struct event e)
{
    e.number = c->pushed++;
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 1024;
        struct event *heap = room <= MOST_EVENTS ? realloc(c->heap, room * sizeof *heap) : NULL;
        if (!heap)
            return; /* as the real buffer when nobody reads it */
        c->heap = heap;
        c->room = room;
    }
    size_t i = c->count++;
    for (; i > 0 && before(&e, &c->heap[(i - 1) / 2]); i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = e;
}

static struct event pop(struct channel *c)
{
    struct event first = c->heap[0], last = c->heap[--c->count];
    size_t i = 0;
    for (size_t child = 1; child < c->count; child = 2 * i + 1) {
        if (child + 1 < c->count && before(&c->heap[child + 1], &c->heap[child]))
            child++;
        if (before(&last, &c->heap[child]))
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = last;
    return first;
}

static int64_t begins(int64_t earliest)
{
    int64_t soonest = host_ns() + LATENCY_NS;
    return soonest > earliest ? soonest : earliest;
}

VNPU_API int64_t vnpu_task(uint32_t device, uint16_t stream, uint16_t task, int64_t earliest, int64_t duration)
{
    struct channel *c = &channels[device];
    if (!__atomic_load_n(&c->started, __ATOMIC_RELAXED))
        return begins(earliest) + duration;
    acquire(); /* before the clock is read: whoever reads the channel later misses nothing that is past */
    int64_t start = begins(earliest), end = start + duration;
    if (c->started) {
        push(c, (struct event){.time = start, .stream = stream, .task = task});
        push(c, (struct event){.time = end, .stream = stream, .task = task, .end = true});
    }
    release();
    return end;
}

VNPU_API int vnpu_stream_expand(void)
{
    const struct config *cfg = config();
    return cfg && cfg->stream_expand;
}

/* Ascend 950 and later: 32 bytes, no stream id. */
static bool new_records(const struct config *cfg)
{
    return strstr(cfg->soc, "950") || strstr(cfg->soc, "960");
}

static void put16(char *record, size_t at, uint16_t value)
{
    memcpy(record + at, &value, sizeof value);
}

/*
 * The hardware packs the two ids in one of several ways, for reasons of its own; here they take turns. In all of them the bits
 * that say which one it is lie in the stream's field.
 */
static void pack_ids(const struct config *cfg, const struct event *e, char *record)
{
    uint16_t stream = e->stream, task = e->task;
    if (cfg->stream_expand) {
        if (e->task % 2) {
            stream = (uint16_t)(0x8000 | (e->task & 0x7fff));
            task = (uint16_t)((e->task & 0x8000) | e->stream);
        }
    } else if (e->task % 3 == 1) {
        stream = (uint16_t)(0x1000 | (e->task & 0xe000) | e->stream);
        task = e->task & 0x1fff;
    } else if (e->task % 3 == 2) {
        stream = (uint16_t)(0x2000 | (e->task & 0x0fff));
        task = (uint16_t)((e->task & 0xf000) | e->stream);
    }
    put16(record, 4, stream);
    put16(record, 6, task);
}

static size_t put_record(const struct config *cfg, uint32_t device, struct channel *c, const struct event *e, char *out)
{
    const size_t size = new_records(cfg) ? 32 : 64;
    uint32_t head =
        (e->end ? FUNC_END : FUNC_BEGIN) | (c->records++ & 0xf) << 6 | SQE_AICORE << 10 | (uint32_t)MAGIC << 16;
    uint64_t count = card_count(cfg, device, e->time);
    memset(out, 0, size);
    memcpy(out, &head, sizeof head);
    if (size == 32) {
        uint32_t task = e->task;
        memcpy(out + 4, &task, sizeof task);
    } else {
        pack_ids(cfg, e, out);
    }
    memcpy(out + 8, &count, sizeof count);
    return size;
}

VNPU_API int prof_drv_start(unsigned int device_id, unsigned int channel_id, struct prof_start_para *start_para)
{
    const struct config *cfg = config();
    if (!cfg || device_id >= cfg->devices || channel_id != CHANNEL_STARS_SOC_LOG_BUFFER || !start_para ||
        start_para->channel_type != PROF_TS_TYPE || !start_para->user_data ||
        start_para->user_data_size != (new_records(cfg) ? 44 : 36))
        return PROF_ERROR;
    int result = PROF_OK;
    acquire();
    struct channel *c = &channels[device_id];
    if (c->started)
        result = PROF_STARTED_ALREADY;
    else
        c->count = 0;
    __atomic_store_n(&c->started, true, __ATOMIC_RELAXED);
    release();
    return result;
}

/* What is due stays to be read. */
VNPU_API int prof_stop(unsigned int device_id, unsigned int channel_id)
{
    const struct config *cfg = config();
    if (!cfg || device_id >= cfg->devices || channel_id != CHANNEL_STARS_SOC_LOG_BUFFER)
        return PROF_ERROR;
    acquire();
    int result = channels[device_id].started ? PROF_OK : PROF_STOPPED_ALREADY;
    __atomic_store_n(&channels[device_id].started, false, __ATOMIC_RELAXED);
    release();
    return result;
}

VNPU_API int prof_channel_read(unsigned int device_id, unsigned int channel_id, char *out_buf, unsigned int buf_size)
{
    const struct config *cfg = config();
    if (!cfg || device_id >= cfg->devices || channel_id != CHANNEL_STARS_SOC_LOG_BUFFER || !out_buf)
        return PROF_ERROR;
    int64_t now = host_ns();
    size_t size = new_records(cfg) ? 32 : 64, used = 0;
    acquire();
    struct channel *c = &channels[device_id];
    while (c->count && c->heap[0].time <= now && used + size <= buf_size && used + size <= INT32_MAX) {
        struct event e = pop(c);
        used += put_record(cfg, device_id, c, &e, out_buf + used);
    }
    int result = used || c->started ? (int)used : PROF_STOPPED_ALREADY;
    release();
    return result;
}
