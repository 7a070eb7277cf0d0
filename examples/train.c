/*
 * train - a small "training" on every card, with a leak.
 *
 * It does with device memory what a training loop does: weights live from beginning to end, activations and gradients come
 * and go in every step and differ in size between steps, and in every step from the second on one tensor is forgotten. All
 * of it goes through a caching pool, and each step of each card is an mstx range "step start". The program knows nothing of
 * any tool and runs the same without one.
 *
 * A leak is provable only in a later step, so after the training there is one validation step on each card, which leaks
 * nothing: what is planted is exactly what can be found. The cards take turns, so a tool that numbers the ranges of the
 * process counts card 0, card 1, card 0, ...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "caching_pool.h"
#include "mstx/ms_tools_ext.h"

enum {
    LAYERS = 6,
    WEIGHT_BYTES = 3 << 20,     /* of the first layer; layer i has (i + 1) times this */
    ACTIVATION_BYTES = 2 << 20, /* of one layer for one unit of batch */
    SAMPLE = 1024,              /* floats that are really computed with */
};

struct card {
    int32_t device;
    aclrtStream stream;
    struct pool *pool;
    void *weights[LAYERS];
    float *host; /* pinned, SAMPLE floats */
    uint64_t leaked_bytes, leaked_count;
};

static void check(int error, const char *what)
{
    if (!error)
        return;
    fprintf(stderr, "train: %s failed: error %d\n", what, error);
    exit(1);
}

static void *allocate(struct card *card, size_t bytes)
{
    int error;
    void *block = pool_alloc(card->pool, bytes, &error);
    if (!block) {
        fprintf(stderr, "train: card %d has no room for %zu bytes: error %d\n", card->device, bytes, error);
        exit(1);
    }
    return block;
}

static void open_card(struct card *card, int32_t device)
{
    card->device = device;
    check(aclrtSetDevice(device), "aclrtSetDevice");
    check(aclrtCreateStream(&card->stream), "aclrtCreateStream");
    check(aclrtMallocHost((void **)&card->host, SAMPLE * sizeof *card->host), "aclrtMallocHost");
    card->pool = pool_new(device);
    if (!card->pool)
        check(ACL_ERROR_INTERNAL_ERROR, "pool_new");
    for (int i = 0; i < SAMPLE; i++)
        card->host[i] = (float)(i % 7 + 1);
    for (int i = 0; i < LAYERS; i++) {
        size_t bytes = (size_t)(i + 1) * WEIGHT_BYTES;
        card->weights[i] = allocate(card, bytes);
        check(aclrtMemcpy(card->weights[i], bytes, card->host, SAMPLE * sizeof *card->host, ACL_MEMCPY_HOST_TO_DEVICE),
              "copy of the weights");
    }
}

/* The "learning": the sample of a layer's weights comes to the host, is scaled, and goes back. Returns its mean. */
static double update(struct card *card, int layer, size_t bytes, float scale)
{
    size_t sample = SAMPLE * sizeof *card->host;
    check(aclrtMemcpyAsync(card->host, sample, card->weights[layer], sample, ACL_MEMCPY_DEVICE_TO_HOST, card->stream),
          "copy to the host");
    check(aclrtSynchronizeStream(card->stream), "aclrtSynchronizeStream");
    double sum = 0;
    for (int i = 0; i < SAMPLE; i++) {
        card->host[i] *= scale;
        sum += card->host[i];
    }
    check(aclrtMemcpyAsync(card->weights[layer], bytes, card->host, sample, ACL_MEMCPY_HOST_TO_DEVICE, card->stream),
          "copy to the card");
    return sum / SAMPLE;
}

static unsigned ranges; /* "step start" ranges of the process so far, over all cards */

/* One step. `leak` bytes are forgotten, unless 0; without `training` there are no gradients. Returns the loss. */
static double step(struct card *card, uint64_t number, int training, size_t leak)
{
    check(aclrtSetDevice(card->device), "aclrtSetDevice");
    pool_reset_peak(card->pool);
    mstxRangeId range = mstxRangeStartA("step start", card->stream);
    ranges++;

    size_t batch = 1 + number * 5 % 4; /* differs from step to step */
    void *activations[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        size_t bytes = batch * ACTIVATION_BYTES + (size_t)i * 4096;
        activations[i] = allocate(card, bytes);
        check(aclrtMemsetAsync(activations[i], bytes, 0, 4096, card->stream), "aclrtMemsetAsync");
    }
    if (leak) {
        uint64_t before = pool_allocated(card->pool);
        void *forgotten = allocate(card, leak);
        check(aclrtMemsetAsync(forgotten, leak, 0x5A, leak < 4096 ? leak : 4096, card->stream), "aclrtMemsetAsync");
        card->leaked_bytes += pool_allocated(card->pool) - before; /* the pool's size of it, as a tool sees it */
        card->leaked_count++;
    }
    double loss = 0;
    for (int i = LAYERS - 1; i >= 0; i--) {
        size_t bytes = (size_t)(i + 1) * WEIGHT_BYTES;
        void *gradient = training ? allocate(card, bytes) : NULL;
        loss += update(card, i, bytes, training ? 0.9F : 1.0F);
        if (gradient)
            pool_free(card->pool, gradient);
        pool_free(card->pool, activations[i]);
    }
    check(aclrtSynchronizeStream(card->stream), "aclrtSynchronizeStream");
    mstxRangeEnd(range);
    return loss;
}

