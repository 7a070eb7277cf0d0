/*
 * python.c - what the Python module asks and reports beside the steering: options, snapshots, named ranges.
 */
#include "state.h"

#include <errno.h>
#include <string.h>

#include "msmemscope.h"
#include "symbols.h"

MS_EXPORT int ms_options(struct ms_options *options)
{
    memset(options, 0, sizeof *options);
    if (!enter())
        return -1;
    options->events = agent.config.events;
    options->level = agent.config.level;
    options->analysis = agent.config.analysis;
    options->cpu = agent.config.cpu;
    options->watching = agent.config.watch_end[0] != 0;
    options->tracing = __atomic_load_n(&agent.ring->tracing, __ATOMIC_ACQUIRE) != 0;
    ms_leave();
    return 0;
}

MS_EXPORT int ms_snapshot(int device, const struct ms_memory *memory, const char *name)
{
    if (!enter())
        return -1;
    int saved = errno;
    size_t length = text_length(name);
    struct ms_snapshot *r = ms_reserve(MS_SNAPSHOT, MS_HOST, ms_physical_device(device), sizeof *r + length);
    if (r) {
        r->h.flags = 0; /* shown also while paused */
        r->total = memory->total;
        r->free = memory->free;
        r->reserved = memory->reserved;
        r->peak_reserved = memory->peak_reserved;
        r->allocated = memory->allocated;
        r->peak_allocated = memory->peak_allocated;
        r->length = (uint32_t)length;
        memcpy(r + 1, name, length);
        ms_publish(&r->h);
    }
    errno = saved;
    ms_leave();
    return 0;
}

MS_EXPORT int ms_py_begin(const char *name)
{
    return put_named(MS_PY_BEGIN, name);
}

MS_EXPORT int ms_py_end(const char *name)
{
    return put_named(MS_PY_END, name);
}

static ms_sanitizer_fn *sanitizer;

MS_EXPORT void ms_sanitizer(ms_sanitizer_fn *handler)
{
    __atomic_store_n(&sanitizer, handler, __ATOMIC_RELEASE);
}

typedef int ensure_gil_fn(void);
typedef void release_gil_fn(int state);
typedef unsigned long thread_ident_fn(void);
typedef int raise_fn(unsigned long thread, void *exception);

/* Raises a Python exception on this thread as soon as it is back in Python: no exception passes through C code. */
static void raise_in_python(void *exception)
{
    ensure_gil_fn *ensure_gil = find_symbol("PyGILState_Ensure", NULL);
    release_gil_fn *release_gil = find_symbol("PyGILState_Release", NULL);
    thread_ident_fn *thread_ident = find_symbol("PyThread_get_thread_ident", NULL);
    raise_fn *raise = find_symbol("PyThreadState_SetAsyncExc", NULL);
    if (!ensure_gil || !release_gil || !thread_ident || !raise)
        return;
    int state = ensure_gil();
    raise(thread_ident(), exception);
    release_gil(state);
}

/* The handler is Python and may allocate: its events are the program's. */
MS_EXPORT void ms_sanitizer_mark(const char *message, void *stream)
{
    ms_sanitizer_fn *handler = __atomic_load_n(&sanitizer, __ATOMIC_ACQUIRE);
    void *exception = handler ? handler(message, stream) : NULL;
    if (exception)
        raise_in_python(exception);
}

MS_EXPORT int ms_note(int level, const char *text)
{
    if (level < MS_LOG_DEBUG || level > MS_LOG_ERROR || !text || life_state() != LIFE_READY || !enter())
        return -1;
    ms_log((enum ms_log_level)level, "%s", text);
    ms_leave();
    return 0;
}

MS_EXPORT int ms_host_alloc(uint64_t address, uint64_t bytes)
{
    if (ms_enter(MS_MEMORY) == MS_SKIP)
        return life_state() == LIFE_READY ? 0 : -1;
    int saved = errno;
    struct ms_alloc *r = ms_reserve(MS_ALLOC, MS_HOST, MS_DEVICE_CPU, sizeof *r);
    if (r) {
        r->addr = address;
        r->size = bytes;
        ms_publish(&r->h);
    }
    errno = saved;
    ms_leave();
    return 0;
}

MS_EXPORT int ms_host_free(uint64_t address)
{
    if (ms_enter(MS_MEMORY) == MS_SKIP)
        return life_state() == LIFE_READY ? 0 : -1;
    int saved = errno;
    struct ms_free *r = ms_reserve(MS_FREE, MS_HOST, MS_DEVICE_CPU, sizeof *r);
    if (r) {
        r->addr = address;
        ms_publish(&r->h);
    }
    errno = saved;
    ms_leave();
    return 0;
}
