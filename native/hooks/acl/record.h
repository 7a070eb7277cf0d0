/*
 * record.h - how the hooks of AscendCL record, within libascend_acl_hook.so.
 *
 * The library is preloaded by mssanitizer beside the agent, and linked to programs that were built with its header. Those
 * also run without mssanitizer: there is no agent then, and nothing is recorded.
 */
#ifndef MSMEMSCOPE_ACL_RECORD_H
#define MSMEMSCOPE_ACL_RECORD_H

#include "agent.h"

typedef int aclError;

enum { ACL_SUCCESS = 0, ACL_ERROR_INTERNAL_ERROR = 500000 };

/* Where a block is, when the call does not name a card: on the thread's current one, or in the host's memory. */
enum { ON_CURRENT = -1, ON_HOST = -2 };

/* The function of AscendCL or the driver behind a hook of ours, cached in `slot`; NULL when there is none. */
void *behind(void **slot, const char *name);

/* Records a block when the call that made it has succeeded. `card` is a logical one, or see above; `file` may be NULL. Returns `result`. */
aclError put_block(aclError result, const void *block, uint64_t size, int card, uint8_t flags, const char *file,
                   int line);

/* Records a free, before the call; returns whether there is something to undo. */
bool put_free(enum ms_type type, const void *block);

void put_map(enum ms_interest interest, enum ms_type type, const void *address, const void *handle);

#endif
