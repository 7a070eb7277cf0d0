/*
 * watch - launches kernels of the runtime that fill memory which it has registered, and tells what is dumped around them.
 *
 * usage: watch kernels [START]   kernels one after the other, one that is refused, and tensors that come and go
 *        watch threads [COUNT]   four threads, each COUNT times its own kernel
 *        watch fork              in the parent, a child and the parent again
 *        watch pause             before, between and after ms_stop and ms_start
 *        watch cards             on two cards
 *
 * For each dump a line: DUMP, its label, and the byte that the tensor is full of. START is the kernel that --watch begins with, if it is
 * Fill0: its first end has a count of its own.
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "runtime/rt.h"

enum { BYTES = 100000, KERNELS = 4 };

static const char binary_text[] = "Fill0 10\nFill1 20\nFill/2, odd 0\nFill3 5\n";
static const char *const names[KERNELS] = {"Fill0", "Fill1", "Fill/2, odd", "Fill3"};
static char stubs[KERNELS];
static int count[KERNELS]; /* launches so far */
static int (*watch)(uint64_t, uint64_t, const char *, int);
static int (*unwatch)(uint64_t, uint64_t);

struct tensor {
    void *at;
    const char *name; /* NULL: not watched */
    int fill;
};

static void check(const char *what, int error)
{
    if (error)
        die(what, error);
}

static void steer(const char *name)
{
    int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, name);
    if (f)
        check(name, f());
}

static struct tensor make(int card, int fill)
{
    struct tensor t = {.fill = fill};
    check("aclrtSetDevice", aclrtSetDevice(card));
    check("aclrtMalloc", aclrtMalloc(&t.at, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY));
    check("aclrtMemset", aclrtMemset(t.at, BYTES, fill, BYTES));
    return t;
}

static void begin(struct tensor *t, const char *name, int times)
{
    t->name = name;
    if (watch)
        check("ms_watch", watch((uintptr_t)t->at, BYTES, name, times));
}

static void end(struct tensor *t)
{
    t->name = NULL;
    if (unwatch)
        check("ms_unwatch", unwatch((uintptr_t)t->at, BYTES));
}

static void tell(int card, int kernel, int number, const struct tensor *t, const char *side)
{
    if (t->name)
        printf("DUMP\t%d_%d/%s_%d-%s_0_%s.bin\t%d\n", card, gettid(), names[kernel], number, t->name, side, t->fill);
}

static int start(int kernel, const struct tensor *t, int fill)
{
    struct {
        void *at;
        uint64_t bytes, value;
    } what = {t->at, BYTES, (uint64_t)fill};
    return rtKernelLaunch(&stubs[kernel], 1, &what, sizeof what, NULL, NULL);
}

/* The first of some tensors is filled; what the dumps show of all of them is told. `opens` is the number of the window that this opens. */
static void launch(int card, int kernel, struct tensor *all, int tensors, int fill, int opens)
{
    flockfile(stdout);
    int number = ++count[kernel];
    for (int i = 0; i < tensors; i++)
        tell(card, kernel, number, &all[i], "before");
    funlockfile(stdout);
    check("rtKernelLaunch", start(kernel, &all[0], fill));
    check("aclrtSynchronizeDevice", aclrtSynchronizeDevice());
    all[0].fill = fill;
    flockfile(stdout);
    for (int i = 0; i < tensors; i++)
        tell(card, kernel, opens ? opens : number, &all[i], "after");
    funlockfile(stdout);
}

