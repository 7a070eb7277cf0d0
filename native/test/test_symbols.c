/*
 * test_symbols.c - finding real functions without dlsym.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "agent.h"
#include "child.h"
#include "collector.h"
#include "fake.h"
#include "symbols.h"

/* As if this program were a library with hooks. */
MS_EXPORT int a_hook(void);
MS_EXPORT int a_hook(void)
{
    return 1;
}

static char *library_path(const char *edition, const char *name)
{
    static char path[700];
    use_stack(edition);
    snprintf(path, sizeof path, "%s/lib64/%s", getenv("ASCEND_HOME_PATH"), name);
    return path;
}

CASE(same_as_dlsym)
{
    static const char *const names[] = {"printf", "malloc", "getpid", "pthread_create"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(find_symbol(names[i], (void *)a_hook) != NULL);
    CHECK(find_symbol("a_hook", NULL) == (void *)a_hook);
    CHECK(find_symbol("fake", NULL) == NULL); /* data */
    CHECK(find_data("fake") == &fake);
    CHECK(find_data("a_hook") == NULL);
    CHECK(find_symbol("no_such_function", NULL) == NULL);
}

CASE(after_own_library)
{
    CHECK(find_symbol("a_hook", (void *)a_hook) == NULL);
}

CASE(local_library)
{
    CHECK(find_symbol("halMemAllocInner", NULL) == NULL);
    void *handle = dlopen(library_path("inner", "libascend_hal.so"), RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    CHECK(dlsym(RTLD_DEFAULT, "halMemAllocInner") == NULL);
    CHECK(find_symbol("halMemAllocInner", NULL) == dlsym(handle, "halMemAllocInner"));
}

CASE(sysv_hash)
{
    void *handle = dlopen(library_path("plain", "libascend_hal.so"), RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    CHECK(find_symbol("halMemFree", (void *)a_hook) == dlsym(handle, "halMemFree"));
    CHECK(find_symbol("no_such_function", NULL) == NULL);
}

/* What was found stays, also when the program closes its last handle. */
CASE(stays_loaded)
{
    void *handle = dlopen(library_path("inner", "libascend_hal.so"), RTLD_NOW | RTLD_LOCAL);
    int (*release)(void *) = (int (*)(void *))find_symbol("halMemReleaseInner", NULL);
    CHECK_EQ(dlclose(handle), 0);
    CHECK_EQ(release(&handle), 0);
    CHECK(fake.last_freed == &handle);
}

static int events_while_loading;

static void event_while_loading(void)
{
    events_while_loading++;
    CHECK_EQ(ms_enter(MS_MEMORY), MS_SKIP);
}

CASE(loaded_from_home)
{
    void *slot = NULL;
    use_stack("inner");
    fake.on_load = event_while_loading;
    errno = EDOM;
    int (*free_)(void *) = ms_real(&slot, (void *)a_hook, "halMemFreeInner", "halMemFree", "libascend_hal.so");
    CHECK_EQ(errno, EDOM);
    CHECK(free_ != NULL && slot == (void *)free_);
    CHECK_EQ(events_while_loading, 1);
    CHECK_EQ(free_(&slot), 0);
    CHECK(fake.last_freed == &slot);
    CHECK(ms_real(&slot, NULL, NULL, NULL, NULL) == (void *)free_); /* from the cache */
}

CASE(public_name)
{
    void *slot = NULL;
    use_stack("plain");
    CHECK(ms_real(&slot, (void *)a_hook, "halMemFreeInner", "halMemFree", "libascend_hal.so") != NULL);
}

static void *load(const char *edition)
{
    void *handle = dlopen(library_path(edition, "libascend_hal.so"), RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    return handle;
}

/* Somebody's wrapper of the public name, preloaded behind us and so before the driver, gets its turn. */
CASE(wrapper_before_the_driver)
{
    void *slot = NULL, *wrapper = load("plain");
    load("inner");
    CHECK(ms_real(&slot, (void *)a_hook, "halMemFreeInner", "halMemFree", "none") == dlsym(wrapper, "halMemFree"));
}

CASE(public_name_behind_the_driver)
{
    void *slot = NULL, *driver = load("inner");
    load("plain");
    CHECK(ms_real(&slot, (void *)a_hook, "halMemFreeInner", "halMemFree", "none") == dlsym(driver, "halMemFreeInner"));
}

/* The hook's library came later than the driver. */
CASE(driver_before_the_hook)
{
    void *slot = NULL, *driver = load("inner"), *later = dlsym(load("plain"), "halMemFree");
    CHECK(later != NULL);
    CHECK(ms_real(&slot, later, "halMemFreeInner", "halMemFree", "none") == dlsym(driver, "halMemFreeInner"));
}

CASE(nowhere)
{
    void *slot = NULL;
    char far[5000];
    errno = EDOM;
    use_stack("none");
    CHECK(ms_real(&slot, (void *)a_hook, "halMemFreeInner", "no_such_function", "libascend_hal.so") == NULL);
    unsetenv("ASCEND_HOME_PATH");
    CHECK(ms_real(&slot, (void *)a_hook, NULL, "no_such_function", "libascend_hal.so") == NULL);
    memset(far, 'x', sizeof far);
    far[sizeof far - 1] = 0;
    setenv("ASCEND_HOME_PATH", far, 1);
    CHECK(ms_real(&slot, (void *)a_hook, NULL, "no_such_function", "libascend_hal.so") == NULL);
    CHECK(slot == NULL);
    CHECK_EQ(errno, EDOM);
}

CASE(loads)
{
    unsigned long long before = library_loads();
    CHECK_EQ(library_loads(), before);
    CHECK(dlopen(library_path("inner", "libascend_hal.so"), RTLD_NOW | RTLD_LOCAL) != NULL);
    CHECK(library_loads() > before);
}

int test_symbols(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_dlsym),
        cmocka_unit_test(after_own_library),
        cmocka_unit_test(local_library),
        cmocka_unit_test(sysv_hash),
        cmocka_unit_test(stays_loaded),
        cmocka_unit_test(loaded_from_home),
        cmocka_unit_test(public_name),
        cmocka_unit_test(nowhere),
        cmocka_unit_test(wrapper_before_the_driver),
        cmocka_unit_test(public_name_behind_the_driver),
        cmocka_unit_test(driver_before_the_hook),
        cmocka_unit_test(loads),
    };
    return cmocka_run_group_tests_name("symbols", tests, NULL, NULL);
}
