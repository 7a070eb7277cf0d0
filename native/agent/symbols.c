/*
 * symbols.c - see symbols.h. Formats: ELF gABI "Dynamic Section", and the GNU hash table as ld.so reads it.
 */
#include "symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The tables of one loaded library. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    int kind; /* of the symbols that are of interest, STT_* */
};

/* ld.so relocates these pointers in place, but not those of the vdso. */
static const void *table(const struct dl_phdr_info *lib, ElfW(Addr) value)
{
    return (const void *)(value < lib->dlpi_addr ? value + lib->dlpi_addr : value);
}

static bool read_tables(const struct dl_phdr_info *lib, struct tables *t)
{
    const ElfW(Dyn) *d = NULL;
    for (int i = 0; i < lib->dlpi_phnum; i++)
        if (lib->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(lib->dlpi_addr + lib->dlpi_phdr[i].p_vaddr);
    memset(t, 0, sizeof *t);
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            t->symbols = table(lib, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->strings = table(lib, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            t->gnu_hash = table(lib, d->d_un.d_ptr);
        else if (d->d_tag == DT_HASH)
            t->sysv_hash = table(lib, d->d_un.d_ptr);
    }
    return t->symbols && t->strings;
}

static bool defines(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *s = &t->symbols[index];
    return s->st_shndx != SHN_UNDEF && (s->st_info & 0xf) == t->kind && strcmp(t->strings + s->st_name, name) == 0;
}

/* The index of `name`, 0 when the library does not define it. */
static uint32_t look_up(const struct tables *t, const char *name)
{
    if (t->gnu_hash) {
        const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], bloom_words = t->gnu_hash[2];
        const uint32_t *bucket = t->gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
        const uint32_t *chain = bucket + buckets;
        uint32_t hash = 5381;
        for (const char *c = name; *c; c++)
            hash = hash * 33 + (unsigned char)*c;
        uint32_t i = buckets ? bucket[hash % buckets] : 0;
        for (bool last = i < first; !last; i++) {
            uint32_t h = chain[i - first];
            last = h & 1;
            if ((h | 1) == (hash | 1) && defines(t, i, name))
                return i;
        }
    } else if (t->sysv_hash) {
        for (uint32_t i = 1; i < t->sysv_hash[1]; i++)
            if (defines(t, i, name))
                return i;
    }
    return 0;
}

static bool contains(const struct dl_phdr_info *lib, const void *address)
{
    for (int i = 0; i < lib->dlpi_phnum; i++)
        if (lib->dlpi_phdr[i].p_type == PT_LOAD &&
            (ElfW(Addr))address - lib->dlpi_addr - lib->dlpi_phdr[i].p_vaddr < lib->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int visit(struct dl_phdr_info *lib, size_t size, void *arg)
{
    (void)size;
    struct search *search = arg;
    struct tables t;
    bool readable = read_tables(lib, &t);
    t.kind = search->data ? STT_OBJECT : STT_FUNC;
    uint32_t index = readable && search->inner ? look_up(&t, search->inner) : 0;
    if (index == 0 && search->after) {
        if (contains(lib, search->after))
            search->after = NULL;
        return 0;
    }
    if (index == 0 && readable)
        index = look_up(&t, search->name);
    if (index == 0 || (search->except && look_up(&t, search->except) != 0))
        return 0;
    search->found = (void *)(lib->dlpi_addr + t.symbols[index].st_value);
    search->library = lib->dlpi_name;
    return 1;
}

typedef void *dlopen_fn(const char *file, int mode);

void *open_library(const char *path, int mode)
{
    struct search search = {.name = "dlopen"};
    dl_iterate_phdr(visit, &search);
    return search.found ? ((dlopen_fn *)search.found)(path, mode) : NULL;
}

void *search_libraries(struct search *search)
{
    dl_iterate_phdr(visit, search);
    return search->found;
}

static void *find_and_keep(struct search search)
{
    if (search_libraries(&search))
        keep_library(search.library);
    return search.found;
}

void *find_symbol(const char *name, const void *after)
{
    return find_and_keep((struct search){.name = name, .after = after});
}

void *find_data(const char *name)
{
    return find_and_keep((struct search){.name = name, .data = true});
}

void keep_library(const char *path)
{
    if (path && path[0])
        open_library(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static int count_loads(struct dl_phdr_info *lib, size_t size, void *arg)
{
    (void)size;
    *(unsigned long long *)arg = lib->dlpi_adds;
    return 1;
}

unsigned long long library_loads(void)
{
    unsigned long long loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    return loads;
}