static void kernels(bool window)
{
    struct tensor t[2] = {make(0, 1), make(0, 2)};
    launch(0, 1, t, 2, 3, 0); /* nothing is watched yet, but it counts */
    begin(&t[0], "first", -1);
    launch(0, 1, t, 2, 4, 0);
    begin(&t[1], "second, \"odd\"", 3);
    launch(0, 0, t, 2, 5, window ? 1 : 0);
    if (start(0, &t[0], 6) != 0 || rtKernelLaunch(&binary_text, 1, NULL, 0, NULL, NULL) == 0)
        die("a kernel that there is not", 0);
    tell(0, 0, ++count[0], &t[0], "before");
    tell(0, 0, count[0], &t[1], "before");
    t[0].fill = 6;
    tell(0, 0, count[0], &t[0], "after");
    t[1].name = NULL; /* three times are over */
    launch(0, 2, t, 2, 7, 0);
    end(&t[0]);
    launch(0, 1, t, 2, 8, 0);
    begin(&t[0], "again", -1);
    launch(0, 0, t, 2, 9, window ? 2 : 0);
}

static struct tensor shared[KERNELS];
static uint64_t rounds;

static void *work(void *number)
{
    int mine = (int)(intptr_t)number;
    check("aclrtSetDevice", aclrtSetDevice(0));
    for (uint64_t i = 0; i < rounds; i++) {
        flockfile(stdout);
        count[mine]++;
        for (int side = 0; side < 2; side++)
            for (int t = 0; t < KERNELS; t++)
                tell(0, mine, count[mine], &shared[t], side ? "after" : "before");
        funlockfile(stdout);
        check("rtKernelLaunch", start(mine, &shared[mine], shared[mine].fill)); /* with what is in it already */
    }
    return NULL;
}

static void threads(void)
{
    static const char *const labels[KERNELS] = {"a", "b", "c", "d"};
    pthread_t ids[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        shared[i] = make(0, 10 + i);
        begin(&shared[i], labels[i], -1);
    }
    for (int i = 0; i < KERNELS; i++)
        check("pthread_create", pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i));
    for (int i = 0; i < KERNELS; i++)
        pthread_join(ids[i], NULL);
}

static void forked(void)
{
    struct tensor t = make(0, 1);
    begin(&t, "parent", -1);
    launch(0, 0, &t, 1, 2, 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        t.name = NULL; /* nothing is watched in a child, and nothing was launched */
        count[0] = 0;
        struct tensor own = make(0, 3);
        launch(0, 0, &own, 1, 4, 0);
        begin(&own, "child", -1);
        launch(0, 0, &own, 1, 5, 0);
        exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        die("child", status);
    launch(0, 0, &t, 1, 6, 0);
}

static void paused(void)
{
    struct tensor t = make(0, 1);
    begin(&t, "t", -1);
    launch(0, 0, &t, 1, 2, 0);
    steer("ms_stop");
    check("launch", start(0, &t, 3));
    t.fill = 3;
    steer("ms_start");
    launch(0, 0, &t, 1, 4, 0);
}

static void cards(void)
{
    struct tensor t[2] = {make(0, 1), make(1, 2)};
    begin(&t[0], "on 0", -1);
    begin(&t[1], "on 1", -1);
    check("aclrtSetDevice", aclrtSetDevice(0));
    launch(0, 0, t, 2, 3, 0);
    check("aclrtSetDevice", aclrtSetDevice(1));
    launch(1, 0, t, 2, 4, 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    void *binary;
    watch = (__typeof__(watch))dlsym(RTLD_DEFAULT, "ms_watch");
    unwatch = (__typeof__(unwatch))dlsym(RTLD_DEFAULT, "ms_unwatch");
    rounds = argument(argc, argv, 2, 20);
    check("aclInit", aclInit(NULL));
    check("aclrtBinaryLoadFromData", aclrtBinaryLoadFromData(binary_text, sizeof binary_text - 1, NULL, &binary));
    for (int i = 0; i < KERNELS; i++)
        check("rtFunctionRegister", rtFunctionRegister(binary, &stubs[i], names[i], names[i], 0));
    if (strcmp(what, "kernels") == 0)
        kernels(argc > 2 && strcmp(argv[2], names[0]) == 0);
    else if (strcmp(what, "threads") == 0)
        threads();
    else if (strcmp(what, "fork") == 0)
        forked();
    else if (strcmp(what, "pause") == 0)
        paused();
    else if (strcmp(what, "cards") == 0)
        cards();
    else
        die("usage", 0);
    return 0;
}
