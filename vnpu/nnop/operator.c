#include "operator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/export.h"
#include "runtime/rt.h"

enum { NAMES = 4096, DEFAULT_US = 5, MOST_US = 60 * 1000 * 1000 };

/* Every operator that was launched, by its name: an open hash table. */
static struct entry {
    char *name;
    void *binary; /* with the one kernel */
    bool said;
} table[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void guard_fork(void)
{
    pthread_atfork(acquire, release, release);
}

static aclnnStatus bad(const char *variable, const char *value, const char *accepted)
{
    static bool said;
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        fprintf(stderr, "vnpu: %s=\"%s\" is not valid: it must be %s\n", variable, value, accepted);
    return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

/* Bytes, with K, M, G or T for powers of 1024, up to a comma or the end. */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    end += unit != NULL;
    if (number > UINT64_MAX >> 44 || (*end && *end != ','))
        return false;
    *bytes = number << (unit ? 10 * (unit - units + 1) : 0);
    return true;
}

/* A comma list of bytes, for every operator, and of NAME=BYTES, for one. The last that fits counts. */
VNPU_API aclnnStatus vnpu_operator_workspace(const char *name, uint64_t *bytes)
{
    const char *text = getenv("VNPU_WORKSPACE");
    size_t length = strlen(name);
    *bytes = 0;
    for (const char *at = text ? text : ""; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *number = at + strcspn(at, "=,");
        uint64_t value;
        bool one = *number == '=';
        if (!parse_bytes(one ? number + 1 : at, &value))
            return bad("VNPU_WORKSPACE", text,
                       "a comma list of bytes and of NAME=BYTES, with K, M, G, T for powers of 1024");
        if (!one || ((size_t)(number - at) == length && memcmp(at, name, length) == 0))
            *bytes = value;
    }
    return ACL_SUCCESS;
}

/* Microseconds that the kernel of an operator takes on the card. */
static aclnnStatus duration(long *us)
{
    const char *text = getenv("VNPU_OPERATOR_US");
    char *end = NULL;
    *us = text ? strtol(text, &end, 10) : DEFAULT_US;
    if (text && (*text < '0' || *text > '9' || *end || *us > MOST_US))
        return bad("VNPU_OPERATOR_US", text, "microseconds from 0 to 60000000");
    return ACL_SUCCESS;
}

/* The entry of this name, made if need be; NULL when there is no room. */
static struct entry *entry_of(const char *name)
{
    size_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    for (size_t i = 0; i < NAMES; i++) {
        struct entry *e = &table[(hash + i) % NAMES];
        if (!e->name)
            e->name = strdup(name);
        if (!e->name || strcmp(e->name, name) == 0)
            return e->name ? e : NULL;
    }
    return NULL;
}

static aclnnStatus load(struct entry *entry)
{
    long us;
    aclnnStatus error = duration(&us);
    if (error)
        return error;
    char text[512];
    int length = snprintf(text, sizeof text, "%s %ld\n", entry->name, us);
    if (length < 0 || (size_t)length >= sizeof text)
        return ACL_ERROR_RT_PARAM_INVALID;
    const rtDevBinary_t binary = {.data = text, .length = (uint64_t)length};
    return rtDevBinaryRegister(&binary, &entry->binary);
}

VNPU_API aclnnStatus vnpu_operator_launch(const char *name, aclrtStream stream)
{
    aclnnStatus error = ACL_SUCCESS;
    acquire();
    struct entry *entry = entry_of(name);
    if (!entry)
        error = ACL_ERROR_RT_MEMORY_ALLOCATION;
    else if (!entry->binary)
        error = load(entry);
    release();
    return error ? error : rtKernelLaunchWithHandleV2(entry->binary, 0, 1, NULL, NULL, stream, NULL);
}

VNPU_API aclnnStatus vnpu_missing_operator(const char *name, aclrtStream stream)
{
    const char *strict = getenv("VNPU_STRICT");
    bool fails = strict && strcmp(strict, "0") != 0;
    acquire();
    struct entry *entry = entry_of(name);
    bool first = entry && !entry->said;
    if (entry)
        entry->said = true;
    release();
    if (first)
        fprintf(stderr, "vnpu: there is no %s: %s\n", name, fails ? "it fails" : "it computes nothing");
    return fails ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT : vnpu_operator_launch(name, stream);
}
