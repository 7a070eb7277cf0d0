/*
 * main.c - runs the native unit tests; the result is the number of failed cases.
 */
#include "child.h"
#include "fake.h"

#include <string.h>
#include <unistd.h>

struct fake fake;

static char home[512]; /* the folder of this program, which has the editions */

void use_stack(const char *edition)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", home, edition);
    setenv("ASCEND_HOME_PATH", path, 1);
}

int test_connect(void);
int test_ring(void);
int test_trace(void);
int test_device(void);
int test_symbols(void);
int test_fork(void);
int test_hal(void);
int test_mstx(void);
int test_kernel(void);
int test_python(void);
int test_unwind(void);
int test_stack(void);

int main(int argc, char **argv)
{
    (void)argc;
    ssize_t length = readlink("/proc/self/exe", home, sizeof home - 1);
    if (length < 0)
        return 1;
    home[length] = 0;
    *strrchr(home, '/') = 0;
    unsetenv("MSMEMSCOPE_SESSION");
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    use_stack("inner");
    const struct {
        const char *name;
        int (*run)(void);
    } groups[] = {
        {"connect", test_connect}, {"ring", test_ring},     {"trace", test_trace},   {"device", test_device},
        {"symbols", test_symbols}, {"fork", test_fork},     {"hal", test_hal},       {"mstx", test_mstx},
        {"kernel", test_kernel},   {"python", test_python}, {"unwind", test_unwind}, {"stack", test_stack},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (!argv[1] || strcmp(argv[1], groups[i].name) == 0)
            failed += groups[i].run();
    return failed;
}
