/*
 * compare.c - the hook's cost: `compare LIBRARY ROUNDS`. Runs the workloads plainly, with the library idle, with an open
 * window and with what else this machine has, interleaved, and prints the medians of the ratios to the plain run beside it,
 * and the ratio of the least times, which a busy machine disturbs less. From the environment: WORKLOADS and TOOLS choose
 * some, by the names that are printed; BASE is another build of the library, to be compared with.
 *
 * Three times: processor time of the workload from after the start of the program, which is what is compared in the first
 * place; wall time of the same, which says little while others use the machine; and the processor time of all processes with
 * their start, which is where the helpers of a tool are.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test/tables.h"

static char folder[512];
static const char *library, *base;

enum how { PLAIN, IDLE, OPEN, BASE, SAMPLED, HEAPTRACK, JEMALLOC, JEMALLOC_SAMPLED, LSAN, HOWS };
static const char *const how_names[] = {"native",    "closed window", "open window",      "base", "1 in 1024",
                                        "heaptrack", "jemalloc",      "jemalloc sampled", "LSan"};

static const struct workload {
    const char *name, *program, *number;
    enum how last_wanted; /* W5 is too long for all of them */
    double live;          /* blocks in the end, where memory for each is of interest */
    int rounds_most;
    uint32_t native_depth, python_depth;
    const char *python_malloc;
} workloads[] = {
    {"W1", "W1", "", HOWS, 0, 64, 20, 0, NULL},
    {"W2", "W2", "4", HOWS, 0, 64, 20, 0, NULL},
    {"W2 of 2 threads", "W2", "2", BASE + 1, 0, 64, 20, 0, NULL},
    {"W2 of 16 threads", "W2", "16", BASE + 1, 0, 64, 20, 0, NULL},
    {"W3", NULL, "", HOWS, 0, 64, 20, 20, "malloc"},
    {"W3 native stacks", NULL, "", BASE + 1, 0, 64, 20, 0, "malloc"},
    /* So much other work that heaptrack takes three times as long, as where the targets come from. */
    {"W3 with work", NULL, "220", HEAPTRACK + 1, 0, 64, 20, 20, "malloc"},
    {"W3 with work native stacks", NULL, "220", BASE + 1, 0, 64, 20, 0, "malloc"},
    {"W3 pymalloc", NULL, "", HEAPTRACK + 1, 0, 64, 20, 20, "pymalloc"},
    {"W4", "W4", "2000000", HOWS, 2e6, 64, 20, 0, NULL},
    {"W5", "W5", "2000000", BASE + 1, 2e6, 64, 20, 0, NULL},
    {"W5 of 20 million", "W5", "20000000", BASE + 1, 20e6, 3, 20, 0, NULL},
    /* The ledger, and hardly any walk. */
    {"W5 of 20 million with one frame", "W5", "20000000", BASE + 1, 20e6, 3, 1, 0, NULL},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads, ROUNDS_MOST = 64 };

static const char jemalloc[] = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
static const char heaptrack[] = "/usr/bin/heaptrack";

/* Whether jemalloc was built with its profiler: it complains of the option if not. */
static bool jemalloc_profiles(void)
{
    char line[64] = "";
    FILE *out =
        popen("MALLOC_CONF=prof:true LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 /bin/true 2>&1", "r");
    if (out && fgets(line, sizeof line, out))
        line[0] = '!';
    if (out)
        pclose(out);
    return !line[0];
}

/* NULL: it can be run; else why not, or "" when nobody asked for it. */
static const char *missing(enum how how, const struct workload *w)
{
    const char *only = getenv("TOOLS");
    if (how == BASE ? !base : how >= w->last_wanted || (only && how != PLAIN && !strstr(only, how_names[how])))
        return "";
    if (how == HEAPTRACK && access(heaptrack, X_OK) != 0)
        return "no /usr/bin/heaptrack";
    if ((how == JEMALLOC || how == JEMALLOC_SAMPLED) && access(jemalloc, R_OK) != 0)
        return "no libjemalloc.so.2";
    if (how == JEMALLOC_SAMPLED && !jemalloc_profiles())
        return "this libjemalloc.so.2 was built without its profiler";
    if (how == LSAN && !w->program)
        return "the interpreter is not built for it";
    return NULL;
}

static bool recorded(enum how how)
{
    return how == OPEN || how == BASE || how == SAMPLED;
}

