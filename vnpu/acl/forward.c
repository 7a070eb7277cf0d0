/* forward.c - all of libascendcl.so: each function passes its arguments on to its Impl in libacl_rt_impl.so. */
#include "../common/export.h"
#include "impl.h"

#define ACL_FUNCTION(type, name, parameters, arguments) \
    VNPU_API type name parameters                       \
    {                                                   \
        return name##Impl arguments;                    \
    }
#include "acl/acl_functions.def"
