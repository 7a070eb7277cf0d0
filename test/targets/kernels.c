/*
 * kernels - launches kernels and tells what it did.
 *
 * usage: kernels ways [ROUNDS]         through each of the ten functions, on two cards, each waited for
 *        kernels streams [COUNT [N]]   COUNT launches to N streams, 1 or 2, of card 0 in turn, waited for at the end
 *        kernels threads [COUNT]       four threads, each with a stream and COUNT launches, begin at the same moment
 *        kernels pause                 between ms_stop and ms_start of the tool as well, found by name
 *        kernels finalize              twice, with aclFinalize between
 *        kernels held                  with the profiling channel of the card in its own hands
 *        kernels fork                  in the parent, then in a child, then in the parent
 *        kernels direct                through a function that the program has got from the runtime's library itself
 *
 * For each launch a line: name, card, stream, task, process, thread, then times in ns since the epoch: before the call, after it,
 * and when it was known to be done; then what the kernel takes.
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "runtime/rt.h"

static const char binary_text[] = "MatMul 300\nAdd, \"quoted\" 40\nNothing 0\n";
static void *binary;
static char stub;

enum { MATMUL, ADD, NOTHING, CPU };
static const struct {
    const char *name;
    long long ns;
} kinds[] = {{"MatMul", 300000}, {"Add, \"quoted\"", 40000}, {"Nothing", 0}, {"CpuOp", 20000}};

static long long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

struct line {
    int kind, card, stream;
    uint32_t task;
    int tid;
    long long before, after, done;
};

static void tell(const struct line *l)
{
    printf("%s|%d|%d|%u|%d|%d|%lld|%lld|%lld|%lld\n", kinds[l->kind].name, l->card, l->stream, l->task & 0xffff,
           getpid(), l->tid, l->before, l->after, l->done, kinds[l->kind].ns);
}

static void check(const char *what, int error)
{
    if (error)
        die(what, error);
}

static void *function(int kind)
{
    void *f;
    check("aclrtBinaryGetFunction", aclrtBinaryGetFunction(binary, kinds[kind].name, &f));
    return f;
}

static int launch(int way, void *f, void *stream)
{
    switch (way) {
    case 0:
        return rtKernelLaunch(&stub, 1, NULL, 0, NULL, stream);
    case 1:
        return rtKernelLaunchWithFlagV2(&stub, 1, NULL, NULL, stream, 0, NULL);
    case 2:
        return rtKernelLaunchWithHandleV2(binary, ADD, 1, NULL, NULL, stream, NULL);
    case 3:
        return rtAicpuKernelLaunchExWithArgs(0, kinds[CPU].name, 1, NULL, NULL, stream, 0);
    case 4:
        return rtLaunchKernelByFuncHandle(f, 1, NULL, stream);
    case 5:
        return rtLaunchKernelByFuncHandleV2(f, 1, NULL, stream, NULL);
    case 6:
        return aclrtLaunchKernel(f, 1, NULL, 0, stream);
    case 7:
        return aclrtLaunchKernelV2(f, 1, NULL, 0, NULL, stream);
    case 8:
        return aclrtLaunchKernelWithConfig(f, 1, stream, NULL, NULL, NULL);
    default:
        return aclrtLaunchKernelWithHostArgs(f, 1, stream, NULL, NULL, 0, NULL, 0);
    }
}

static const int kind_of_way[] = {MATMUL, MATMUL, ADD, CPU, ADD, ADD, ADD, ADD, NOTHING, NOTHING};

static void load(void)
{
    check("aclrtBinaryLoadFromData", aclrtBinaryLoadFromData(binary_text, sizeof binary_text - 1, NULL, &binary));
    check("rtFunctionRegister", rtFunctionRegister(binary, &stub, "stub", kinds[MATMUL].name, 0));
}

static void ways(uint64_t rounds, int cards)
{
    device_free(device_alloc(4096)); /* a use of the card that the driver's numbers are asked for */
    for (int card = 0; card < cards; card++) {
        void *stream;
        struct line l = {.card = card, .tid = gettid()};
        check("aclrtSetDevice", aclrtSetDevice(card));
        check("aclrtCreateStream", aclrtCreateStream(&stream));
        check("aclrtStreamGetId", aclrtStreamGetId(stream, &l.stream));
        for (uint64_t i = 0; i < rounds; i++)
            for (int way = 0; way < 10; way++, l.task++) {
                l.kind = kind_of_way[way];
                void *f = l.kind == CPU ? NULL : function(l.kind);
                l.before = now(CLOCK_REALTIME);
                check("launch", launch(way, f, stream));
                l.after = now(CLOCK_REALTIME);
                check("aclrtSynchronizeStream", aclrtSynchronizeStream(stream));
                l.done = now(CLOCK_REALTIME);
                tell(&l);
            }
    }
}

