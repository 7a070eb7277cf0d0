/*
 * operator.c - operators of ATB (abi.md 1.7): begin, end and tensors of Runner::Execute. Whatever cannot be found out about one,
 * the operator runs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "atb.h"
#include "symbols.h"

enum { ATB_ERROR_INTERNAL = 1 };

/* What libatb.so has to say who an operator is; which C++ ABI it has shows in the names. */
static struct {
    void *name;
    void *directory;
    void (*destroy)(void *);
    bool looked;
    uint32_t told; /* the collector that knows that there is nothing */
} getters;

static void look(void)
{
    static const struct {
        const char *name, *directory, *destroy;
    } abis[] = {
        {"_ZNK3atb6Runner16GetOperationNameB5cxx11Ev", "_ZNK3atb6Runner16GetSaveTensorDirB5cxx11Ev",
         "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev"},
        {"_ZNK3atb6Runner16GetOperationNameEv", "_ZNK3atb6Runner16GetSaveTensorDirEv", "_ZNSsD1Ev"},
    };
    for (size_t i = 0; i < sizeof abis / sizeof *abis && !getters.name; i++) {
        void *name = find_symbol(abis[i].name, NULL), *directory = find_symbol(abis[i].directory, NULL);
        void *destroy = find_symbol(abis[i].destroy, NULL);
        if (!name || !directory || !destroy)
            continue;
        getters.directory = directory;
        getters.destroy = (void (*)(void *))destroy;
        __atomic_store_n(&getters.name, name, __ATOMIC_RELEASE); /* threads that come here at once find the same */
    }
    __atomic_store_n(&getters.looked, true, __ATOMIC_RELEASE);
}

struct operation {
    bool known;
    char name[ATB_TEXT_BYTES];
    char path[ATB_TEXT_BYTES];
};

/* Between ms_enter and ms_leave. False: nobody can say. */
static bool know(struct operation *operation, const void *runner)
{
    if (operation->known)
        return true;
    if (!__atomic_load_n(&getters.looked, __ATOMIC_ACQUIRE))
        look();
    if (!__atomic_load_n(&getters.name, __ATOMIC_ACQUIRE)) {
        if (__atomic_exchange_n(&getters.told, ms_generation(), __ATOMIC_RELAXED) != ms_generation())
            ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0,
                        "operators of ATB are not recorded: this libatb.so does not tell their names");
        return false;
    }
    atb_get_text(getters.name, getters.destroy, runner, operation->name, sizeof operation->name);
    atb_get_text(getters.directory, getters.destroy, runner, operation->path, sizeof operation->path);
    operation->known = true;
    return true;
}

static void put(enum ms_type type, struct operation *operation, const void *runner, const struct atb_variant_pack *pack)
{
    if (ms_enter(MS_OP) != MS_SKIP) {
        if (know(operation, runner)) {
            char text[2 * ATB_TEXT_BYTES + 100];
            snprintf(text, sizeof text, "%s\npath:%s,workspace_ptr:0x%llx,workspace_size:%llu", operation->name,
                     operation->path, (unsigned long long)(uintptr_t)pack->workspace,
                     (unsigned long long)(pack->workspace_size + pack->intermediate_size));
            ms_put_text(type, ms_current_device(), 0, text);
        }
        ms_leave();
    }
    if (ms_enter(MS_ACCESSES) != MS_SKIP) {
        if (know(operation, runner)) {
            uint16_t device = ms_current_device();
            atb_put_tensors(&pack->in, MS_ACCESS_UNKNOWN, device, operation->name);
            atb_put_tensors(&pack->out, MS_ACCESS_WRITE, device, operation->name);
        }
        ms_leave();
    }
}

/* The tensors that an operator has written, for whoever watches it. */
static size_t outputs_of(const struct atb_tensors *tensors, struct ms_extent *outputs)
{
    const struct atb_tensor *all = atb_all(tensors);
    size_t count = 0;
    for (size_t i = 0; all && i < tensors->size && count < MS_OUTPUTS_MOST; i++)
        if (all[i].device_data)
            outputs[count++] = (struct ms_extent){(uint64_t)(uintptr_t)all[i].device_data, all[i].data_size};
    return count;
}

static void watch(struct operation *operation, const void *runner, const struct atb_variant_pack *pack, bool end)
{
    if (!ms_watching() || ms_enter(MS_WATCH) == MS_SKIP)
        return;
    bool known = know(operation, runner);
    ms_leave();
    if (!known)
        return;
    struct ms_extent outputs[MS_OUTPUTS_MOST];
    if (end)
        ms_watch_end(operation->path, outputs, outputs_of(&pack->out, outputs));
    else
        ms_watch_begin(operation->path, false);
}

/* atb::Runner::Execute(atb::RunnerVariantPack &) */
MS_EXPORT int32_t atb_runner_execute(void *runner, struct atb_variant_pack *pack)
    CXX_NAME("_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE");
MS_EXPORT int32_t atb_runner_execute(void *runner, struct atb_variant_pack *pack)
{
    static void *slot;
    int32_t (*real)(void *, struct atb_variant_pack *) = ms_real(
        &slot, (void *)atb_runner_execute, NULL, "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE", "libatb.so");
    if (!real)
        return ATB_ERROR_INTERNAL;
    struct operation operation;
    operation.known = false;
    int saved = errno;
    atb_expect_kernels();
    put(MS_ATB_START, &operation, runner, pack);
    watch(&operation, runner, pack, false);
    errno = saved;
    int32_t result = real(runner, pack);
    saved = errno;
    put(MS_ATB_END, &operation, runner, pack);
    watch(&operation, runner, pack, true);
    errno = saved;
    return result;
}
