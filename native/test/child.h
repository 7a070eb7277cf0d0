/*
 * child.h - every case runs in a forked child: the agent connects once per process, and a child starts anew.
 *
 * cmocka's own assertions leave by longjmp and so cannot be used there; CHECK says what is wrong and exits.
 */
#ifndef MSMEMSCOPE_TEST_CHILD_H
#define MSMEMSCOPE_TEST_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define CHECK_EQ(got, want)                                                                          \
    do {                                                                                             \
        long long got_ = (long long)(got), want_ = (long long)(want);                                \
        if (got_ != want_) {                                                                         \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* Runs `body` in a child and fails the cmocka case unless it returns within 20 s. */
void in_child(void (*body)(void));

/* Defines the cmocka case `name`, whose body runs in a child. */
#define CASE(name)                 \
    static void name##_body(void); \
    static void name(void **state) \
    {                              \
        (void)state;               \
        in_child(name##_body);     \
    }                              \
    static void name##_body(void)

/* Descriptors that are open in this process. */
int open_descriptors(void);

/* Makes standard error a file, and reads it back with the descriptor put where it was. */
void capture_stderr(void);
const char *captured_stderr(void);

#endif
