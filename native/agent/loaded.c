/*
 * loaded.c - see loaded.h. Formats: ELF gABI "Note Section"; the build id is a note of type 3 by "GNU".
 */
#include "loaded.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "ms_unwind.h"
#include "ring.h"
#include "stack.h"

static uint8_t defined[MS_MODULES]; /* by number, for this client */

enum { OURS = 1, FOREIGN = 2 };
static uint8_t owner[MS_MODULES]; /* 0: not known yet */

void forget_loaded(void)
{
    memset(defined, 0, sizeof defined);
}

/* Length of a path up to its last slash, 0 without one. */
static size_t folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

bool is_own(unsigned number, unsigned agent)
{
    if (number == agent)
        return true;
    uint8_t known = __atomic_load_n(&owner[number], __ATOMIC_RELAXED);
    if (known != 0)
        return known == OURS;
    const struct ms_module *m = ms_module(number), *us = ms_module(agent);
    if (!m || !us)
        return false;
    size_t length = folder(us->path);
    bool ours = length > 0 && folder(m->path) == length && memcmp(m->path, us->path, length) == 0;
    __atomic_store_n(&owner[number], ours ? OURS : FOREIGN, __ATOMIC_RELAXED);
    return ours;
}

struct build_id {
    const struct ms_module *module;
    const unsigned char *bytes;
    size_t length;
};

static void find_note(struct build_id *id, const unsigned char *p, size_t left, size_t align)
{
    ElfW(Nhdr) n;
    while (left >= sizeof n) {
        memcpy(&n, p, sizeof n);
        size_t name = sizeof n, text = (name + n.n_namesz + align - 1) & ~(align - 1);
        size_t next = (text + n.n_descsz + align - 1) & ~(align - 1);
        if (text + n.n_descsz > left)
            return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(p + name, "GNU", 4) == 0) {
            id->bytes = p + text;
            id->length = n.n_descsz;
            return;
        }
        if (next >= left)
            return;
        p += next;
        left -= next;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct build_id *id = arg;
    bool inside = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        inside |= p->p_type == PT_LOAD && id->module->start - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    }
    for (int i = 0; inside && i < info->dlpi_phnum && !id->bytes; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            find_note(id, (const unsigned char *)info->dlpi_addr + p->p_vaddr, p->p_memsz, p->p_align == 8 ? 8 : 4);
    }
    return inside;
}

/* The file of a library for somebody who stands elsewhere: the program's own, and one named from the working directory. */
static size_t absolute(const char *path, char *to, size_t room)
{
    size_t length = strlen(path);
    const char *link = length == 0 ? "/proc/self/exe" : path[0] != '/' && strchr(path, '/') ? "/proc/self/cwd" : NULL;
    size_t used = 0;
    if (link) {
        long got = syscall(SYS_readlinkat, AT_FDCWD, link, to, room);
        used = got > 0 ? (size_t)got : 0;
        if (length > 0 && used > 0 && used < room)
            to[used++] = '/';
    }
    if (used + length > room)
        return 0;
    memcpy(to + used, path, length);
    return used + length;
}

bool define_loaded(unsigned number)
{
    if (number == 0 || __atomic_load_n(&defined[number], __ATOMIC_ACQUIRE))
        return true;
    const struct ms_module *m = ms_module(number);
    if (!m)
        return false;
    char path[MS_TEXT_MAX];
    size_t length = absolute(m->path, path, sizeof path);
    struct build_id id = {.module = m};
    dl_iterate_phdr(visit, &id);
    if (id.length > 64)
        id.length = 0;
    struct ms_loaded *r = reserve(MS_MODULE, MS_HOST, MS_DEVICE_NONE, sizeof *r + length + id.length);
    if (!r)
        return false;
    r->start = m->start;
    r->end = m->end;
    r->bias = m->bias;
    r->number = number;
    r->path_length = (uint16_t)length;
    r->build_id_length = (uint16_t)id.length;
    memcpy(r + 1, path, length);
    if (id.length)
        memcpy((char *)(r + 1) + length, id.bytes, id.length);
    ms_publish(&r->h);
    __atomic_store_n(&defined[number], 1, __ATOMIC_RELEASE);
    return true;
}

/* What is unloaded takes its rules for the unwinder with it. */
MS_EXPORT int dlclose(void *library)
{
    static void *slot;
    int (*real)(void *) = ms_real(&slot, (void *)dlclose, NULL, "dlclose", "libdl.so.2");
    int result = real ? real(library) : -1;
    if (stacks_used())
        ms_unwind_forget();
    return result;
}
