/*
 * collector.h - a small collector for the native tests: accepts targets, makes their rings, reads them.
 *
 * It lives in the test's own process (threads) or in its parent. It checks nothing by itself.
 */
#ifndef MSMEMSCOPE_TEST_COLLECTOR_H
#define MSMEMSCOPE_TEST_COLLECTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

enum { CLIENTS_MAX = 64 };

/* What the collector does wrong in its answer. */
enum fault {
    FAULT_NONE,
    FAULT_SILENT,       /* never answers */
    FAULT_HANG_UP,      /* closes without an answer */
    FAULT_SHORT,        /* half a welcome */
    FAULT_MAGIC,        /* of the welcome */
    FAULT_VERSION,      /* of the welcome */
    FAULT_NO_MEMORY,    /* accepted, but no descriptor */
    FAULT_SMALL_MEMORY, /* the memfd is too short for the size */
    FAULT_ODD_SIZE,     /* not a power of two */
    FAULT_RING_MAGIC,   /* the ring's own header */
};

/* One ring. */
struct client {
    pid_t pid; /* from SO_PEERCRED */
    struct ms_hello hello;
    struct ms_ring *ring;
    unsigned char *data;
    uint64_t head;
    uint64_t lost; /* records that were reserved and never published, found after a death */
};

struct collector {
    /* set by the test before collector_open */
    uint64_t ring_size;
    struct ms_config config;
    uint32_t tracing;
    uint32_t answer; /* enum ms_answer */
    enum fault fault;
    int delay_ms; /* before the answer */

    char name[64];
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
    struct client client[CLIENTS_MAX];
};

/* A collector that accepts, traces, wants all cards and the CPU, and has rings of 1 MiB. */
void collector_defaults(struct collector *c);
/* Listens, and puts its name into MSMEMSCOPE_SESSION. */
void collector_open(struct collector *c);
/* Starts the thread that answers; separate, so that a test can fork in between. */
void collector_serve(struct collector *c);
/* From here on connections are refused. */
void collector_close(struct collector *c);
/* Waits for the index-th client. */
struct client *collector_client(struct collector *c, int index);

/* How many there have been. */
int collector_count(struct collector *c);

/* The oldest record, when it is published; NULL otherwise. It stays until client_done. */
struct ms_head *client_peek(struct client *c);
void client_done(struct client *c);
/* After the target's death: steps over what was reserved and never published. False at the end of the ring. */
bool client_skip_debris(struct client *c);
/* The end of a batch: shows that the collector lives, and wakes who waits for room. */
void client_turn(struct client *c);

static inline uint64_t record_bytes(const struct ms_head *h)
{
    return (h->mark >> MS_MARK_WORDS_SHIFT & 0x3fff) * MS_RECORD_ALIGN;
}

static inline enum ms_type record_type(const struct ms_head *h)
{
    return (enum ms_type)(h->mark >> MS_MARK_TYPE_SHIFT & 0xffff);
}

static inline uint32_t record_tid(const struct ms_head *h)
{
    return (uint32_t)h->mark;
}

#endif