/* Prints the ordinal of the step's range too: it is what a tool calls the step. */
static void print_step(const struct card *card, const char *name, double loss)
{
    printf("%s, card %d (range %u): loss %.6f, %.1f MiB in use, %.1f MiB at the peak\n", name, card->device, ranges,
           loss, (double)pool_allocated(card->pool) / (1 << 20), (double)pool_peak(card->pool) / (1 << 20));
    fflush(stdout);
}

static void close_card(struct card *card)
{
    check(aclrtSetDevice(card->device), "aclrtSetDevice");
    for (int i = 0; i < LAYERS; i++)
        pool_free(card->pool, card->weights[i]);
    pool_empty_cache(card->pool);
    pool_delete(card->pool);
    check(aclrtFreeHost(card->host), "aclrtFreeHost");
    check(aclrtDestroyStream(card->stream), "aclrtDestroyStream");
    check(aclrtResetDevice(card->device), "aclrtResetDevice");
}

static int usage(const char *wrong)
{
    fprintf(stderr,
            "train: %s\n"
            "usage: train [--steps N] [--devices N] [--leak-bytes N]\n"
            "  --steps       training steps, default 10\n"
            "  --devices     cards to train on, default all\n"
            "  --leak-bytes  bytes that each step from the second on forgets on each card, default 1048576; 0: none\n",
            wrong);
    return 2;
}

static int number(const char *text, uint64_t max, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 18)
        return 0;
    *value = strtoull(text, &end, 10);
    return !*end && *value <= max;
}

int main(int argc, char **argv)
{
    uint64_t steps = 10, devices = 0, leak = 1 << 20;
    for (int i = 1; i < argc; i += 2) {
        uint64_t *value = !strcmp(argv[i], "--steps")        ? &steps
                          : !strcmp(argv[i], "--devices")    ? &devices
                          : !strcmp(argv[i], "--leak-bytes") ? &leak
                                                             : NULL;
        if (!value)
            return usage("unknown option");
        if (i + 1 == argc || !number(argv[i + 1], 1ULL << 40, value))
            return usage("an option needs a whole number");
        if ((value == &steps || value == &devices) && !*value)
            return usage("steps and devices are at least 1");
    }

    uint32_t present;
    check(aclInit(NULL), "aclInit");
    check(aclrtGetDeviceCount(&present), "aclrtGetDeviceCount");
    if (!devices)
        devices = present;
    if (devices > present) {
        fprintf(stderr, "train: --devices %llu, but there are %u\n", (unsigned long long)devices, present);
        return 1;
    }
    struct card *cards = calloc(devices, sizeof *cards);
    if (!cards)
        check(ACL_ERROR_INTERNAL_ERROR, "calloc");

    printf("training: %llu steps on %llu cards (%s)\n", (unsigned long long)steps, (unsigned long long)devices,
           aclrtGetSocName());
    for (uint64_t d = 0; d < devices; d++)
        open_card(&cards[d], (int32_t)d);
    for (uint64_t s = 1; s <= steps; s++)
        for (uint64_t d = 0; d < devices; d++) {
            char name[32];
            snprintf(name, sizeof name, "step %llu", (unsigned long long)s);
            double loss = step(&cards[d], s, 1, s > 1 ? leak : 0);
            print_step(&cards[d], name, loss);
        }
    for (uint64_t d = 0; d < devices; d++)
        print_step(&cards[d], "validation", step(&cards[d], steps + 1, 0, 0));
    for (uint64_t d = 0; d < devices; d++)
        close_card(&cards[d]);
    check(aclFinalize(), "aclFinalize");
    for (uint64_t d = 0; d < devices; d++)
        printf("card %d: leaked %llu bytes in %llu allocations\n", cards[d].device,
               (unsigned long long)cards[d].leaked_bytes, (unsigned long long)cards[d].leaked_count);
    free(cards);
    return 0;
}
