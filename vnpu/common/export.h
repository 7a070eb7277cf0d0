/* export.h - the libraries are built with hidden visibility; what the outside may see is marked. */
#ifndef VNPU_EXPORT_H
#define VNPU_EXPORT_H

#define VNPU_API __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