/* streams: 1 or 2 */
static void many(uint64_t count, int streams)
{
    void *stream[2], *f = function(NOTHING);
    int id[2];
    struct line *lines = calloc(count, sizeof *lines);
    check("aclrtSetDevice", aclrtSetDevice(0));
    for (int s = 0; s < streams; s++) {
        check("aclrtCreateStream", aclrtCreateStream(&stream[s]));
        check("aclrtStreamGetId", aclrtStreamGetId(stream[s], &id[s]));
    }
    for (uint64_t i = 0; i < count; i++) {
        int s = (int)(i % (uint64_t)streams);
        lines[i] =
            (struct line){NOTHING, 0, id[s], (uint32_t)(i / (uint64_t)streams), gettid(), now(CLOCK_REALTIME), 0, 0};
        check("launch", aclrtLaunchKernel(f, 1, NULL, 0, stream[s]));
        lines[i].after = now(CLOCK_REALTIME);
    }
    check("aclrtSynchronizeDevice", aclrtSynchronizeDevice());
    long long done = now(CLOCK_REALTIME);
    flockfile(stdout);
    for (uint64_t i = 0; i < count; i++) {
        lines[i].done = done;
        tell(&lines[i]);
    }
    funlockfile(stdout);
    free(lines);
}

static pthread_barrier_t barrier;

static void *work(void *count)
{
    pthread_barrier_wait(&barrier);
    many(*(uint64_t *)count, 1);
    return NULL;
}

static void threads(uint64_t count)
{
    pthread_t ids[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 4; i++)
        check("pthread_create", pthread_create(&ids[i], NULL, work, &count));
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
}

static void steer(const char *name)
{
    int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, name);
    if (!f || f())
        die(name, 0);
}

static void hold_channel(void)
{
    uint32_t what[11] = {1};
    struct prof_start_para para = {.sample_period = 20, .real_time = 1, .user_data = what, .user_data_size = 36};
    check("prof_drv_start", prof_drv_start(0, CHANNEL_STARS_SOC_LOG_BUFFER, &para));
}

/* No hook sees this call. */
static void direct(void)
{
    void *library = dlopen("libruntime.so", RTLD_NOW);
    __typeof__(&rtKernelLaunch) real = library ? (__typeof__(&rtKernelLaunch))dlsym(library, "rtKernelLaunch") : NULL;
    if (!real)
        die("rtKernelLaunch", 0);
    check("aclrtSetDevice", aclrtSetDevice(0));
    ways(1, 1); /* somebody listens from here on */
    check("launch", real(&stub, 1, NULL, 0, NULL, NULL));
    check("aclrtSynchronizeDevice", aclrtSynchronizeDevice());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    check("aclInit", aclInit(NULL));
    load();
    if (strcmp(what, "ways") == 0) {
        ways(argument(argc, argv, 2, 1), 2);
    } else if (strcmp(what, "streams") == 0) {
        many(argument(argc, argv, 2, 1000), argument(argc, argv, 3, 2) == 1 ? 1 : 2);
    } else if (strcmp(what, "threads") == 0) {
        threads(argument(argc, argv, 2, 1000));
    } else if (strcmp(what, "pause") == 0) {
        ways(1, 1);
        steer("ms_stop");
        ways(1, 1);
        steer("ms_start");
        ways(1, 1);
    } else if (strcmp(what, "finalize") == 0) {
        ways(1, 1);
        check("aclFinalize", aclFinalize());
        ways(1, 1);
    } else if (strcmp(what, "held") == 0) {
        hold_channel();
        ways(1, 1);
    } else if (strcmp(what, "fork") == 0) {
        ways(1, 1);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            ways(1, 1);
            return 0;
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status != 0)
            die("child", status);
        ways(1, 1);
    } else if (strcmp(what, "direct") == 0) {
        direct();
    } else {
        die("usage", 0);
    }
    return 0;
}
