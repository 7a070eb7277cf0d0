/*
 * told.h - a target tells each row that it expects in the dump, column by column, for test/smoke/told_test.go to compare:
 *
 *     ROW <tab> before <tab> after <tab> thread <tab> Event <tab> Event Type <tab> Name <tab> Device Id <tab> Ptr <tab> Attr
 *
 * before and after are readings of the wall clock, ns, around the call. Attr is without allocation_id, addr and braces.
 */
#ifndef TOLD_H
#define TOLD_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t told_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* `before` is the reading from before the call, this takes the one after it. `row` is a format of "Event\tType\tName\tDevice". */
__attribute__((format(printf, 4, 5))) static inline void told(uint64_t before, const char *row, const void *block,
                                                              const char *attr, ...)
{
    uint64_t after = told_clock();
    printf("ROW\t%llu\t%llu\t%d\t%s\t", (unsigned long long)before, (unsigned long long)after, gettid(), row);
    if (block)
        printf("0x%016llx\t", (unsigned long long)(uintptr_t)block);
    else
        printf("N/A\t");
    va_list arguments;
    va_start(arguments, attr);
    vprintf(attr, arguments);
    va_end(arguments);
    putchar('\n');
}

#endif
