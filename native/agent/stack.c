/*
 * stack.c - call stacks: taken at an event, known by an id, defined once. wire.h has the records.
 *
 * An id is a place in a table of hashes. Who puts a hash there defines the id in the ring; who finds it before that is done
 * defines it, too: an id is never used before it is defined, and nobody waits. What the frames are stays nowhere in the
 * target: 8 bytes per stack, in memory of our own, up to the size of the table; after that events have no stack.
 */
#include "stack.h"
#include "ring.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "loaded.h"
#include "ms_unwind.h"
#include "pyframes.h"
#include "symbols.h"

enum {
    STACK_BITS = 20,
    CODE_BITS = 17,
    PROBES = 64,     /* places that a hash may be in; where all are taken the table counts as full */
    OWN_FEW = 4,     /* between an event and the program's frames, mostly */
    OWN_FRAMES = 16, /* ... and at most */
    DEFINED = 1,     /* lowest bit of a place; the rest is the hash, 0: free */
    TRAILS = 64,     /* what threads have walked last; those that share one find less of it */
};

/* All tables in one piece of memory, which the kernel fills as it is used. */
struct tables {
    uint64_t stacks[1 << STACK_BITS];
    uint64_t codes[1 << CODE_BITS];
    struct trail {
        uint32_t busy; /* a thread is at it, or was interrupted there by a signal, or by a fork in another thread */
        struct ms_trail walks;
    } trails[TRAILS];
};

static struct tables *tables;
static bool full_told, problem_told;

