/*
 * loaded.h - the libraries that frames of C lie in.
 */
#ifndef MSMEMSCOPE_AGENT_LOADED_H
#define MSMEMSCOPE_AGENT_LOADED_H

#include <stdbool.h>

/*
 * Says in the ring what library the unwinder's number means, once per client. False: the collector is gone, or the library
 * is just being entered by another thread. Changes errno.
 */
bool define_loaded(unsigned number);

/* Whether a library is one of ours: `agent`, the number of the agent's, or in the same folder. */
bool is_own(unsigned number, unsigned agent);

/* For a new client. The agent exports dlclose, too, to hear what is unloaded. */
void forget_loaded(void);

#endif
