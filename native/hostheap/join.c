/*
 * join.c - meeting the collector: the tables come with its welcome (wire.h, "session socket"). Threads, forks, exits.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "pyframes.h"
#include "state.h"
#include "symbols.h"
#include "wire.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

enum { HANDSHAKE_SECONDS = 10, ANSWER_SECONDS = 150, KEY_ROUNDS = 3 };

static struct life none;
struct life *life = &none;
struct tables tables;
__thread struct thread self;
static uint32_t joins; /* counts handshakes; a slot of an older one is stale */

void futex_wait(uint32_t *word, uint32_t value, int64_t ns)
{
    int saved = errno;
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
    errno = saved;
}

void futex_wake(uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/* ---- threads */

/*
 * A thread's slot is given back when the thread ends, as late as it can be: destructors of other keys free memory, too.
 * Before glibc 2.34 these are in libpthread, which we must not need; a process that has no threads does without.
 */
static int (*set_specific)(pthread_key_t key, const void *value); /* NULL: no key */
static pthread_key_t key;

static void end_of_thread(void *round)
{
    struct ms_heap_slot *slot = self.slot;
    if ((uintptr_t)round < KEY_ROUNDS && set_specific(key, (char *)round + 1) == 0)
        return;
    self.ending = true;
    if (!slot || self.shared || !__atomic_load_n(&life->window, __ATOMIC_ACQUIRE))
        return;
    self.depth++; /* a signal handler must not find a slot that is somebody else's */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.slot = tables.slots;
    self.shared = true;
    self.trail = NULL;
    self.spare_stack = 0;
    __atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self.depth--;
}

/* It stays with the slot. That of another thread is of no use, and may be half written. */
static struct ms_trail *trail_of(struct ms_heap_slot *slot)
{
    if (!slot->trail)
        slot->trail = arena_alloc(sizeof(struct ms_trail));
    struct ms_trail *trail = slot->trail ? at_unit(slot->trail) : NULL;
    if (trail)
        trail->generation = 0;
    return trail;
}

static __attribute__((noinline)) void claim_slot(void)
{
    static uint32_t hint = 1;
    int saved = errno;
    uint32_t tid = (uint32_t)syscall(SYS_gettid), count = tables.slot_count;
    self.spare_stack = 0;
    self.joined = __atomic_load_n(&joins, __ATOMIC_RELAXED);
    self.slot = tables.slots;
    self.shared = true;
    self.trail = NULL;
    uint32_t from = __atomic_load_n(&hint, __ATOMIC_RELAXED);
    for (uint32_t i = 1; !self.ending && i < count; i++) {
        uint32_t number = 1 + (from - 1 + i) % (count - 1), nobody = 0;
        struct ms_heap_slot *slot = &tables.slots[number];
        if (__atomic_load_n(&slot->owner, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&slot->owner, &nobody, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        uint32_t high = __atomic_load_n(&tables.heap->slot_high, __ATOMIC_RELAXED);
        while (high <= number && !__atomic_compare_exchange_n(&tables.heap->slot_high, &high, number + 1, false,
                                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        self.slot = slot;
        self.shared = false;
        self.trail = trail_of(slot);
        if (set_specific)
            set_specific(key, (void *)1);
        break;
    }
    errno = saved;
}

bool enter(void)
{
    if (UNLIKELY(self.depth)) {
        if (self.slot && self.joined == joins)
            add(&self.slot->nested, 1);
        return false;
    }
    self.depth = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (UNLIKELY(!self.slot || self.joined != __atomic_load_n(&joins, __ATOMIC_RELAXED)))
        claim_slot();
    if (LIKELY(!self.shared))
        __atomic_store_n(&self.slot->turn, self.slot->turn + 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&self.slot->turn, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

void leave(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (LIKELY(!self.shared))
        __atomic_store_n(&self.slot->turn, self.slot->turn + 1, __ATOMIC_RELEASE);
    else
        __atomic_fetch_sub(&self.slot->turn, 1, __ATOMIC_RELEASE);
    self.depth = 0;
}

/* ---- the tables */

/* Says where the sections are, if all of them lie within the memory. */
static bool find_sections(unsigned char *base, uint64_t bytes)
{
    struct ms_heap *h = (struct ms_heap *)base;
    struct tables t = {
        .heap = h,
        .heap_bytes = bytes,
        .arena_bytes = h->arena_bytes,
        .text_bytes = h->text_bytes,
        .blocks_most = h->blocks_most,
        .overflow_most = h->overflow_most,
        .slot_count = h->slots,
        .index_mask = h->index - 1,
        .stack_count = h->stacks,
        .stack_bytes = h->stack_bytes,
        .native_mask = h->natives - 1,
        .python_count = h->pythons,
        .module_count = h->modules,
        .lookup_mask = h->lookup - 1,
        .spare_mask = h->spares - 1,
        .native_depth = h->native_depth,
        .python_depth = h->python_depth,
    };
    const struct {
        uint64_t at, count, size;
        void *place;
        bool power; /* of two */
    } sections[] = {
        {h->slots_at, h->slots, sizeof(struct ms_heap_slot), &t.slots, false},
        {h->index_at, h->index, sizeof(uint64_t), &t.index, true},
        {h->stacks_at, h->stacks, h->stack_bytes, &t.stacks, false},
        {h->natives_at, h->natives, sizeof(uint64_t), &t.natives, true},
        {h->pythons_at, h->pythons, sizeof(struct ms_heap_python), &t.pythons, false},
        {h->modules_at, h->modules, sizeof(struct ms_heap_module), &t.modules, false},
        {h->lookup_at, h->lookup, sizeof(uint32_t), &t.lookup, true},
        {h->text_at, h->text_bytes, 1, &t.text, false},
        {h->spares_at, h->spares, sizeof(uint32_t), &t.spares, true},
        {h->directory_at, h->directory, sizeof(uint32_t), &t.directory, false},
        {h->arena_at, h->arena_bytes, 1, &t.arena, false},
    };
    if (h->magic != MS_HEAP_MAGIC || h->version != MS_HEAP_VERSION || h->bytes != bytes || t.slot_count < 2 ||
        t.stack_count <= MS_HEAP_STACK_FIRST || t.stack_count > MS_HEAP_STACK_MOST || t.native_depth < 1 ||
        t.native_depth > MS_HEAP_DEPTH_MAX || t.python_depth > MS_HEAP_DEPTH_MAX || h->directory < MS_HEAP_DIRECTORY ||
        t.stack_bytes % 8 != 0 ||
        t.stack_bytes < sizeof(struct ms_heap_stack) + sizeof(uint32_t) * (t.native_depth + t.python_depth))
        return false;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        uint64_t at = sections[i].at, count = sections[i].count;
        if (at < sizeof *h || at > bytes || at % 8 != 0 || count == 0 || count > (bytes - at) / sections[i].size ||
            (sections[i].power && (count & (count - 1)) != 0))
            return false;
        unsigned char *address = base + at;
        memcpy(sections[i].place, &address, sizeof address);
    }
    tables = t;
    return true;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *find_function(const char *name)
{
    struct search search = {.name = name};
    return search_libraries(&search);
}

static void *find_in_python(const char *name)
{
    struct search search = {.name = name, .data = true};
    void *function = find_function(name);
    return function ? function : search_libraries(&search);
}

/* An interpreter that is loaded later is seen when the program asks for a window or unloads something. */
static void look_for_python(void)
{
    if (tables.python_depth && ms_py_attach(find_in_python))
        __atomic_fetch_or(&tables.heap->flags, ms_py_problem() ? MS_HEAP_PYTHON_LOST : MS_HEAP_PYTHON,
                          __ATOMIC_RELAXED);
}

void library_gone(void)
{
    unload_modules();
    look_for_python();
}

static bool map_tables(int memory, uint64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < sizeof(struct ms_heap) || bytes > SIZE_MAX / 2 || lseek(memory, 0, SEEK_END) < (off_t)bytes)
        return false;
    unsigned char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    if (base == MAP_FAILED)
        return false;
    struct life *fresh = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED || madvise(base, bytes, MADV_DONTFORK) != 0 || !find_sections(base, bytes)) {
        munmap(base, bytes);
        if (fresh != MAP_FAILED)
            munmap(fresh, page);
        return false;
    }
    madvise(base, bytes, MADV_DONTDUMP);   /* the target's core files stay its own */
    madvise(fresh, page, MADV_WIPEONFORK); /* where the kernel is too old, after_fork does it */
    struct ms_heap *heap = tables.heap;
    uint32_t first = MS_HEAP_STACK_FIRST, unset = 0;
    __atomic_compare_exchange_n(&heap->stack_next, &unset, first, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    prepare_hash();
    heap->attached = (uint64_t)now_ns();
    heap->pid = (uint32_t)getpid();
    heap->allocator = publish_module_at((uintptr_t)real.malloc);
    struct search asked = {.name = "malloc"}, own = {.name = "ms_host_start"};
    if (search_libraries(&asked) && search_libraries(&own) && strcmp(asked.library, own.library) != 0) {
        heap->allocator = publish_module_at((uintptr_t)asked.found);
        __atomic_fetch_or(&heap->flags, MS_HEAP_IN_FRONT, __ATOMIC_RELAXED);
    }
    if (find_function("_dl_find_object"))
        __atomic_fetch_or(&heap->flags, MS_HEAP_FIND_OBJECT, __ATOMIC_RELAXED);
    look_for_python();
    __atomic_fetch_add(&joins, 1, __ATOMIC_RELAXED);
    fresh->window = &heap->window;
    __atomic_store_n(&life, fresh, __ATOMIC_RELEASE); /* an older page stays: somebody may be looking at it */
    return true;
}

/* ---- the session socket */

/* Sends the question and returns the connection, or -1. The name of an abstract socket is anybody's: only our user and root. */
static int ask(enum ms_ask what, const char *text, size_t length, int seconds)
{
    const char *name = getenv("MSMEMSCOPE_SESSION");
    struct sockaddr_un session = {.sun_family = AF_UNIX};
    size_t bytes = name ? strlen(name) : 0;
    if (bytes == 0 || bytes > sizeof session.sun_path - 1 || length > MS_ASK_MAX)
        return -1;
    memcpy(session.sun_path + 1, name, bytes);
    socklen_t address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
    struct timeval limit = {seconds, 0};
    struct ms_hello hello = {.magic = MS_WIRE_MAGIC, .version = MS_WIRE_VERSION, .pid = getpid(), .ask = (uint8_t)what};
    struct iovec parts[] = {{&hello, sizeof hello}, {(void *)text, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = length ? 2 : 1};
    struct ucred peer;
    socklen_t room = sizeof peer;
    int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    long result;
    while ((result = syscall(SYS_connect, fd, &session, address)) < 0 && errno == EINTR)
        ;
    if (result == 0 && syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &room) == 0 &&
        (peer.uid == geteuid() || peer.uid == 0)) {
        while ((result = syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR)
            ;
        if (result >= 0)
            return fd;
    }
    syscall(SYS_close, fd);
    return -1;
}

/* Receives the welcome; the descriptor that comes along is `*memory`, or -1. */
static bool receive_welcome(int fd, struct ms_welcome *welcome, int *memory)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {welcome, sizeof *welcome};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    long received;
    while ((received = syscall(SYS_recvmsg, fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    *memory = -1;
    struct cmsghdr *c = received < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(memory, CMSG_DATA(c), sizeof *memory);
    return received == sizeof *welcome && welcome->magic == MS_WIRE_MAGIC && welcome->version == MS_WIRE_VERSION;
}

static bool join(void)
{
    struct ms_welcome welcome;
    int memory, fd = ask(MS_HEAP_JOIN, NULL, 0, HANDSHAKE_SECONDS);
    if (fd < 0)
        return false;
    bool ok = receive_welcome(fd, &welcome, &memory) && welcome.answer == MS_ACCEPTED && memory >= 0 &&
              map_tables(memory, welcome.ring_size);
    if (memory >= 0)
        syscall(SYS_close, memory);
    syscall(SYS_close, fd);
    return ok;
}

/*
 * Asks for a window to be opened or closed, or about its options, and waits until that is done. What the collector has to say goes to `reply`, as far as
 * there is room. Returns 0, the collector's enum ms_answer, or -1 when there is none.
 */
static int steer(enum ms_ask what, const char *options, size_t length, char *reply, size_t room)
{
    int saved = errno, memory, answer = -1;
    size_t used = 0;
    self.depth++; /* what this allocates is ours */
    if (__atomic_load_n(&life->window, __ATOMIC_ACQUIRE) || (what != MS_HEAP_STOP && ready() && join())) {
        struct ms_welcome welcome;
        look_for_python();
        int fd = ask(what, options, length, ANSWER_SECONDS);
        if (fd >= 0 && receive_welcome(fd, &welcome, &memory)) {
            char message[1024];
            long n;
            answer = (int)welcome.answer;
            while ((n = syscall(SYS_recvfrom, fd, message, sizeof message, 0, NULL, NULL)) > 0 ||
                   (n < 0 && errno == EINTR))
                for (long i = 1; i < n && message[0] != MS_SAY_WAIT && used + 1 < room; i++)
                    reply[used++] = message[i];
        }
        if (fd >= 0)
            syscall(SYS_close, fd);
    }
    if (room)
        reply[used] = 0;
    self.depth--;
    errno = saved;
    return answer;
}

MS_EXPORT int ms_host_start(const char *options, size_t length, char *reply, size_t room)
{
    return steer(MS_HEAP_START, options, length, reply, room);
}

/* Whether ms_host_start would take the options. */
MS_EXPORT int ms_host_check(const char *options, size_t length, char *reply, size_t room)
{
    return steer(MS_HEAP_CHECK, options, length, reply, room);
}

MS_EXPORT int ms_host_stop(char *reply, size_t room)
{
    return steer(MS_HEAP_STOP, NULL, 0, reply, room);
}

/* Whether a window is open. */
MS_EXPORT int ms_host_window(void)
{
    return open_window() != 0;
}

/* ---- beginning and end */

/*
 * In the child of fork(). The kernel has taken the tables out of it and wiped the page that leads to them; older kernels
 * cannot wipe. A call that a signal handler interrupted before it forked gets memory to end in.
 */
static void after_fork(void)
{
    if (!tables.heap)
        return;
    int saved = errno;
    life->window = NULL;
    if (self.depth)
        mmap(tables.heap, tables.heap_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved;
}

/* Not in a vfork child, which has its parent's memory. */
void note_end(void)
{
    if (__atomic_load_n(&life->window, __ATOMIC_ACQUIRE) && tables.heap->pid == (uint32_t)getpid())
        __atomic_store_n(&tables.heap->state, MS_HEAP_ENDED, __ATOMIC_RELEASE);
}

static void quick_end(void *unused)
{
    (void)unused;
    note_end();
}

/*
 * What pthread_atfork and at_quick_exit are made of: the first is in libpthread before glibc 2.34. quick_exit runs no
 * destructors and calls an _exit of its own.
 */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
extern int __cxa_at_quick_exit(void (*function)(void *), void *library);

__attribute__((constructor)) static void begin(void)
{
    int saved = errno;
    self.depth++;
    __register_atfork(NULL, NULL, after_fork, NULL);
    __cxa_at_quick_exit(quick_end, NULL);
    int (*create)(pthread_key_t *, void (*)(void *)) = find_function("pthread_key_create");
    if (create && create(&key, end_of_thread) == 0)
        set_specific = find_function("pthread_setspecific");
    if (ready())
        join();
    self.depth--;
    errno = saved;
}

__attribute__((destructor)) static void end(void)
{
    note_end();
}
