#include "tables.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t place(uint64_t *end, uint64_t count, uint64_t size)
{
    uint64_t at = *end;
    *end = (at + count * size + MS_HEAP_ALIGN - 1) & -(uint64_t)MS_HEAP_ALIGN;
    return at;
}

static uint64_t or_default(uint64_t wanted, uint64_t usual)
{
    return wanted ? wanted : usual;
}

void collector_open(struct collector *c, const struct sizes *s)
{
    static int number;
    uint64_t end = MS_HEAP_ALIGN;
    struct ms_heap h = {.magic = MS_HEAP_MAGIC, .version = MS_HEAP_VERSION, .window = 1};
    h.native_depth = (uint32_t)or_default(s->native_depth, 20);
    h.python_depth = s->python_depth;
    h.sample_mask = s->sample_mask;
    h.stack_bytes = ((uint32_t)sizeof(struct ms_heap_stack) + 4 * (h.native_depth + h.python_depth) + 7) & ~7U;
    h.blocks_most = or_default(s->blocks, MS_HEAP_BLOCKS);
    h.overflow_most = or_default(s->overflow, MS_HEAP_OVERFLOW_BLOCKS);
    h.slots = (uint32_t)or_default(s->slots, MS_HEAP_SLOTS);
    h.index = MS_HEAP_INDEX;
    h.stacks = (uint32_t)or_default(s->stacks, MS_HEAP_STACKS);
    h.natives = MS_HEAP_NATIVES;
    h.pythons = MS_HEAP_PYTHONS;
    h.lookup = MS_HEAP_LOOKUP;
    h.modules = MS_HEAP_MODULES;
    h.spares = MS_HEAP_SPARES;
    h.directory = MS_HEAP_DIRECTORY;
    h.text_bytes = MS_HEAP_TEXT_BYTES;
    h.arena_bytes = or_default(s->arena_mib, MS_HEAP_ARENA_MIB) << 20;
    h.slots_at = place(&end, h.slots, sizeof(struct ms_heap_slot));
    h.index_at = place(&end, h.index, 8);
    h.stacks_at = place(&end, h.stacks, h.stack_bytes);
    h.natives_at = place(&end, h.natives, 8);
    h.pythons_at = place(&end, h.pythons, sizeof(struct ms_heap_python));
    h.modules_at = place(&end, h.modules, sizeof(struct ms_heap_module));
    h.lookup_at = place(&end, h.lookup, 4);
    h.text_at = place(&end, h.text_bytes, 1);
    h.spares_at = place(&end, h.spares, 4);
    h.directory_at = place(&end, h.directory, 4);
    h.arena_at = place(&end, h.arena_bytes, 1);
    h.bytes = end;
    if ((c->memory = memfd_create("hostheap", MFD_CLOEXEC)) < 0 || ftruncate(c->memory, (off_t)end) < 0)
        fail("memfd");
    c->heap = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->memory, 0);
    if (c->heap == MAP_FAILED)
        fail("mmap");
    *c->heap = h;

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(c->session, sizeof c->session, "msmemscope-host-%d-%d", (int)getpid(), number++);
    strcpy(address.sun_path + 1, c->session);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->session));
    if ((c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) < 0 ||
        bind(c->listener, (struct sockaddr *)&address, length) < 0 || listen(c->listener, 64) < 0)
        fail("session socket");
}

void collector_serve(struct collector *c)
{
    struct ms_hello hello;
    struct ms_welcome welcome = {.magic = MS_WIRE_MAGIC, .version = MS_WIRE_VERSION, .ring_size = c->heap->bytes};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {&welcome, sizeof welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &c->memory, sizeof(int));
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || recv(fd, &hello, sizeof hello, 0) != sizeof hello || hello.ask != MS_HEAP_JOIN)
        fail("no hello");
    if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
        fail("welcome");
    close(fd);
}

void collector_close(struct collector *c)
{
    munmap(c->heap, c->heap->bytes);
    close(c->memory);
    close(c->listener);
}

void *section(const struct collector *c, uint64_t at)
{
    return (char *)c->heap + at;
}

static void *at_unit(const struct collector *c, uint32_t unit)
{
    return section(c, c->heap->arena_at + (uint64_t)unit * MS_HEAP_UNIT);
}

