/*
 * compare.c - the hook's cost: `compare LIBRARY ROUNDS`. Runs the workloads plainly, with the library idle, with an open
 * window and with what else this machine has, interleaved, and prints the medians of the ratios to the plain run beside it. WORKLOADS
 * and TOOLS in the environment choose some, by the names that are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test/tables.h"

static char folder[512];
static const char *library;

enum how { PLAIN, IDLE, OPEN, HEAPTRACK, JEMALLOC, JEMALLOC_SAMPLED, LSAN, HOWS };
static const char *const how_names[] = {"native",   "closed window",    "open window", "heaptrack",
                                        "jemalloc", "jemalloc sampled", "LSan"};

static const struct workload {
    const char *name, *number;
    enum how last_wanted; /* W5 is too long for all of them */
} workloads[] = {
    {"W1", "", HOWS}, {"W2", "", HOWS}, {"W3", "", HOWS}, {"W4", "2000000", HOWS}, {"W5", "2000000", OPEN + 1},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads, ROUNDS_MOST = 64 };

static const char jemalloc[] = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

static int available(enum how how)
{
    const char *only = getenv("TOOLS");
    if (only && how != PLAIN && !strstr(only, how_names[how]))
        return 0;
    switch (how) {
    case HEAPTRACK:
        return access("/usr/bin/heaptrack", X_OK) == 0;
    case JEMALLOC:
    case JEMALLOC_SAMPLED:
        return access(jemalloc, R_OK) == 0;
    default:
        return 1;
    }
}

static void become(enum how how, const struct workload *w, const char *session)
{
    char program[600], *arguments[8];
    int n = 0;
    snprintf(program, sizeof program, "%s/workload%s", folder, how == LSAN ? "-lsan" : "");
    setenv("ASAN_OPTIONS", "detect_leaks=1", 1);
    setenv("LSAN_OPTIONS", "exitcode=0:log_path=/dev/null", 1);
    if (how == IDLE || how == OPEN)
        setenv("LD_PRELOAD", library, 1);
    if (how == OPEN)
        setenv("MSMEMSCOPE_SESSION", session, 1);
    if (how == JEMALLOC || how == JEMALLOC_SAMPLED)
        setenv("LD_PRELOAD", jemalloc, 1);
    if (how == JEMALLOC_SAMPLED)
        setenv("MALLOC_CONF", "prof:true,lg_prof_sample:19", 1);
    if (how == HEAPTRACK) {
        arguments[n++] = "heaptrack";
        arguments[n++] = "-o";
        arguments[n++] = "/tmp/bench-host-heaptrack";
    }
    if (strcmp(w->name, "W3") == 0) {
        static char script[600];
        snprintf(script, sizeof script, "%s/objects.py", folder);
        setenv("PYTHONMALLOC", "malloc", 1);
        arguments[n++] = "/usr/bin/python3";
        arguments[n++] = script;
    } else {
        arguments[n++] = program;
        arguments[n++] = (char *)w->name;
        if (w->number[0])
            arguments[n++] = (char *)w->number;
    }
    arguments[n] = NULL;
    execvp(arguments[0], arguments);
    _exit(127);
}

struct result {
    double ns;     /* what the workload prints; W3: processor time of the process */
    double peak;   /* bytes */
    double tables; /* bytes of the arena, with an open window */
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
    if (how == OPEN)
        collector_open(&c, &(struct sizes){.python_depth = 20});
    if (pipe(out) < 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        become(how, w, how == OPEN ? c.session : "");
    }
    close(out[1]);
    if (how == OPEN)
        collector_serve(&c);
    while ((got = read(out[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(out[0]);
    wait4(child, &status, 0, &usage);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *end;
        double v = strtod(line, &end);
        if (end > line && *end == 0)
            r.ns = v;
    }
    if (strcmp(w->name, "W3") == 0)
        r.ns = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
    r.peak = (double)usage.ru_maxrss * 1024;
    if (status != 0)
        fprintf(stderr, "%s, %s: status %#x\n", w->name, how_names[how], (unsigned)status);
    if (how == OPEN) {
        r.tables = (double)c.heap->arena_next;
        collector_close(&c);
    }
    return r;
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
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
    static double ratio[HOWS][ROUNDS_MOST], ns[HOWS][ROUNDS_MOST], peak[HOWS][ROUNDS_MOST];
    for (int w = 0; w < WORKLOADS; w++) {
        const char *only = getenv("WORKLOADS");
        if (only && !strstr(only, workloads[w].name))
            continue;
        double tables = 0;
        for (int round = 0; round < rounds; round++)
            for (enum how how = 0; how < workloads[w].last_wanted; how++) {
                if (!available(how) || (how == LSAN && strcmp(workloads[w].name, "W3") == 0))
                    continue;
                struct result r = measure(how, &workloads[w]);
                ns[how][round] = r.ns;
                ratio[how][round] = r.ns / ns[PLAIN][round];
                peak[how][round] = r.peak;
                tables = how == OPEN ? r.tables : tables;
            }
        printf("%s\n", workloads[w].name);
        for (enum how how = 0; how < workloads[w].last_wanted; how++)
            if (available(how) && !(how == LSAN && strcmp(workloads[w].name, "W3") == 0))
                printf("  %-18s %10.1f ns   %6.2f x native   peak %.0f MB\n", how_names[how], median(ns[how], rounds),
                       median(ratio[how], rounds), median(peak[how], rounds) / 1e6);
        printf("  tables with an open window: %.1f MB\n", tables / 1e6);
        fflush(stdout);
    }
    return 0;
}
