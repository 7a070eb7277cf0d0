/*
 * probe.c - kernels of ATB (abi.md 1.7). ATB can save the tensors of each of its kernels before and after it; whether it does
 * a tool says through the functions of atb::Probe. Where kernels are wanted they say yes, and what is to be saved is recorded
 * in its place. What the program, or another tool that it has preloaded, wants saved is saved all the same.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "atb.h"
#include "symbols.h"

static const char library[] = "libatb.so";

static __thread struct {
    bool truth;        /* inside of a question that is answered as without us */
    bool out_of_range; /* the program does not want its current execution saved */
} self_probe __attribute__((tls_model("initial-exec")));

static bool some_saved; /* there is a kernel that the program wants saved */

/* The hooks below, as they are called. */
#define SAVE_SYMBOL "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs"
#define SAVE_SYMBOL_CXX11 \
    "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
MS_EXPORT void save_launch_param(void *stream, void *parameters, const char *const *path) CXX_NAME(SAVE_SYMBOL);
MS_EXPORT void save_launch_param_cxx11(void *stream, void *parameters, const char *const *path)
    CXX_NAME(SAVE_SYMBOL_CXX11);

/*
 * Whether this libatb.so saves through the function that we hook. If not it must not be told to: it would do so. Between ms_enter and
 * ms_leave.
 */
static bool hooked(void)
{
    static void *slot, *slot_cxx11;
    static uint8_t answer; /* the search is long; 1 no, 2 yes */
    uint8_t known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (!known) {
        known = ms_real(&slot, (void *)save_launch_param, NULL, SAVE_SYMBOL, library) ||
                        ms_real(&slot_cxx11, (void *)save_launch_param_cxx11, NULL, SAVE_SYMBOL_CXX11, library)
                    ? 2
                    : 1;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == 2;
}

void atb_expect_kernels(void)
{
    static uint32_t told; /* the collector that knows what will be missing */
    if (__atomic_load_n(&told, __ATOMIC_RELAXED) == ms_generation() || ms_enter(MS_KERNEL) == MS_SKIP)
        return;
    if (__atomic_exchange_n(&told, ms_generation(), __ATOMIC_RELAXED) != ms_generation() && !hooked())
        ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0,
                    "kernels of ATB are not recorded: this libatb.so does not tell them");
    ms_leave();
}

static bool wanted(void)
{
    if (self_probe.truth || ms_enter(MS_KERNEL) == MS_SKIP)
        return false;
    bool yes = hooked();
    ms_leave();
    return yes;
}

/* A function of atb::Probe that says whether to save; `remember` sees the real `answer`. */
#define PROBE(hook, symbol, parameters, arguments, remember)                                              \
    MS_EXPORT bool hook parameters CXX_NAME(symbol);                                                      \
    MS_EXPORT bool hook parameters                                                                        \
    {                                                                                                     \
        static void *slot;                                                                                \
        bool(*real) parameters = (bool(*) parameters)ms_real(&slot, (void *)hook, NULL, symbol, library); \
        bool answer = real && real arguments;                                                             \
        remember;                                                                                         \
        return answer || wanted();                                                                        \
    }

static void remember_saved(bool answer)
{
    if (answer)
        __atomic_store_n(&some_saved, true, __ATOMIC_RELAXED);
}

PROBE(probe_need_save, "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKSs", (const void *ids, const void *name),
      (ids, name), remember_saved(answer))
PROBE(probe_need_save_cxx11,
      "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
      (const void *ids, const void *name), (ids, name), remember_saved(answer))
PROBE(probe_in_range, "_ZN3atb5Probe21IsExecuteCountInRangeEm", (uint64_t count), (count),
      self_probe.out_of_range = !answer)
PROBE(probe_desc, "_ZN3atb5Probe16IsSaveTensorDescEv", (void), (), (void)0)
PROBE(probe_before, "_ZN3atb5Probe18IsSaveTensorBeforeEv", (void), (), (void)0)
PROBE(probe_after, "_ZN3atb5Probe17IsSaveTensorAfterEv", (void), (), (void)0)

/* atb::Runner::IsSaveTensor() const: whether to save the tensors of a whole operator, which nobody has to for our sake. */
MS_EXPORT bool runner_is_save_tensor(const void *runner) CXX_NAME("_ZNK3atb6Runner12IsSaveTensorEv");
MS_EXPORT bool runner_is_save_tensor(const void *runner)
{
    static void *slot;
    bool (*real)(const void *) =
        ms_real(&slot, (void *)runner_is_save_tensor, NULL, "_ZNK3atb6Runner12IsSaveTensorEv", library);
    self_probe.truth = true;
    bool answer = real && real(runner);
    self_probe.truth = false;
    return answer;
}

typedef struct mki_tensors *get_tensors_fn(void *parameters);

