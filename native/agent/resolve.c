/*
 * resolve.c - the real function behind a hook, see agent.h.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "symbols.h"

/*
 * In load order, what comes first: `inner` in any library, or `name` behind the hook. So somebody else's preloaded wrapper
 * of the public name, which comes before the driver, is called as it would be without us.
 *
 * But no second copy of our library, whose hook would come back to ours. There are copies where a tool has followed the links
 * between its names (scp, zip), and with two installations.
 */
static void *find_real(const void *hook, const char *inner, const char *name)
{
    struct search search = {.inner = inner, .name = name, .after = hook, .except = "ms_resolve"};
    if (search_libraries(&search))
        keep_library(search.library); /* its address is */
    return search.found;
}

static bool load_from_home(const char *library)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    char path[PATH_MAX];
    return home && (size_t)snprintf(path, sizeof path, "%s/lib64/%s", home, library) < sizeof path &&
           open_library(path, RTLD_NOW | RTLD_GLOBAL);
}

void *ms_resolve(void **slot, const void *hook, const char *inner, const char *name, const char *library)
{
    int saved = errno;
    ms_suppress_begin(); /* constructors of what we load may come back through the hooks */
    void *real = find_real(hook, inner, name);
    if (!real && load_from_home(library))
        real = find_real(hook, inner, name);
    if (real)
        __atomic_store_n(slot, real, __ATOMIC_RELEASE);
    ms_suppress_end();
    errno = saved;
    return real;
}
