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

/*
 * The address of function `name` in the first library, in load order, that defines it; with `after`, only libraries
 * loaded after the one that contains that address count. The library is kept loaded from then on. NULL: nowhere.
 */
void *find_symbol(const char *name, const void *after);

/* How many libraries have been loaded in this process so far: while it stands still, a failed look-up stays failed. */
unsigned long long library_loads(void);

#endif
