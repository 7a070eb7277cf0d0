/* forward.c - all of libascendcl.so: each function passes its arguments on to its Impl in libacl_rt_impl.so. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/export.h"
#include "impl.h"

#define ACL_FUNCTION(type, name, parameters, arguments) \
    VNPU_API type name parameters                       \
    {                                                   \
        return name##Impl arguments;                    \
    }
#include "acl/acl_functions.def"

/* As the real one: nothing on the terminal but with ASCEND_SLOG_PRINT_TO_STDOUT=1, from ASCEND_GLOBAL_LOG_LEVEL (3: errors) on. */
VNPU_API void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    const char *print = getenv("ASCEND_SLOG_PRINT_TO_STDOUT"), *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    if (!print || strcmp(print, "1") != 0 || (int)logLevel < (level ? atoi(level) : ACL_ERROR))
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    printf("vnpu: %s:%u %s: %s\n", file, line, func, text);
}