static struct tables *tables_for_use(void)
{
    struct tables *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
    if (t)
        return t;
    struct tables *mine =
        mmap(NULL, sizeof *mine, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mine == MAP_FAILED)
        return NULL;
    madvise(mine, sizeof *mine, MADV_DONTDUMP);
    if (__atomic_compare_exchange_n(&tables, &t, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mine;
    munmap(mine, sizeof *mine);
    return t;
}

bool stacks_used(void)
{
    return __atomic_load_n(&tables, __ATOMIC_RELAXED) != NULL;
}

void forget_stacks(void)
{
    if (tables) /* trails stay: a thread that lost its last client may be at one */
        madvise(tables, offsetof(struct tables, trails), MADV_DONTNEED);
    forget_loaded();
    full_told = problem_told = false;
}

/* The place of a hash, counted from 1; 0: no room. `*defined`: somebody has defined it. */
static uint32_t intern(uint64_t *table, unsigned bits, uint64_t hash, bool *defined)
{
    const uint64_t mask = (1ULL << bits) - 1;
    hash = (hash | 1ULL << 63) & ~(uint64_t)DEFINED;
    for (uint64_t i = hash >> 20, last = i + PROBES; i < last; i++) {
        uint64_t *place = &table[i & mask];
        uint64_t found = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (found == 0 && __atomic_compare_exchange_n(place, &found, hash, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            found = hash;
        if ((found & ~(uint64_t)DEFINED) == hash) {
            *defined = found & DEFINED;
            return (uint32_t)(i & mask) + 1;
        }
    }
    return 0;
}

static void set_defined(uint64_t *table, uint32_t id)
{
    __atomic_fetch_or(&table[id - 1], (uint64_t)DEFINED, __ATOMIC_RELEASE);
}

typedef uint64_t __attribute__((may_alias)) word;

/* Four chains, so that one multiplication need not wait for the one before. */
static uint64_t hash_words(uint64_t seed, const void *data, size_t words)
{
    const uint64_t spread = 0x9e3779b97f4a7c15;
    const word *w = data;
    uint64_t h[4] = {seed, seed ^ spread, words, ~seed};
    size_t i = 0;
    for (; i + 4 <= words; i += 4)
        for (int k = 0; k < 4; k++)
            h[k] = ((h[k] << 27 | h[k] >> 37) ^ w[i + (size_t)k]) * spread;
    for (; i < words; i++)
        h[i & 3] = ((h[i & 3] << 27 | h[i & 3] >> 37) ^ w[i]) * spread;
    uint64_t all = h[0];
    for (int k = 1; k < 4; k++)
        all = (all ^ all >> 29 ^ h[k]) * 0xbf58476d1ce4e5b9;
    return all ^ all >> 32;
}

static bool put_code(uint32_t number, const struct ms_py_text *text)
{
    size_t file = strlen(text->file), function = strlen(text->function);
    struct ms_code *r = reserve(MS_CODE, MS_HOST, MS_DEVICE_NONE, sizeof *r + file + function);
    if (!r)
        return false;
    r->number = number;
    r->file_length = (uint16_t)file;
    r->function_length = (uint16_t)function;
    memcpy(r + 1, text->file, file);
    memcpy((char *)(r + 1) + file, text->function, function);
    ms_publish(&r->h);
    return true;
}

struct line {
    uint32_t code;
    uint32_t line;
};

/* The number of a frame's function, and its line; both 0 when it cannot be read. False: the collector is gone. */
static bool name_frame(struct tables *t, const struct ms_py_frame *frame, struct line *out)
{
    struct ms_py_text text;
    bool defined = false;
    *out = (struct line){0, 0};
    if (!ms_py_describe(frame, &text))
        return true;
    const uint64_t key[2] = {(uint64_t)frame->code, frame->identity};
    uint32_t number = intern(t->codes, CODE_BITS, hash_words(1, key, 2), &defined);
    if (number == 0)
        return true;
    if (!defined) {
        if (!put_code(number, &text))
            return false;
        set_defined(t->codes, number);
    }
    *out = (struct line){number, text.line};
    return true;
}

static bool define(struct tables *t, uint32_t id, const ms_frame *frames, unsigned c_count,
                   const struct ms_py_frame *python, unsigned py_count, uint16_t without)
{
    struct line lines[py_count + 1];
    for (unsigned i = 0; i < c_count; i++)
        if (!define_loaded(MS_FRAME_MODULE(frames[i])))
            return false;
    for (unsigned i = 0; i < py_count; i++)
        if (!name_frame(t, &python[i], &lines[i]))
            return false;
    struct ms_stack *r =
        reserve(MS_STACK, MS_HOST, MS_DEVICE_NONE, sizeof *r + c_count * sizeof frames[0] + py_count * sizeof lines[0]);
    if (!r)
        return false;
    r->h.stack = id;
    r->c_frames = (uint16_t)c_count;
    r->py_frames = without ? without : (uint16_t)py_count;
    memcpy(r + 1, frames, c_count * sizeof frames[0]);
    memcpy((char *)(r + 1) + c_count * sizeof frames[0], lines, py_count * sizeof lines[0]);
    ms_publish(&r->h);
    set_defined(t->stacks, id);
    return true;
}

static void *find_in_python(const char *name)
{
    void *function = find_symbol(name, NULL);
    return function ? function : find_data(name);
}

/* A program may load an interpreter at any time. True: one has been found by this call. */
static bool find_python(void)
{
    static bool found;
    static unsigned long long loads_seen;
    if (__atomic_load_n(&found, __ATOMIC_RELAXED))
        return false;
    unsigned long long loads = library_loads();
    if (loads == __atomic_load_n(&loads_seen, __ATOMIC_RELAXED))
        return false;
    bool now = ms_py_attach(find_in_python);
    __atomic_store_n(&found, now, __ATOMIC_RELAXED);
    __atomic_store_n(&loads_seen, loads, __ATOMIC_RELAXED);
    return now;
}

/* Said once, and only to those who asked for Python and have one. */
static void tell_problem(void)
{
    const char *problem = ms_py_problem();
    if (problem && !__atomic_exchange_n(&problem_told, true, __ATOMIC_RELAXED))
        ms_log(MS_LOG_WARN, "Python stacks are NA: there is an interpreter, but %s", problem);
}

/* How many frames in front are of our libraries; the first one is the agent's. */
static unsigned own_frames(const ms_frame *frames, unsigned count)
{
    unsigned own = 0;
    while (own < count && is_own(MS_FRAME_MODULE(frames[own]), MS_FRAME_MODULE(frames[0])))
        own++;
    return own;
}

/* How many frames in front are of the library that the first one is in. */
static unsigned same_library(const ms_frame *frames, unsigned count)
{
    unsigned same = 0;
    while (same < count && MS_FRAME_MODULE(frames[same]) == MS_FRAME_MODULE(frames[0]))
        same++;
    return same;
}

static unsigned in_front(const ms_frame *frames, unsigned count, enum ms_leave_out out)
{
    return out == MS_OUR_FRAMES ? own_frames(frames, count) : out == MS_ITS_FRAMES ? same_library(frames, count) : 0;
}

/*
 * The frames from `here` on, in `room` or where this answers. `*trail`: what they are in until give_back, or NULL. Nobody waits
 * for a trail.
 */
static const ms_frame *walk(struct tables *t, const struct ms_regs *here, unsigned max, ms_frame *room, unsigned *count,
                            struct trail **trail)
{
    bool cut;
    struct trail *mine = &t->trails[self.tid % TRAILS];
    *trail = NULL;
    if (max > MS_TRAIL_MOST || __atomic_exchange_n(&mine->busy, 1, __ATOMIC_ACQUIRE)) {
        *count = ms_unwind(here, room, max, &cut);
        return room;
    }
    *trail = mine;
    *count = ms_unwind_along(&mine->walks, here, max, &cut);
    return mine->walks.frames + mine->walks.top;
}

static void give_back(struct trail *trail)
{
    if (trail)
        __atomic_store_n(&trail->busy, 0, __ATOMIC_RELEASE);
}

uint32_t stack_from(const struct ms_regs *here, enum ms_leave_out out, unsigned c_depth, unsigned py_depth)
{
    c_depth = c_depth < MS_STACK_MOST ? c_depth : MS_STACK_MOST;
    py_depth = py_depth < MS_STACK_MOST ? py_depth : MS_STACK_MOST;
    int saved = errno;
    struct tables *t = tables_for_use();
    ms_frame room[c_depth + OWN_FRAMES];
    const ms_frame *frames = room;
    struct trail *trail = NULL;
    struct ms_py_frame python[py_depth + 1];
    unsigned c_count = 0, py_count = 0;
    uint32_t id = 0;
    if (!t)
        goto out;
    if (c_depth > 0) {
        frames = walk(t, here, c_depth + OWN_FEW, room, &c_count, &trail);
        unsigned front = in_front(frames, c_count, out);
        if (front > OWN_FEW) {
            give_back(trail);
            frames = walk(t, here, c_depth + OWN_FRAMES, room, &c_count, &trail);
            front = in_front(frames, c_count, out);
        }
        frames += front;
        c_count -= front;
        if (c_count > c_depth)
            c_count = c_depth;
    }
    /* Code that an interpreter runs has the interpreter's C frames around it, so its first stack is new: to ask for an
     * interpreter then is enough, and spares the loader's lock (100 ns) at every event. Without C frames nobody can tell. */
    if (py_depth > 0 && c_count == 0)
        find_python();
    uint16_t without;
    bool defined = false;
    do {
        py_count = py_depth > 0 ? (unsigned)ms_py_walk(python, (int)py_depth) : 0;
        without = py_depth == 0 ? MS_NOT_PYTHON : py_count == 0 ? MS_NO_PYTHON : 0;
        uint64_t hash = without;
        if (c_count > 0)
            hash = hash_words(hash, frames, c_count);
        if (py_count > 0)
            hash = hash_words(hash, python, py_count * (sizeof python[0] / sizeof(uint64_t)));
        id = intern(t->stacks, STACK_BITS, hash, &defined);
    } while (id != 0 && !defined && without == MS_NO_PYTHON && find_python());
    if (id == 0 && !__atomic_exchange_n(&full_told, true, __ATOMIC_RELAXED))
        ms_log(MS_LOG_WARN, "the table of call stacks is full: %d different ones; new ones are not recorded",
               1 << STACK_BITS);
    if (id != 0 && !defined) {
        if (without == MS_NO_PYTHON)
            tell_problem();
        if (!define(t, id, frames, c_count, python, py_count, without))
            id = 0;
    }
    give_back(trail);
out:
    errno = saved;
    return id;
}

__attribute__((noinline)) uint32_t ms_stack(unsigned c_depth, unsigned py_depth)
{
    struct ms_regs here;
    MS_CALLER(here);
    return stack_from(&here, MS_OUR_FRAMES, c_depth, py_depth);
}
