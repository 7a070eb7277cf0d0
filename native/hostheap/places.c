/*
 * places.c - locations in native and Python code, and the libraries: hostheap.h, "Locations, modules".
 *
 * Only for stacks that are new; once each.
 */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "pyframes.h"
#include "state.h"

enum { PROBES = 64, NATIVE_PROBES = 4096 };

/* The identification that the linker gave the file, from its notes in memory. Its first page is there and says where. */
static void copy_build_id(struct ms_heap_module *to, const struct ms_module *m)
{
    const ElfW(Ehdr) *file = (const void *)m->start;
    if (m->end - m->start < 4096 || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
        file->e_phoff + (uint64_t)file->e_phnum * sizeof(ElfW(Phdr)) > 4096)
        return;
    const ElfW(Phdr) *p = (const void *)(m->start + file->e_phoff);
    for (unsigned i = 0; i < file->e_phnum; i++, p++) {
        uintptr_t at = m->bias + p->p_vaddr, end = at + p->p_memsz;
        if (p->p_type != PT_NOTE || at < m->start || end > m->end || (at & 3))
            continue;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            uintptr_t name = at + sizeof *note, data = name + ((note->n_namesz + 3) & ~3U);
            if (data + note->n_descsz > end)
                break;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp((void *)name, "GNU", 4) == 0 &&
                note->n_descsz <= sizeof to->build_id) {
                memcpy(to->build_id, (void *)data, note->n_descsz);
                to->build_id_bytes = note->n_descsz;
                return;
            }
            at = data + ((note->n_descsz + 3) & ~3U);
        }
    }
}

/* Copies what is known of a library into the tables. Called with one of its frames on the stack, so it is loaded. */
static void publish_module(unsigned number)
{
    const struct ms_module *m = ms_module(number);
    if (!m || number >= tables.module_count)
        return;
    struct ms_heap_module *to = &tables.modules[number];
    if (LIKELY(__atomic_load_n(&to->end, __ATOMIC_ACQUIRE)))
        return;
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&to->start, &none, m->start, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return; /* another thread is at it */
    to->bias = m->bias;
    to->path = text_add(m->path, strlen(m->path));
    copy_build_id(to, m);
    __atomic_store_n(&to->end, m->end, __ATOMIC_RELEASE);
    uint32_t high = __atomic_load_n(&tables.heap->module_next, __ATOMIC_RELAXED);
    while (high <= number && !__atomic_compare_exchange_n(&tables.heap->module_next, &high, number + 1, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

uint32_t publish_module_at(uintptr_t address)
{
    unsigned number = ms_module_at(address);
    publish_module(number);
    return number;
}

void unload_modules(void)
{
    ms_unwind_forget();
    uint32_t high = __atomic_load_n(&tables.heap->module_next, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < high; i++) {
        const struct ms_module *m = ms_module(i);
        if (m)
            __atomic_store_n(&tables.modules[i].gone, __atomic_load_n(&m->gone, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
}

/*
 * Neighbours in code are neighbours in the table: a program touches as much of it as it has code that allocates. Calls lie
 * closer together than their places, so that a function of a thousand calls needs as many probes; only new stacks come here.
 */
uint32_t native_place(ms_frame frame)
{
    uint32_t home = (uint32_t)(MS_FRAME_PC(frame) >> 4);
    publish_module(MS_FRAME_MODULE(frame));
    for (uint32_t probe = 0; probe < NATIVE_PROBES; probe++) {
        uint32_t place = (home + probe) & tables.native_mask;
        if (place == 0)
            continue;
        uint64_t was = __atomic_load_n(&tables.natives[place], __ATOMIC_RELAXED);
        if (was == 0 &&
            __atomic_compare_exchange_n(&tables.natives[place], &was, frame, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return place;
        if (was == frame)
            return place;
    }
    return 0;
}

static bool same(const struct ms_heap_python *p, const struct ms_py_frame *frame)
{
    return p->code == (uintptr_t)frame->code && p->identity == frame->identity && p->offset == frame->offset;
}

static void describe(struct ms_heap_python *p, const struct ms_py_frame *frame)
{
    struct ms_py_text text;
    p->code = (uintptr_t)frame->code;
    p->identity = frame->identity;
    p->offset = frame->offset;
    uint32_t line = UINT32_MAX;
    if (ms_py_describe(frame, &text)) {
        p->function = text_add(text.function, strlen(text.function));
        p->file = text_add(text.file, strlen(text.file));
        line = text.line ? text.line : UINT32_MAX;
    }
    __atomic_store_n(&p->line, line, __ATOMIC_RELEASE);
}

/* Two threads at once may make two numbers of one place; the reader sees that they are called the same. */
uint32_t python_place(const struct ms_py_frame *frame)
{
    uint64_t key = (uintptr_t)frame->code ^ (uint64_t)frame->identity << 32;
    uint32_t home = (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 40) + frame->offset;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint32_t *place = &tables.lookup[(home + probe) & tables.lookup_mask];
        uint32_t number = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (number && same(&tables.pythons[number], frame))
            return number;
        if (number)
            continue;
        if (__atomic_load_n(&tables.heap->python_next, __ATOMIC_RELAXED) + 1 >= tables.python_count)
            return 0;
        number = __atomic_add_fetch(&tables.heap->python_next, 1, __ATOMIC_RELAXED);
        if (number >= tables.python_count)
            return 0;
        describe(&tables.pythons[number], frame);
        uint32_t none = 0;
        __atomic_compare_exchange_n(place, &none, number, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        return number;
    }
    return 0;
}