static int by_address(const void *a, const void *b)
{
    const struct live *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

size_t read_ledger(const struct collector *c, uint32_t window, struct live **list)
{
    const uint32_t *directory = section(c, c->heap->directory_at);
    size_t count = 0, room = 1024;
    *list = malloc(room * sizeof **list);
    for (uint64_t gib = 0; gib < c->heap->directory; gib++) {
        const struct ms_heap_gib *g = directory[gib] ? at_unit(c, directory[gib]) : NULL;
        for (uint64_t i = 0; g && i < MS_HEAP_GIB_REGIONS; i++) {
            const struct ms_heap_region *r = &g->regions[i];
            if (r->window != window || !r->table)
                continue;
            uint32_t class = r->table & 31, entries = (2U + class % 2) << (3 + class / 2), used = 0;
            const uint64_t *table = at_unit(c, r->table >> MS_HEAP_CLASS_BITS);
            for (uint32_t e = 0; e < entries; e++) {
                if (!table[e])
                    continue;
                used++;
                struct live l = {
                    .address =
                        gib << MS_HEAP_GIB_SHIFT | i << MS_HEAP_REGION_SHIFT | (table[e] >> MS_HEAP_GRANULE_SHIFT) << 3,
                    .size = table[e] >> MS_HEAP_SIZE_SHIFT & MS_HEAP_SIZE_LARGE,
                    .tick = (table[e] & MS_HEAP_AGE_MOST) << r->scale,
                    .stack = table[e] >> MS_HEAP_STACK_SHIFT & MS_HEAP_STACK_MOST,
                };
                if (l.size == MS_HEAP_SIZE_LARGE)
                    l.size = g->large[i];
                if (count == room)
                    *list = realloc(*list, (room *= 2) * sizeof **list);
                (*list)[count++] = l;
            }
            if (used != r->used && !(r->lock & 1)) {
                fprintf(stderr, "region with %u entries says it has %u\n", used, r->used);
                exit(1);
            }
        }
    }
    qsort(*list, count, sizeof **list, by_address);
    return count;
}

const struct live *find_live(const struct live *list, size_t count, uint64_t address)
{
    struct live key = {.address = address};
    return bsearch(&key, list, count, sizeof *list, by_address);
}

struct ms_heap_count read_counts(const struct collector *c, uint32_t stack)
{
    struct ms_heap_count sum = {0};
    const struct ms_heap_slot *slots = section(c, c->heap->slots_at);
    uint32_t high = c->heap->slot_high ? c->heap->slot_high : 1;
    for (uint32_t i = 0; i < high; i++) {
        uint32_t unit = slots[i].counters[stack / MS_HEAP_COUNTERS];
        if (!unit)
            continue;
        const struct ms_heap_count *n = (struct ms_heap_count *)at_unit(c, unit) + stack % MS_HEAP_COUNTERS;
        sum.alloc_count += n->alloc_count;
        sum.alloc_bytes += n->alloc_bytes;
        sum.free_count += n->free_count;
        sum.free_bytes += n->free_bytes;
        sum.lifetime += n->lifetime;
        sum.resized += n->resized;
    }
    return sum;
}

uint64_t read_counter(const struct collector *c, size_t offset)
{
    uint64_t sum = 0;
    const struct ms_heap_slot *slots = section(c, c->heap->slots_at);
    uint32_t high = c->heap->slot_high ? c->heap->slot_high : 1;
    for (uint32_t i = 0; i < high; i++)
        sum += *(const uint64_t *)((const char *)&slots[i] + offset);
    return sum;
}

size_t check_books(const struct collector *c, uint32_t window, unsigned slack)
{
    struct live *list;
    size_t count = read_ledger(c, window, &list), tracked = 0;
    uint32_t stacks = c->heap->stack_next < c->heap->stacks ? c->heap->stack_next : c->heap->stacks;
    struct sum {
        uint64_t blocks, bytes;
    } *by_stack = calloc(stacks, sizeof *by_stack);
    for (size_t i = 0; i < count; i++) {
        if (list[i].stack == 0 || list[i].stack >= stacks) {
            fprintf(stderr, "block %#lx has stack %u of %u\n", (unsigned long)list[i].address, list[i].stack, stacks);
            exit(1);
        }
        by_stack[list[i].stack].blocks++;
        by_stack[list[i].stack].bytes += list[i].size;
        tracked += list[i].stack != MS_HEAP_STACK_UNTRACKED;
    }
    unsigned off = 0;
    for (uint32_t s = 1; s < stacks; s++) {
        struct ms_heap_count n = read_counts(c, s);
        if (s == MS_HEAP_STACK_UNTRACKED)
            continue;
        uint64_t blocks = n.alloc_count - n.free_count, bytes = n.alloc_bytes - n.free_bytes;
        if (blocks == by_stack[s].blocks && bytes == by_stack[s].bytes)
            continue;
        off += (unsigned)llabs((long long)(blocks - by_stack[s].blocks)) + (blocks == by_stack[s].blocks);
        if (off > slack) {
            fprintf(
                stderr,
                "stack %u: %lu - %lu blocks, %lu - %lu bytes by its counters; %lu blocks, %lu bytes in the ledger\n", s,
                n.alloc_count, n.free_count, n.alloc_bytes, n.free_bytes, by_stack[s].blocks, by_stack[s].bytes);
            exit(1);
        }
    }
    free(by_stack);
    free(list);
    return tracked;
}

const struct ms_heap_stack *stack_record(const struct collector *c, uint32_t stack)
{
    return section(c, c->heap->stacks_at + (uint64_t)stack * c->heap->stack_bytes);
}
