/* impl.h - the Impl functions of libacl_rt_impl.so, one for each line of the table. */
#ifndef VNPU_IMPL_H
#define VNPU_IMPL_H

#include "../common/export.h"
#include "acl/acl.h"
#include "runtime/rt.h"

#define ACL_FUNCTION(type, name, parameters, arguments) VNPU_API type name##Impl parameters;
#include "acl/acl_functions.def"
#undef ACL_FUNCTION

#endif
