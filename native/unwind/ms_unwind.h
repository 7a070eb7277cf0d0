/*
 * ms_unwind.h - walking the calling thread's own stack by .eh_frame, for hooks. No frame pointers needed.
 *
 *     struct ms_regs here;
 *     MS_CALLER(here);                       // in the exported hook itself
 *     n = ms_unwind(&here, frames, 20, &cut);
 *
 * Async-signal-safe; allocates nothing, takes no lock of ours, changes no errno, calls nothing that a preloaded library
 * may have wrapped. A walk over known code is loads from a cache of rules, 4 to 6 ns per frame; new code is interpreted once.
 * Needs 24 bytes of initial-exec TLS.
 */
#ifndef MSMEMSCOPE_UNWIND_H
#define MSMEMSCOPE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A frame: return address | library number << 48. Number 0: in no library (generated code). A return address points
 * behind the call, so look up the byte before it. A number is never given to another library, also when one comes to
 * lie at the same place: equal frames are the same code. Libraries behind the first MS_MODULES get 0, too.
 */
typedef uint64_t ms_frame;

enum { MS_FRAME_SHIFT = 48 };

#define MS_FRAME_PC(frame) ((uintptr_t)((frame) & ((1ULL << MS_FRAME_SHIFT) - 1)))
#define MS_FRAME_MODULE(frame) ((unsigned)((frame) >> MS_FRAME_SHIFT))

struct ms_regs {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t first; /* frames before this return address are not wanted */
};

/* The registers of the caller of the function that this is used in; on aarch64 of that function itself. */
#if defined(__x86_64__)
#define MS_CALLER(regs)                                       \
    do {                                                      \
        const uintptr_t *frame_ = __builtin_frame_address(0); \
        (regs).pc = (regs).first = frame_[1];                 \
        (regs).sp = (uintptr_t)(frame_ + 2);                  \
        (regs).fp = frame_[0];                                \
    } while (0)
#elif defined(__aarch64__)
#define MS_CALLER(regs)                                                                         \
    do {                                                                                        \
        __asm__ volatile("adr %0, .\n\tmov %1, sp" : "=r"((regs).pc), "=r"((regs).sp));         \
        (regs).pc += 1; /* looked up as the byte before */                                      \
        (regs).fp = (uintptr_t)__builtin_frame_address(0);                                      \
        (regs).first = (uintptr_t)__builtin_return_address(0) & ((1ULL << MS_FRAME_SHIFT) - 1); \
    } while (0)
#endif

/*
 * Writes up to `max` frames, innermost first, and returns how many. `*cut`: the walk ended before the thread's first
 * function, and not because of `max`: code without rules, or a stack that is none.
 */
unsigned ms_unwind(const struct ms_regs *from, ms_frame *frames, unsigned max, bool *cut);

/*
 * The same for a thread that walks often: of two stacks in a row most frames are the same, and only the others are walked,
 * see trail.c. Starts as zeros; for one thread at a time. The frames, at most MS_TRAIL_MOST, are from frames[top] on until the
 * next walk.
 */
enum { MS_TRAIL_MOST = 64, MS_TRAIL_ROOM = 96 };

struct ms_trail {
    uint32_t generation; /* of the rules; 0: no walk yet */
    uint32_t top;        /* the innermost entry */
    uint32_t ending;     /* what is behind the outermost one */
    uint32_t power_of;   /* for ms_trail_hash: of which number `power` is */
    uint64_t power;
    ms_frame frames[MS_TRAIL_ROOM];
    uint64_t rules[MS_TRAIL_ROOM];
    uintptr_t sps[MS_TRAIL_ROOM + 1];
    uintptr_t slots[MS_TRAIL_ROOM + 1]; /* where the frame's address was read; 0: it has to be read again */
    uintptr_t fp_slots[MS_TRAIL_ROOM];  /* where this step read a frame pointer that counts; 0: it did not */
    uintptr_t fps[MS_TRAIL_ROOM + 1];   /* frame pointer that the steps from here on need; 0: any will do */
    uint64_t hashes[MS_TRAIL_ROOM + 1]; /* of this frame and all behind it */
};

unsigned ms_unwind_along(struct ms_trail *trail, const struct ms_regs *from, unsigned max, bool *cut);

/* Hash of the first frames of the last walk: that of ms_frames_hash, for less. Its low bits are no better than those of frames. */
uint64_t ms_trail_hash(struct ms_trail *trail, unsigned count);

#define MS_HASH_FACTOR 0x9e3779b97f4a7c15ULL

static inline uint64_t ms_frames_hash(const ms_frame *frames, unsigned count)
{
    uint64_t hash = 0;
    while (count-- > 0)
        hash = hash * MS_HASH_FACTOR + frames[count];
    return hash;
}

/* A library, or the program itself, that a frame's number means. */
struct ms_module {
    uintptr_t start; /* of its memory, and behind it */
    uintptr_t end;
    uintptr_t bias; /* address in memory minus address in the file's program headers */
    const char
        *path; /* the loader's own string: valid as long as the library is loaded; empty for the program itself */
    const void *rules; /* .eh_frame_hdr; NULL: none */
    uint64_t name_hash;
    uint32_t ready; /* everything above is there */
    uint32_t gone;  /* unloaded */
};

enum { MS_MODULES = 4096 };

/* NULL for number 0, and for a library that another thread is just entering. */
const struct ms_module *ms_module(unsigned number);

/* The number of the library that an address is in; 0: none. */
unsigned ms_module_at(uintptr_t address);

/* To be called after every dlclose, outside of any hook: forgets what was known of unloaded libraries. Takes the loader's lock. */
void ms_unwind_forget(void);

#endif
