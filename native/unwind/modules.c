/*
 * modules.c - which library an address is in, without the loader's lock where the C library allows it; the numbers.
 */
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "internal.h"

/*
 * glibc 2.35 and later; no lock, safe in signal handlers. As <dlfcn.h> declares it, where it
 * does.
 */
struct object {
    unsigned long long flags;
    void *map_start;
    void *map_end;
    struct link_map *link_map;
    void *eh_frame; /* the PT_GNU_EH_FRAME segment, .eh_frame_hdr */
    unsigned long long reserved[7];
};
extern int find_object(void *address, struct object *result) __asm__("_dl_find_object") __attribute__((weak));

static struct ms_module modules[MS_MODULES]; /* 0 stays empty */

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct ms_module *wanted = arg;
    uintptr_t start = UINTPTR_MAX, end = 0;
    const void *rules = NULL;
    bool inside = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_GNU_EH_FRAME)
            rules = (const void *)at;
        if (p->p_type != PT_LOAD)
            continue;
        start = at < start ? at : start;
        end = at + p->p_memsz > end ? at + p->p_memsz : end;
        inside |= wanted->start - at < p->p_memsz;
    }
    if (!inside)
        return 0;
    wanted->start = start;
    wanted->end = end;
    wanted->bias = info->dlpi_addr;
    wanted->path = info->dlpi_name;
    wanted->rules = rules;
    return 1;
}

static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
    return h;
}

/* Fills in the library that has `pc`, from the loader's books. */
static bool ask_loader(uintptr_t pc, struct ms_module *m)
{
    memset(m, 0, sizeof *m);
    if (find_object) {
        struct object found;
        if (find_object((void *)pc, &found) != 0)
            return false;
        m->start = (uintptr_t)found.map_start;
        m->end = (uintptr_t)found.map_end;
        m->bias = found.link_map->l_addr;
        m->path = found.link_map->l_name;
        m->rules = found.eh_frame;
        m->name_hash = hash(m->path);
        return true;
    }
    m->start = pc;
    if (dl_iterate_phdr(visit, m) != 1)
        return false;
    m->name_hash = hash(m->path);
    return true;
}

/* The same file at the same place; it may have been away in between. */
static bool same(const struct ms_module *known, const struct ms_module *m)
{
    return known->start == m->start && known->end == m->end && known->rules == m->rules &&
           known->name_hash == m->name_hash;
}

/*
 * The number of a library: the one it has, or the next. Who claims a place does it by its first field; another thread that
 * enters the same library at the same time waits for the rest, unless it interrupts the claimer: 0 then, for this once.
 */
static unsigned number_of(const struct ms_module *m)
{
    for (unsigned i = 1; i < MS_MODULES; i++) {
        struct ms_module *place = &modules[i];
        uintptr_t start = __atomic_load_n(&place->start, __ATOMIC_ACQUIRE);
        if (start == 0 &&
            __atomic_compare_exchange_n(&place->start, &start, m->start, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            place->end = m->end;
            place->bias = m->bias;
            place->path = m->path;
            place->rules = m->rules;
            place->name_hash = m->name_hash;
            __atomic_store_n(&place->ready, 1, __ATOMIC_RELEASE);
            return i;
        }
        if (start != m->start)
            continue;
        for (int patience = 1000; !__atomic_load_n(&place->ready, __ATOMIC_ACQUIRE); patience--)
            if (patience == 0)
                return 0;
        if (same(place, m)) {
            if (__atomic_load_n(&place->gone, __ATOMIC_RELAXED)) {
                __atomic_store_n(&place->path, m->path, __ATOMIC_RELAXED);
                __atomic_store_n(&place->gone, 0, __ATOMIC_RELAXED);
            }
            return i;
        }
        /* Another library lies where this one was, and nobody has told us: it is gone. */
        __atomic_store_n(&place->gone, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

unsigned find_module(uintptr_t pc, const void **eh_frame_hdr)
{
    struct ms_module m;
    if (!find_object) /* the loader's books have a lock: ask them only about what is new */
        for (unsigned i = 1; i < MS_MODULES && __atomic_load_n(&modules[i].start, __ATOMIC_ACQUIRE); i++)
            if (__atomic_load_n(&modules[i].ready, __ATOMIC_ACQUIRE) && !modules[i].gone &&
                pc - modules[i].start < modules[i].end - modules[i].start) {
                *eh_frame_hdr = modules[i].rules;
                return i;
            }
    if (!ask_loader(pc, &m))
        return 0;
    *eh_frame_hdr = m.rules;
    return number_of(&m);
}

unsigned ms_module_at(uintptr_t address)
{
    const void *rules;
    return find_module(address, &rules);
}

const struct ms_module *ms_module(unsigned number)
{
    const struct ms_module *m = &modules[number % MS_MODULES];
    return __atomic_load_n(&m->ready, __ATOMIC_ACQUIRE) ? m : NULL;
}

bool forget_modules(void)
{
    bool any = false;
    for (unsigned i = 1; i < MS_MODULES && __atomic_load_n(&modules[i].start, __ATOMIC_ACQUIRE); i++) {
        struct ms_module *known = &modules[i], now;
        if (!__atomic_load_n(&known->ready, __ATOMIC_ACQUIRE) || known->gone)
            continue;
        if (!ask_loader(known->start, &now) || !same(known, &now)) {
            __atomic_store_n(&known->gone, 1, __ATOMIC_RELAXED);
            any = true;
        }
    }
    return any;
}
