/*
 * pyload.c - the Python module, for a program that does not import it itself: under the launcher operators, labels of frameworks
 * and tensors of the host are wanted, and only Python sees them (abi.md 6.9).
 *
 * No GIL is taken: the interpreter is asked to do it when it has time, on its main thread.
 */
#include "state.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "symbols.h"

typedef int is_initialized_fn(void);
typedef int add_pending_fn(int (*work)(void *), void *arg);
typedef int run_fn(const char *text);

static char directory[PATH_MAX]; /* where this library is */

static int find_directory(struct dl_phdr_info *lib, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; i < lib->dlpi_phnum; i++)
        if (lib->dlpi_phdr[i].p_type == PT_LOAD &&
            (ElfW(Addr))find_directory - lib->dlpi_addr - lib->dlpi_phdr[i].p_vaddr < lib->dlpi_phdr[i].p_memsz) {
            const char *slash = strrchr(lib->dlpi_name, '/');
            if (slash)
                snprintf(directory, sizeof directory, "%.*s", (int)(slash - lib->dlpi_name), lib->dlpi_name);
            return 1;
        }
    return 0;
}

/* A path for a Python string: no quote, no backslash, no line end. */
static bool harmless(const char *path)
{
    return path[0] == '/' && !strpbrk(path, "'\"\\\n\r");
}

/* On the main thread of the interpreter, with the GIL. Nothing is left in the program's own namespace. */
static int load(void *run)
{
    char text[PATH_MAX + 600];
    snprintf(text, sizeof text,
             "exec('''import sys\n"
             "if 'torch' in sys.modules:\n"
             "    path = '%s/../python'\n"
             "    sys.path.append(path)\n"
             "    try:\n"
             "        from msmemscope import _collectors\n"
             "        _collectors.refresh()\n"
             "    except Exception as e:\n"
             "        print('[msmemscope] Warn: operators and labels are not collected:', e, file=sys.stderr)\n"
             "    finally:\n"
             "        sys.path.remove(path)\n"
             "''', {})\n",
             directory);
    ((run_fn *)run)(text);
    return 0;
}

void ms_python_wanted(void)
{
    static uint32_t asked;
    if (ms_enter(MS_TRACE) == MS_SKIP)
        return;
    int saved = errno;
    /* level op with launches or accesses, decompose, host tensors */
    const struct ms_config *c = &agent.config;
    bool wanted =
        c->launched && (((c->level & 1) != 0 && (c->events & (4 | 8)) != 0) || (c->analysis & 2) != 0 || c->cpu);
    if (wanted && !__atomic_exchange_n(&asked, 1, __ATOMIC_RELAXED)) {
        is_initialized_fn *is_initialized = find_symbol("Py_IsInitialized", NULL);
        add_pending_fn *add_pending = find_symbol("Py_AddPendingCall", NULL);
        run_fn *run = find_symbol("PyRun_SimpleString", NULL);
        dl_iterate_phdr(find_directory, NULL);
        if (is_initialized && add_pending && run && is_initialized() && harmless(directory))
            add_pending(load, (void *)run);
    }
    errno = saved;
    ms_leave();
}
