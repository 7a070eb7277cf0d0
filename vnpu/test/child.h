/*
 * child.h - a test body in a process of its own.
 *
 * The virtual NPU reads its environment once in a process, and mstx looks for its tool once, so what depends on either
 * runs in a fork of a process that has not called them yet.
 */
#ifndef VNPU_TEST_CHILD_H
#define VNPU_TEST_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a child, where cmocka's asserts would go on with the parent's tests. */
#define EXPECT(condition)                                                        \
    do {                                                                         \
        if (!(condition)) {                                                      \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                                      \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

/* Runs `body` in a child with the variables of `environment` (name, value, ..., NULL) set; the test fails unless it ends
 * with status 0. Standard error of the child comes back in `errors` where that is not NULL. */
static inline void in_child(void (*body)(void), const char *const *environment, char *errors, size_t room)
{
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (; environment && *environment; environment += 2)
            setenv(environment[0], environment[1], 1);
        if (errors)
            dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        body();
        exit(0);
    }
    close(pipe_ends[1]);
    size_t length = 0;
    char byte;
    while (read(pipe_ends[0], &byte, 1) == 1)
        if (errors && length + 1 < room)
            errors[length++] = byte;
    if (errors)
        errors[length] = 0;
    close(pipe_ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
