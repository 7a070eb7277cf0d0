/*
 * label.c - labels: who owns what is allocated. The collector keeps the stacks of labels (docs/design.md, "Owners").
 *
 * They are recorded whatever is analysed: the analysis may be asked for after a label was pushed.
 */
#include "state.h"

#include <errno.h>
#include <string.h>

#include "msmemscope.h"

_Static_assert((int)MS_LABEL_DETAIL_2 == (int)MS_LEVEL_DETAIL_2 && (int)MS_LABEL_USER_1 == (int)MS_LEVEL_USER &&
                   (int)MS_LABEL_BYTES == (int)MS_LABEL_MAX,
               "wire.h and msmemscope.h disagree");

static int put_label(enum ms_type type, uint64_t value, const char *text)
{
    if (!enter())
        return -1;
    int saved = errno;
    ms_put_text(type, MS_DEVICE_NONE, value, text);
    errno = saved;
    ms_leave();
    return 0;
}

static bool acceptable(int level, const char *label)
{
    return level >= MS_LABEL_FRAMEWORK && level <= MS_LABEL_USER_3 && label && *label &&
           strnlen(label, MS_LABEL_MAX + 1) <= MS_LABEL_MAX;
}

static uint64_t stack_of(int level)
{
    return level > MS_LEVEL_USER ? MS_LEVEL_USER : (uint64_t)level;
}

MS_EXPORT int ms_label_push(int level, const char *label)
{
    return acceptable(level, label) ? put_label(MS_LABEL_PUSH, stack_of(level), label) : -2;
}

MS_EXPORT int ms_label_pop(int level, const char *label)
{
    return acceptable(level, label) ? put_label(MS_LABEL_POP, stack_of(level), label) : -2;
}

MS_EXPORT int ms_label_address(uint64_t address, int level, const char *label)
{
    if (!acceptable(level, label))
        return -2;
    char text[MS_LABEL_MAX + 3] = {(char)('0' + level), ':'};
    memcpy(text + 2, label, strlen(label));
    return put_label(MS_LABEL_ADDRESS, address, text);
}
