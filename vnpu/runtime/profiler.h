/* profiler.h - what the runtime reports to libprofapi.so, while a profiler has asked for it. */
#ifndef VNPU_PROFILER_H
#define VNPU_PROFILER_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/rt.h"

/* Whether launches on the card are to be reported. */
bool profiler_listens(uint32_t card);
/* Reports a launch by the calling thread, before it is handed to the card. `*id` caches the id of `name`. */
rtError_t profiler_launch(uint32_t card, int32_t stream, uint32_t number, const char *name, uint64_t *id);

#endif
