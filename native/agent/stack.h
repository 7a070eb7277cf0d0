/*
 * stack.h - call stacks, within the agent. agent.h has ms_stack.
 */
#ifndef MSMEMSCOPE_AGENT_STACK_H
#define MSMEMSCOPE_AGENT_STACK_H

#include "state.h"

/* A new client: every id, number and line in the log is to be said again. Before the first event of it. */
void forget_stacks(void);

/* Whether any stack was ever taken. */
bool stacks_used(void);

/* ms_stack from a place that is further out, and what is left out in front of it. */
uint32_t stack_from(const struct ms_regs *here, enum ms_leave_out out, unsigned c_depth, unsigned py_depth);

#endif
