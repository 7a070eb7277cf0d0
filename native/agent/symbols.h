/*
 * symbols.h - looking symbols up in the libraries of this process without libdl.
 *
 * Why not dlsym: up to glibc 2.33 it lives in libdl.so.2, and a DT_NEEDED for that costs every helper process that
 * inherits the preload about 60 us (a tenth of what starting /bin/true takes). This look-up also sees
 * libraries that were loaded RTLD_LOCAL (Python extensions), leaves the target's dlerror() alone, and does not take the loader's
 * big lock, which a thread inside dlopen() may hold while its constructors wait for us.
 */
#ifndef MSMEMSCOPE_AGENT_SYMBOLS_H
#define MSMEMSCOPE_AGENT_SYMBOLS_H

#include <stdbool.h>

struct search {
    const char *inner;   /* wanted of any library, before `name`; may be NULL */
    const char *name;    /* of a function, or a variable */
    bool data;           /* a variable */
    const void *after;   /* an address: only libraries behind the one that has it count for `name`; NULL: all */
    const char *except;  /* libraries that define this are passed over; may be NULL */
    void *found;         /* its address */
    const char *library; /* which has it; the loader's own string; empty for the program itself */
};

/* The first library, in load order, that defines what is wanted. Fills in and returns `found`; NULL: nowhere. `after` is used up. */
void *search_libraries(struct search *search);

/* Keeps a library loaded from now on. */
void keep_library(const char *path);

/* Opens a library with whatever dlopen the process has; NULL also when it has none. */
void *open_library(const char *path, int mode);

/* search_libraries for `name` behind `after`, and keep_library. */
void *find_symbol(const char *name, const void *after);

/* The same for a variable, in any library. */
void *find_data(const char *name);

/* How many libraries have been loaded in this process so far: while it stands still, a failed look-up stays failed. */
unsigned long long library_loads(void);

#endif
