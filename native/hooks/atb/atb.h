/*
 * atb.h - what the files of the ATB hooks share.
 */
#ifndef MSMEMSCOPE_ATB_H
#define MSMEMSCOPE_ATB_H

#include <stddef.h>

#include "atb_abi.h"
#include "wire.h"

enum { ATB_TEXT_BYTES = 255 }; /* of a name or a path, with its end; longer ones are cut (contract 3.2) */

/*
 * text.cpp: calls `get`, a const member function of `object` without parameters that returns a std::string, and copies the
 * string to `out`, cut to `size` bytes with its end. `destroy` is the string's destructor.
 */
void atb_get_text(void *get, void (*destroy)(void *), const void *object, char *out, size_t size);

/* The tensors of a list, of which there are `size`; NULL when it cannot be one. */
const struct atb_tensor *atb_all(const struct atb_tensors *tensors);

/*
 * tensors.c, between ms_enter and ms_leave: a record for each tensor that has memory on a card. `name` is that of the operator
 * or kernel.
 */
void atb_put_tensors(const struct atb_tensors *tensors, enum ms_access_kind kind, uint16_t device, const char *name);
void mki_put_tensors(const struct mki_tensors *tensors, enum ms_access_kind kind, uint16_t device, const char *name);

/* probe.c: says so, once, where kernels are wanted that this libatb.so will not tell. Outside of ms_enter and ms_leave. */
void atb_expect_kernels(void);

#endif