static void become(enum how how, const struct workload *w, const char *session)
{
    char program[600], *arguments[8];
    int n = 0;
    snprintf(program, sizeof program, "%s/workload%s", folder, how == LSAN ? "-lsan" : "");
    setenv("LSAN_OPTIONS", "exitcode=0:log_path=/dev/null", 1);
    if (how == IDLE || recorded(how))
        setenv("LD_PRELOAD", how == BASE ? base : library, 1);
    if (recorded(how))
        setenv("MSMEMSCOPE_SESSION", session, 1);
    if (how == JEMALLOC || how == JEMALLOC_SAMPLED)
        setenv("LD_PRELOAD", jemalloc, 1);
    if (how == JEMALLOC_SAMPLED)
        setenv("MALLOC_CONF", "prof:true,lg_prof_sample:19", 1);
    if (how == HEAPTRACK) {
        static char to[600];
        snprintf(to, sizeof to, "%s/heaptrack", folder);
        setrlimit(RLIMIT_AS, &(struct rlimit){8UL << 30, 8UL << 30}); /* its interpreter may want everything there is */
        arguments[n++] = (char *)heaptrack;
        arguments[n++] = "-o";
        arguments[n++] = to;
    }
    if (!w->program) {
        static char script[600];
        snprintf(script, sizeof script, "%s/objects.py", folder);
        setenv("PYTHONMALLOC", w->python_malloc, 1);
        arguments[n++] = "/usr/bin/python3";
        arguments[n++] = script;
    } else {
        arguments[n++] = program;
        arguments[n++] = (char *)w->program;
    }
    if (w->number[0])
        arguments[n++] = (char *)w->number;
    arguments[n] = NULL;
    execvp(arguments[0], arguments);
    _exit(127);
}

struct result {
    double ns, wall; /* what the workload prints */
    double all;      /* processor time of all processes, s */
    double peak;     /* bytes */
    double tables;   /* bytes of the arena, with an open window */
};

static struct result measure(enum how how, const struct workload *w)
{
    struct collector c;
    int out[2], status;
    char text[4096] = "";
    size_t length = 0;
    ssize_t got;
    struct rusage usage;
    struct result r = {0};
    if (recorded(how))
        collector_open(&c, &(struct sizes){.native_depth = w->native_depth,
                                           .python_depth = w->python_depth,
                                           .sample_mask = how == SAMPLED ? 1023 : 0});
    if (pipe(out) < 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        become(how, w, recorded(how) ? c.session : "");
    }
    close(out[1]);
    if (recorded(how))
        collector_serve(&c);
    while ((got = read(out[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(out[0]);
    wait4(child, &status, 0, &usage);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        double cpu, wall;
        int end = 0;
        if (sscanf(line, "%lf %lf%n", &cpu, &wall, &end) == 2 && line[end] == 0) {
            r.ns = cpu;
            r.wall = wall;
        }
    }
    r.all = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    r.peak = (double)usage.ru_maxrss * 1024;
    if (status != 0)
        fprintf(stderr, "%s, %s: status %#x\n", w->name, how_names[how], (unsigned)status);
    if (recorded(how)) {
        r.tables = (double)c.heap->arena_next;
        collector_close(&c);
    }
    return r;
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Sorts. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

static void compare(const struct workload *w, int rounds)
{
    static double ratio[HOWS][ROUNDS_MOST], ns[HOWS][ROUNDS_MOST], peak[HOWS][ROUNDS_MOST];
    static double wall[HOWS][ROUNDS_MOST], all[HOWS][ROUNDS_MOST];
    struct result plain = {0};
    const char *why[HOWS];
    double tables = 0, native = 0;
    rounds = rounds < w->rounds_most ? rounds : w->rounds_most;
    for (enum how how = 0; how < HOWS; how++)
        why[how] = missing(how, w);
    for (int round = 0; round < rounds; round++)
        for (enum how how = 0; how < HOWS; how++) {
            if (why[how])
                continue;
            struct result r = measure(how, w);
            plain = how == PLAIN ? r : plain;
            ns[how][round] = r.ns;
            ratio[how][round] = r.ns / plain.ns;
            wall[how][round] = r.wall / plain.wall;
            all[how][round] = r.all / plain.all;
            peak[how][round] = r.peak;
            tables = how == OPEN ? r.tables : tables;
        }
    printf("%s, %d rounds\n", w->name, rounds);
    for (enum how how = 0; how < HOWS; how++) {
        if (why[how] && why[how][0])
            printf("  %-18s SKIPPED: %s\n", how_names[how], why[how]);
        if (why[how])
            continue;
        double usual = median(ns[how], rounds), least = ns[how][0];
        native = how == PLAIN ? least : native;
        printf("  %-16s %8.1f ns %6.2f x native   least %8.1f ns %6.2f x   wall %6.2f x   all %6.2f x   peak %.0f MB\n",
               how_names[how], usual, median(ratio[how], rounds), least, least / native, median(wall[how], rounds),
               median(all[how], rounds), median(peak[how], rounds) / 1e6);
    }
    if (!why[OPEN])
        printf("  tables with an open window: %.1f MB\n", tables / 1e6);
    if (!why[OPEN] && w->live > 0)
        printf("  for each of %.0f live blocks: %.1f bytes\n", w->live, tables / w->live);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (argc < 2 || length < 0 || rounds < 1 || rounds > ROUNDS_MOST)
        return 2;
    folder[length] = 0;
    *strrchr(folder, '/') = 0;
    library = realpath(argv[1], NULL);
    base = getenv("BASE") ? realpath(getenv("BASE"), NULL) : NULL;
    const char *only = getenv("WORKLOADS");
    for (int w = 0; w < WORKLOADS; w++) {
        bool wanted = !only;
        for (const char *at = only; at && (at = strstr(at, workloads[w].name)); at++) {
            char behind = at[strlen(workloads[w].name)];
            wanted |= behind == 0 || behind == ',';
        }
        if (wanted)
            compare(&workloads[w], rounds);
    }
    return 0;
}