/* The tensors of a launch, or NULL. Looked for once: a library that does not have the function will not get it. */
static struct mki_tensors *tensors_of(void *parameters, int which)
{
    static const char *const names[] = {"_ZN3Mki11LaunchParam12GetInTensorsEv",
                                        "_ZN3Mki11LaunchParam13GetOutTensorsEv"};
    static get_tensors_fn *found[2];
    static bool looked[2];
    if (!__atomic_load_n(&looked[which], __ATOMIC_ACQUIRE)) {
        found[which] = (get_tensors_fn *)find_symbol(names[which], NULL);
        __atomic_store_n(&looked[which], true, __ATOMIC_RELEASE);
    }
    static uint32_t told; /* the collector that knows that there is nothing */
    if (!found[which] && __atomic_exchange_n(&told, ms_generation(), __ATOMIC_RELAXED) != ms_generation())
        ms_put_text(MS_KERNEL_NOTICE, MS_DEVICE_NONE, 0,
                    "tensors of ATB's kernels are not recorded: this libatb.so does not tell them");
    return found[which] ? found[which](parameters) : NULL;
}

static size_t outputs_of(void *parameters, struct ms_extent *outputs)
{
    const struct mki_tensors *tensors = tensors_of(parameters, 1);
    size_t count = 0;
    for (size_t i = 0; tensors && tensors->size <= MKI_INLINE && i < tensors->size; i++)
        if (tensors->inside[i].data)
            outputs[count++] =
                (struct ms_extent){(uint64_t)(uintptr_t)tensors->inside[i].data, tensors->inside[i].data_size};
    return count;
}

/* `path` is "<directory of the operator>/<node>_<kernel>/before", or /after; anything else is none of ours. */
static void put_kernel(const char *path, void *parameters)
{
    const char *side = strrchr(path, '/');
    if (!side || (strcmp(side, "/before") != 0 && strcmp(side, "/after") != 0))
        return;
    const char *begin = memrchr(path, '/', (size_t)(side - path));
    begin = begin ? begin + 1 : path;
    char name[ATB_TEXT_BYTES], text[2 * ATB_TEXT_BYTES + 100];
    snprintf(name, sizeof name, "%.*s", (int)(side - begin < ATB_TEXT_BYTES ? side - begin : ATB_TEXT_BYTES), begin);
    enum ms_mode mode = ms_enter(MS_KERNEL);
    if (mode == MS_NORMAL) {
        snprintf(text, sizeof text, "%s\npath:%.*s", name, ATB_TEXT_BYTES - 1, path);
        ms_put_text(side[1] == 'b' ? MS_ATB_KERNEL_START : MS_ATB_KERNEL_END, ms_current_device(), 0, text);
    }
    if (mode != MS_SKIP)
        ms_leave();
    if (mode == MS_NORMAL && ms_watching()) {
        struct ms_extent outputs[MS_OUTPUTS_MOST];
        char id[1024];
        snprintf(id, sizeof id, "%.*s", (int)(side - path < 1024 ? side - path : 1023), path);
        if (side[1] == 'b')
            ms_watch_begin(id, true);
        else
            ms_watch_end(id, outputs, outputs_of(parameters, outputs));
    }
    if (mode == MS_NORMAL && ms_enter(MS_ACCESSES) != MS_SKIP) {
        uint16_t device = ms_current_device();
        mki_put_tensors(tensors_of(parameters, 0), MS_ACCESS_UNKNOWN, device, name);
        mki_put_tensors(tensors_of(parameters, 1), MS_ACCESS_WRITE, device, name);
        ms_leave();
    }
}

typedef void save_fn(void *stream, void *parameters, const char *const *path);

/* atb::StoreUtil::SaveLaunchParam(void *, const Mki::LaunchParam &, const std::string &) */
static void save(save_fn *real, void *stream, void *parameters, const char *const *path)
{
    int saved = errno;
    put_kernel(*path, parameters);
    self_probe.truth = true;
    const char *side = strrchr(*path, '/');
    bool before = side && strcmp(side, "/before") == 0;
    bool program = __atomic_load_n(&some_saved, __ATOMIC_RELAXED) && !self_probe.out_of_range &&
                   (before ? probe_before() : probe_after());
    self_probe.truth = false;
    errno = saved;
    if (real && program)
        real(stream, parameters, path);
}

#define SAVE(hook, symbol)                                                                              \
    MS_EXPORT void hook(void *stream, void *parameters, const char *const *path)                        \
    {                                                                                                   \
        static void *slot;                                                                              \
        save((save_fn *)ms_real(&slot, (void *)hook, NULL, symbol, library), stream, parameters, path); \
    }

SAVE(save_launch_param, SAVE_SYMBOL)
SAVE(save_launch_param_cxx11, SAVE_SYMBOL_CXX11)
