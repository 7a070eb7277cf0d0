/*
 * exec_cost.c - what the preload costs a process that has nothing to do with it.
 *
 *   exec_cost [-n COUNT] LIBRARY... -- PROGRAM [ARG...]
 *
 * Starts the program COUNT times (200) with and without the libraries preloaded, in turn, and prints the medians.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double run(char **program)
{
    struct timespec a, b;
    pid_t pid;
    int status = -1;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (posix_spawnp(&pid, program[0], NULL, NULL, program, environ) != 0 || waitpid(pid, &status, 0) != pid ||
        status) {
        fprintf(stderr, "exec_cost: cannot run %s (status %d)\n", program[0], status);
        exit(1);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int count = 200, i = 1;
    char preload[4096] = "";
    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        count = atoi(argv[2]);
        i = 3;
    }
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strlen(preload) + strlen(argv[i]) + 2 > sizeof preload)
            return 2;
        strcat(preload, preload[0] ? ":" : "");
        strcat(preload, argv[i]);
    }
    if (count < 1 || i + 1 >= argc) {
        fprintf(stderr, "usage: exec_cost [-n COUNT] LIBRARY... -- PROGRAM [ARG...]\n");
        return 2;
    }
    double *with = calloc((size_t)count, sizeof *with), *without = calloc((size_t)count, sizeof *without);
    for (int n = 0; n < count; n++) {
        unsetenv("LD_PRELOAD");
        without[n] = run(argv + i + 1);
        setenv("LD_PRELOAD", preload, 1);
        with[n] = run(argv + i + 1);
    }
    qsort(with, (size_t)count, sizeof *with, ascending);
    qsort(without, (size_t)count, sizeof *without, ascending);
    double a = without[count / 2], b = with[count / 2];
    printf("%s: %.0f us without, %.0f us with the preload, ratio %.2f\n", argv[i + 1], a, b, b / a);
    free(with);
    free(without);
    return 0;
}
